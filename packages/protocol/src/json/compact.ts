import { BACKSLASH, QUOTE } from './text.ts';

const SLASH = 0x2f;
const LETTER_U = 0x75;
const SPACE = 0x20;
const WHITESPACE_OR_ESCAPE = /[ \t\n\r\\]/;
/** Bytes between two yields: a few milliseconds. */
const BYTES_PER_SLICE = 512 * 1024;
/** Characters that have an escape of two characters; others below U+0020 have one of six. */
const SHORT_ESCAPES: ReadonlyMap<number, string> = new Map(
  Object.entries({ '"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't' }).map(
    ([character, escaped]) => [character.charCodeAt(0), escaped],
  ),
);

/**
 * Removes whitespace from JSON and writes its strings as `JSON.stringify` does, so that escapes hide nothing. Numbers and
 * the order of members are unchanged, and duplicates remain. Expects valid JSON.
 *
 * One pass over the bytes that yields every few milliseconds, since the sender chooses the number of values: 4 MiB of
 * short strings, parsed one by one, take half a second.
 */
export function* compactJson(json: string): Generator<void, string> {
  if (!WHITESPACE_OR_ESCAPE.test(json)) return json;
  const bytes = Buffer.from(json);
  // No string becomes longer, so it is rewritten in place.
  let length = 0;
  let inString = false;
  let sliceEnd = BYTES_PER_SLICE;
  for (let at = 0; at < bytes.length; at++) {
    if (at >= sliceEnd) {
      yield;
      sliceEnd = at + BYTES_PER_SLICE;
    }
    const byte = bytes[at] ?? SPACE;
    if (byte === BACKSLASH) {
      const escaped = bytes[++at] ?? SPACE;
      if (escaped === LETTER_U) {
        const code = codeUnit(bytes, at + 1);
        const low = isHigh(code) ? codeUnitOfEscape(bytes, at + 5) : -1;
        const isPair = isLow(low);
        length = isPair ? writePair(bytes, length, code, low) : writeCodeUnit(bytes, length, code);
        at += isPair ? 10 : 4;
        continue;
      }
      if (escaped !== SLASH) bytes[length++] = BACKSLASH;
      bytes[length++] = escaped;
      continue;
    }
    // Smaller bytes outside of strings are whitespace.
    if (!inString && byte <= SPACE) continue;
    if (byte === QUOTE) inString = !inString;
    bytes[length++] = byte;
  }
  yield;
  return bytes.toString('utf8', 0, length);
}

function isHigh(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff;
}

function isLow(code: number): boolean {
  return code >= 0xdc00 && code <= 0xdfff;
}

/** Returns the value of four hexadecimal digits. */
function codeUnit(bytes: Buffer, start: number): number {
  let code = 0;
  for (let at = start; at < start + 4; at++) {
    const digit = bytes[at] ?? 0;
    code = code * 16 + (digit <= 0x39 ? digit - 0x30 : (digit | 0x20) - 0x57);
  }
  return code;
}

/** Returns the code unit of an escape `\u`; -1 if there is none at this position. */
function codeUnitOfEscape(bytes: Buffer, start: number): number {
  return bytes[start] === BACKSLASH && bytes[start + 1] === LETTER_U ? codeUnit(bytes, start + 2) : -1;
}

/** Writes a code unit to the position `at`, escaped only if necessary; returns the position after it. */
function writeCodeUnit(bytes: Buffer, at: number, code: number): number {
  const short = SHORT_ESCAPES.get(code);
  if (short !== undefined) return at + bytes.write(`\\${short}`, at, 'latin1');
  if (code < SPACE || isHigh(code) || isLow(code)) {
    return at + bytes.write(`\\u${code.toString(16).padStart(4, '0')}`, at, 'latin1');
  }
  if (code < 0x80) {
    bytes[at] = code;
    return at + 1;
  }
  if (code < 0x800) {
    bytes[at] = 0xc0 | (code >> 6);
    bytes[at + 1] = 0x80 | (code & 0x3f);
    return at + 2;
  }
  bytes[at] = 0xe0 | (code >> 12);
  bytes[at + 1] = 0x80 | ((code >> 6) & 0x3f);
  bytes[at + 2] = 0x80 | (code & 0x3f);
  return at + 3;
}

function writePair(bytes: Buffer, at: number, high: number, low: number): number {
  const code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
  bytes[at] = 0xf0 | (code >> 18);
  bytes[at + 1] = 0x80 | ((code >> 12) & 0x3f);
  bytes[at + 2] = 0x80 | ((code >> 6) & 0x3f);
  bytes[at + 3] = 0x80 | (code & 0x3f);
  return at + 4;
}
