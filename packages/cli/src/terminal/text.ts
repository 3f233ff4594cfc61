import { createRequire } from 'node:module';

/**
 * Characters that manipulate a terminal or mislead its reader: control characters, line and paragraph separators,
 * direction marks and invisible characters.
 */
const INVISIBLE =
  '\\u007f-\\u009f\\u061c\\u200b\\u200c\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u2069\\ufeff\\u{e0000}-\\u{e007f}';
/** Joins emoji into one; invisible anywhere else. */
const JOINER =
  '(?<!\\p{Extended_Pictographic}[\\ufe0f\\u{1f3fb}-\\u{1f3ff}]?)\\u200d|\\u200d(?!\\p{Extended_Pictographic})';
const HARMFUL = new RegExp(`[\\u0000-\\u001f${INVISIBLE}]|${JOINER}`, 'gu');
const HARMFUL_IN_JSON = new RegExp(`[${INVISIBLE}]|${JOINER}`, 'gu');
const BLANKS = /[\t\n\v\f\r]+/g;

/** Converts untrusted text to one printable line: line breaks become spaces, other control characters are escaped. */
export function sanitizeLine(text: string): string {
  return text.replace(BLANKS, ' ').replace(HARMFUL, escapeCharacters);
}

/** Same for multi-line text; line breaks and tabs are kept. */
export function sanitizeText(text: string): string {
  return text
    .replace(/\r\n/g, '\n')
    .replace(HARMFUL, (character) => (/[\n\t]/.test(character) ? character : escapeCharacters(character)));
}

/** Escapes control characters in JSON text without changing its value: they occur in strings only. */
export function sanitizeJson(json: string): string {
  return json.replace(HARMFUL_IN_JSON, escapeCharacters);
}

function escapeCharacters(character: string): string {
  // One code unit after the other, as JSON has it.
  return Array.from({ length: character.length }, (_unit, at) => {
    return `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`;
  }).join('');
}

/** Maximum length of a prompt. */
const MAX_LENGTH = 1000;

/** Shortens untrusted text for a prompt: collapses whitespace and blank lines and limits the length. */
export function abbreviate(text: string): string {
  const dense = text
    .replace(/[^\S\n]+/g, ' ')
    .replace(/ ?\n ?/g, '\n')
    .replace(/\n{3,}/g, '\n\n');
  return dense.length <= MAX_LENGTH ? dense : `${dense.slice(0, MAX_LENGTH)} …`;
}

/**
 * Maximum number of characters per column. Combining marks take no column, so text with thousands of them needs another
 * limit; real text stays far below.
 */
const CHARACTERS_PER_COLUMN = 8;

const ASCII = /^[\x20-\x7e]*$/;

/** Loaded for the first text that is not ASCII, because compiling its patterns takes a tenth of the time of a command. */
function stringWidth(): (line: string) => number {
  const { default: width }: typeof import('string-width') = createRequire(import.meta.url)('string-width');
  return width;
}

/** Returns the number of terminal columns of a line. */
export function displayWidth(line: string): number {
  return ASCII.test(line) ? line.length : stringWidth()(line);
}

/** Truncates a line to a number of columns, with an ellipsis at the end. */
export function truncateToWidth(line: string, columns: number): string {
  const most = CHARACTERS_PER_COLUMN * columns;
  if (line.length <= most && displayWidth(line) <= columns) return line;
  let cut = '';
  let used = 1;
  // Drop half of a surrogate pair at the end.
  for (const { segment } of new Intl.Segmenter().segment(line.slice(0, most).replace(/[\ud800-\udbff]$/, ''))) {
    used += displayWidth(segment);
    if (used > columns) break;
    cut += segment;
  }
  return `${cut}…`;
}

/** Pads a line with spaces to a number of columns. */
export function padToWidth(line: string, columns: number): string {
  return line + ' '.repeat(Math.max(0, columns - displayWidth(line)));
}
