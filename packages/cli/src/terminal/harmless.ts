/**
 * What a terminal or a reader could be led astray by: control characters, which move the cursor or change colours and
 * titles, line and paragraph separators, and the marks that turn the direction of writing around.
 */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
const HARMFUL = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
const HARMFUL_IN_JSON = /[\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
const BLANKS = /[\t\n\v\f\r]+/g;

/** Text from elsewhere as one line that can be shown: line breaks become blanks, other controls are spelled out. */
export function harmlessLine(text: string): string {
  return text.replace(BLANKS, ' ').replace(HARMFUL, spelled);
}

/** The same for text that may have several lines; they and tabs stay. */
export function harmlessText(text: string): string {
  return text
    .replace(/\r\n/g, '\n')
    .replace(HARMFUL, (character) => (/[\n\t]/.test(character) ? character : spelled(character)));
}

/** JSON text that shows the same and means the same. In JSON such characters stand in strings only, where they can be escaped. */
export function harmlessJson(json: string): string {
  return json.replace(HARMFUL_IN_JSON, spelled);
}

function spelled(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
