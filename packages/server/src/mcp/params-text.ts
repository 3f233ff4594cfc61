import { members, memberText } from '@sluice/json/scan';
import { type Edit, splice } from '@sluice/json/splice';

/** JSON text of a member of a message's params. */
export function paramText(text: string, name: string): string | undefined {
  return memberText(memberText(text, 'params') ?? '', name);
}

/** JSON text of the token that a request wants its progress reported under; undefined when it wants none. */
export function progressTokenText(text: string): string | undefined {
  return memberText(paramText(text, '_meta') ?? '', 'progressToken');
}

/** The message with another value for a member of its params; as it is when there is no such member. */
export function withParam(text: string, name: string, replacement: string): string {
  const edits: Edit[] = [];
  for (const { key, start } of members(text)) {
    if (key !== 'params') continue;
    for (const param of members(text, start)) {
      if (param.key === name) edits.push({ start: param.start, end: param.end, text: replacement });
    }
  }
  return splice(text, edits);
}
