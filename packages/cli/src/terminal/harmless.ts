/**
 * What a terminal or a reader could be led astray by: control characters, which move the cursor or change colours and
 * titles, line and paragraph separators, the marks that turn the direction of writing around, and what cannot be seen.
 */
const UNSEEN =
  '\\u007f-\\u009f\\u061c\\u200b\\u200c\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u2069\\ufeff\\u{e0000}-\\u{e007f}';
/** Joins emoji into one; anywhere else it is not seen. */
const JOINER =
  '(?<!\\p{Extended_Pictographic}[\\ufe0f\\u{1f3fb}-\\u{1f3ff}]?)\\u200d|\\u200d(?!\\p{Extended_Pictographic})';
const HARMFUL = new RegExp(`[\\u0000-\\u001f${UNSEEN}]|${JOINER}`, 'gu');
const HARMFUL_IN_JSON = new RegExp(`[${UNSEEN}]|${JOINER}`, 'gu');
const BLANKS = /[\t\n\v\f\r]+/g;

/** Text from elsewhere as one line that can be shown: line breaks become blanks, other controls are spelled out. */
export function sanitizeLine(text: string): string {
  return text.replace(BLANKS, ' ').replace(HARMFUL, escapeCharacters);
}

/** The same for text that may have several lines; they and tabs stay. */
export function sanitizeText(text: string): string {
  return text
    .replace(/\r\n/g, '\n')
    .replace(HARMFUL, (character) => (/[\n\t]/.test(character) ? character : escapeCharacters(character)));
}

/** JSON text that shows the same and means the same. In JSON such characters stand in strings only, where they can be escaped. */
export function sanitizeJson(json: string): string {
  return json.replace(HARMFUL_IN_JSON, escapeCharacters);
}

function escapeCharacters(character: string): string {
  // One code unit after the other, as JSON has it.
  return Array.from({ length: character.length }, (_unit, at) => {
    return `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`;
  }).join('');
}
