import { skipString } from '@sluice/json/scan';

const BLANK = /[ \t\n\r]/;
const NEXT = /[" \t\n\r]/g;

/**
 * JSON without blanks between its pieces, its strings written in the one way that `JSON.stringify` has, so that nothing
 * hides behind escapes; numbers stay as they are spelled. Members stay where they are, all of them. Takes one pass over
 * the text, however deep it is. Expects text that `JSON.parse` accepts.
 */
export function compactJson(json: string): string {
  if (!json.includes('\\') && !BLANK.test(json)) return json;
  let made = '';
  let from = 0;
  for (let at = nextOf(json, 0); at < json.length; at = nextOf(json, from)) {
    made += json.slice(from, at);
    from = at + 1;
    if (json[at] !== '"') continue;
    from = skipString(json, at);
    const spelled = json.slice(at, from);
    made += spelled.includes('\\') ? JSON.stringify(JSON.parse(spelled)) : spelled;
  }
  return made + json.slice(from);
}

function nextOf(json: string, from: number): number {
  NEXT.lastIndex = from;
  return NEXT.exec(json)?.index ?? json.length;
}
