/** Truncating and quoting of text that others have chosen, for messages, logs and metrics. */

/** Returns a number with its noun: `1 tool`, `2 tools`, `0 entries`. */
export function counted(count: number, noun: string): string {
  if (count === 1) return `1 ${noun}`;
  return `${count} ${noun.endsWith('y') ? `${noun.slice(0, -1)}ie` : noun}s`;
}

/** Returns at most `maxLength` UTF-16 code units of the text; no surrogate pair is split. */
export function truncate(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text;
  const splitsPair = (text.codePointAt(maxLength - 1) ?? 0) > 0xffff;
  return text.slice(0, splitsPair ? maxLength - 1 : maxLength);
}

/** Returns at most `maxCharacters` characters (code points) of the text. */
export function truncateCharacters(text: string, maxCharacters: number): string {
  if (text.length <= maxCharacters) return text;
  // A character takes at most two code units.
  return detach([...text.slice(0, 2 * maxCharacters)].slice(0, maxCharacters).join(''));
}

/**
 * Returns the longest beginning of the text that has at most `maxBytes` bytes in UTF-8. Lone surrogates become U+FFFD;
 * no character is split.
 */
export function truncateBytes(text: string, maxBytes: number): string {
  // A surrogate pair that this splits does not fit anyway.
  const head = text.slice(0, maxBytes).toWellFormed();
  if (Buffer.byteLength(head) <= maxBytes) return head;
  const encoded = Buffer.from(head);
  let end = maxBytes;
  while (((encoded[end] ?? 0) & 0xc0) === 0x80) end--;
  return encoded.toString('utf8', 0, end);
}

/** Returns the text, or its beginning and an ellipsis if it has more than `maxLength` code units. */
export function ellipsize(text: string, maxLength: number, ellipsis = '...'): string {
  return text.length > maxLength ? `${truncate(text, maxLength)}${ellipsis}` : text;
}

/** Returns the text as one line without control characters, truncated with an ellipsis. */
export function singleLine(text: string, maxLength: number): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is replaced
  const line = text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, ' ').trim();
  return ellipsize(line, maxLength, '…');
}

/**
 * Control characters, line and paragraph separators, direction marks and invisible characters, apart from C0 controls: they
 * manipulate a terminal or mislead its reader.
 */
export const INVISIBLE: RegExp =
  /[\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udc7f]/;
const ALL_INVISIBLE: RegExp = new RegExp(INVISIBLE, 'g');

/**
 * Escapes invisible characters as JSON does (`\u202e`). Text of which JSON.stringify has made a string keeps its value; in
 * other text, C0 control characters have to be replaced too: {@link printable}.
 */
export function escapeInvisible(text: string): string {
  return INVISIBLE.test(text) ? text.replace(ALL_INVISIBLE, escapeUnits) : text;
}

/** Escapes all characters that a terminal would not show as they are, line breaks included. */
export function printable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is replaced
  return escapeInvisible(text.replace(/[\u0000-\u001f]/g, escapeUnits));
}

function escapeUnits(characters: string): string {
  let escaped = '';
  for (let at = 0; at < characters.length; at++) {
    escaped += `\\u${characters.charCodeAt(at).toString(16).padStart(4, '0')}`;
  }
  return escaped;
}

/** Returns the text in double quotes with escapes, truncated with an ellipsis. */
export function quoteText(text: string, maxLength: number): string {
  return JSON.stringify(ellipsize(text, maxLength));
}

/**
 * Returns a well-formed copy of the text. A slice of a longer text retains all of it in memory; store a copy
 * instead.
 */
export function detach(text: string): string {
  return Buffer.from(text).toString();
}
