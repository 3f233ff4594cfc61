/** Truncating and quoting of text that others have chosen, for messages, logs and metrics. */

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
