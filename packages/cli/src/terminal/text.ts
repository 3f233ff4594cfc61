import stringWidth from 'string-width';

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

/** Longer than any question that people read. */
const LONGEST = 1000;

/** Text from elsewhere that people are to read: with single blanks, without empty pages, and not without end. */
export function abbreviate(text: string): string {
  const dense = text
    .replace(/[^\S\n]+/g, ' ')
    .replace(/ ?\n ?/g, '\n')
    .replace(/\n{3,}/g, '\n\n');
  return dense.length <= LONGEST ? dense : `${dense.slice(0, LONGEST)} …`;
}

/**
 * Most characters for each column. Marks need no column, and a thousand of them on a letter would be a line of its own in
 * the terminal's memory, and a tower on its screen; what people write stays far below.
 */
const CHARACTERS_PER_COLUMN = 8;

const ASCII = /^[\x20-\x7e]*$/;

/** How many columns a terminal needs for a line. */
export function displayWidth(line: string): number {
  return ASCII.test(line) ? line.length : stringWidth(line);
}

/** The line, cut to a number of columns; what was cut has an ellipsis as its last character. */
export function truncateToWidth(line: string, columns: number): string {
  const most = CHARACTERS_PER_COLUMN * columns;
  if (line.length <= most && displayWidth(line) <= columns) return line;
  let cut = '';
  let used = 1;
  // Half a character at the end would be shown as something else.
  for (const { segment } of new Intl.Segmenter().segment(line.slice(0, most).replace(/[\ud800-\udbff]$/, ''))) {
    used += displayWidth(segment);
    if (used > columns) break;
    cut += segment;
  }
  return `${cut}…`;
}

/** The line, followed by blanks up to a number of columns. */
export function padToWidth(line: string, columns: number): string {
  return line + ' '.repeat(Math.max(0, columns - displayWidth(line)));
}
