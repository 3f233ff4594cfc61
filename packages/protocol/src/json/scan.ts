/**
 * Finds where values stand in JSON text, so that they can be cut out or replaced without being spelled anew: numbers,
 * escapes and unknown members stay exactly as their sender wrote them (mcp 2).
 *
 * Everything here expects text that `JSON.parse` has accepted; on other text the ranges mean nothing.
 */

/** Code units of JSON's punctuation. */

export const QUOTE = 0x22;
export const BACKSLASH = 0x5c;
export const COMMA = 0x2c;
export const OPEN_BRACE = 0x7b;
export const CLOSE_BRACE = 0x7d;
export const OPEN_BRACKET = 0x5b;
export const CLOSE_BRACKET = 0x5d;
export const COLON = 0x3a;

/** Where one member of an object stands: its decoded key, and its value's range (`end` is exclusive). */
export interface Member {
  key: string;
  start: number;
  end: number;
}

/** Yields the members of the object that begins at or after `start`, duplicates included; nothing for other values. */
export function* members(text: string, start = 0): Generator<Member> {
  let at = skipSpace(text, start);
  if (text.charCodeAt(at) !== OPEN_BRACE) return;
  at = skipSpace(text, at + 1);
  while (text.charCodeAt(at) === QUOTE) {
    const keyEnd = skipString(text, at);
    const raw = text.slice(at + 1, keyEnd - 1);
    const key = raw.includes('\\') ? String(JSON.parse(`"${raw}"`)) : raw;
    const valueStart = skipSpace(text, skipSpace(text, keyEnd) + 1);
    const valueEnd = skipValue(text, valueStart);
    yield { key, start: valueStart, end: valueEnd };
    at = skipSpace(text, valueEnd);
    if (text.charCodeAt(at) !== COMMA) return;
    at = skipSpace(text, at + 1);
  }
}

/** Yields the ranges of the elements of the array that begins at or after `start`; nothing for other values. */
export function* elements(text: string, start = 0): Generator<{ start: number; end: number }> {
  let at = skipSpace(text, start);
  if (text.charCodeAt(at) !== OPEN_BRACKET) return;
  at = skipSpace(text, at + 1);
  while (at < text.length && text.charCodeAt(at) !== CLOSE_BRACKET) {
    const end = skipValue(text, at);
    yield { start: at, end };
    at = skipSpace(text, end);
    if (text.charCodeAt(at) !== COMMA) return;
    at = skipSpace(text, at + 1);
  }
}

/** The exact text of member `key` of the object at `start`; of duplicates the last, which is the one `JSON.parse` keeps. */
export function memberText(text: string, key: string, start = 0): string | undefined {
  let found: Member | undefined;
  for (const member of members(text, start)) if (member.key === key) found = member;
  return found && text.slice(found.start, found.end);
}

/** The position after white space. */
export function skipSpace(text: string, at: number): number {
  let code = text.charCodeAt(at);
  while (code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09) code = text.charCodeAt(++at);
  return at;
}

/** The position after the string whose opening quote stands at `at`. */
export function skipString(text: string, at: number): number {
  let quote = text.indexOf('"', at + 1);
  while (quote !== -1) {
    let back = quote - 1;
    while (text.charCodeAt(back) === BACKSLASH) back--;
    // An even number of backslashes escape each other and leave the quote as it is.
    if ((quote - back) % 2 === 1) return quote + 1;
    quote = text.indexOf('"', quote + 1);
  }
  return text.length;
}

/** The position after the value that begins at `at`. */
function skipValue(text: string, at: number): number {
  const first = text.charCodeAt(at);
  if (first === QUOTE) return skipString(text, at);
  if (first === OPEN_BRACE || first === OPEN_BRACKET) {
    let depth = 0;
    while (at < text.length) {
      const code = text.charCodeAt(at);
      if (code === QUOTE) {
        at = skipString(text, at);
        continue;
      }
      at++;
      if (code === OPEN_BRACE || code === OPEN_BRACKET) depth++;
      else if ((code === CLOSE_BRACE || code === CLOSE_BRACKET) && --depth === 0) return at;
    }
    return at;
  }
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code === COMMA || code === CLOSE_BRACE || code === CLOSE_BRACKET || code <= 0x20) return at;
    at++;
  }
  return at;
}
