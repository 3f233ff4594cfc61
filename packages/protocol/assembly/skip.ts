/**
 * WebAssembly part of the JSON scanner (`src/json/scanner.ts`), in AssemblyScript: validates everything that the scanner does
 * not report, which is most of a large text. Strings are read 16 bytes at a time. `npm run generate` compiles it.
 */

/** Maximum number of bytes of one call, and of levels that it can close. */
export const MAX_INPUT: i32 = 65_536;
/** Address of the input, followed by a block that may be read but is ignored. */
export const INPUT: usize = memory.data(65_536 + 16);
/** Address of the innermost open containers, one byte each: 1 for an object, 0 for an array. */
export const OPEN: usize = memory.data(2 * 65_536);

/** Address of the registers, 32 bits each, which are set before a call and updated by it. */
export const REGISTERS: usize = memory.data(8 * 4);
const STATE: usize = REGISTERS;
/** Number of open containers in {@link OPEN}. */
const DEPTH: usize = REGISTERS + 4;
const MAX_DEPTH: usize = REGISTERS + 8;
/** Whether the current string is a key. */
const IN_KEY: usize = REGISTERS + 12;
/** Hexadecimal digits of the current escape, or bytes of the current literal, so far. */
const PROGRESS: usize = REGISTERS + 16;
const RESULT: usize = REGISTERS + 20;
/** Number of arrays, objects and commas in the call. */
const SIZE: usize = REGISTERS + 24;
/** Set once a string had bytes beyond ASCII; never reset by a call. */
const BEYOND_ASCII: usize = REGISTERS + 28;

/** Results. More: the input has ended. Done: the value or key has ended at the returned position. */
const MORE: i32 = 0;
const DONE: i32 = 1;
const INVALID: i32 = 2;

/** States, as in `scanner.ts`. Those from VALUE to COMMA_OR_END are between tokens. */
const VALUE: i32 = 0;
const ELEMENT_OR_END: i32 = 1;
const KEY_OR_END: i32 = 2;
const KEY: i32 = 3;
const COLON: i32 = 4;
const COMMA_OR_END: i32 = 5;
const STRING: i32 = 6;
const ESCAPE: i32 = 7;
const HEX: i32 = 8;
const TRUE: i32 = 9;
const FALSE: i32 = 10;
const NULL: i32 = 11;
/** Within a number, by what precedes. A number may end in the states from ZERO to EXPONENT_DIGITS. */
const ZERO: i32 = 12;
const INTEGER: i32 = 13;
const FRACTION: i32 = 14;
const EXPONENT_DIGITS: i32 = 15;
const MINUS: i32 = 16;
const POINT: i32 = 17;
const EXPONENT: i32 = 18;
const EXPONENT_SIGN: i32 = 19;

/** Classes of the bytes between tokens; 0 is invalid. */
const SPACE: u8 = 1;
const COMMA_CLASS: u8 = 2;
const QUOTE: u8 = 3;
const COLON_CLASS: u8 = 4;
const DIGIT: u8 = 5;
const OPENING: u8 = 6;
const CLOSING: u8 = 7;
const OTHER_VALUE: u8 = 8;
const CLASSES: usize = memory.data(256);
setClass(' \n\r\t', SPACE);
setClass(',', COMMA_CLASS);
setClass('"', QUOTE);
setClass(':', COLON_CLASS);
setClass('0123456789', DIGIT);
setClass('{[', OPENING);
setClass('}]', CLOSING);
setClass('-tfn', OTHER_VALUE);

function setClass(characters: string, byteClass: u8): void {
  for (let at = 0; at < characters.length; at++) store<u8>(CLASSES + characters.charCodeAt(at), byteClass);
}

/** 1 for the bytes of ASCII that need no escape in a string. */
const PLAIN: usize = memory.data(256);
memory.fill(PLAIN + 0x20, 1, 0x80 - 0x20);
store<u8>(PLAIN + 0x22, 0);
store<u8>(PLAIN + 0x5c, 0);

/** Length of the literal at `at`, where 5 bytes can be read; 0 without one. */
function literalLength(at: usize): i32 {
  const first = load<u32>(at);
  if (first === 0x65757274 || first === 0x6c6c756e) return 4;
  return first === 0x736c6166 && load<u8>(at + 4) === 0x65 ? 5 : 0;
}

/** The literals, 8 bytes each, in the order of their states. */
const LITERALS: usize = memory.data<u8>([
  0x74, 0x72, 0x75, 0x65, 0, 0, 0, 0, 0x66, 0x61, 0x6c, 0x73, 0x65, 0, 0, 0, 0x6e, 0x75, 0x6c, 0x6c, 0, 0, 0, 0,
]);

/**
 * Continues a value, or a key, from position `from` of the input up to its end or `to`. Returns the position after it, or that
 * of the first invalid byte.
 */
export function skip(from: i32, to: i32): i32 {
  let state = load<i32>(STATE);
  let depth = load<i32>(DEPTH);
  let maxDepth = depth;
  let isObject = depth > 0 ? <i32>load<u8>(OPEN + depth - 1) : 0;
  let inKey = load<i32>(IN_KEY) !== 0;
  let result = MORE;
  let size = 0;
  let at = INPUT + from;
  const end = INPUT + to;

  while (at < end) {
    if (state <= COMMA_OR_END) {
      const byte = load<u8>(at);
      at++;
      switch (load<u8>(CLASSES + byte)) {
        case SPACE:
          continue;
        case COMMA_CLASS:
          if (state !== COMMA_OR_END) break;
          state = isObject ? KEY : VALUE;
          size++;
          continue;
        case QUOTE:
          if (state >= COLON) break;
          inKey = state >= KEY_OR_END;
          state = STRING;
          // Most keys are short.
          for (const limit = min(end, at + 16); at < limit && load<u8>(PLAIN + load<u8>(at)) !== 0; ) at++;
          if (at < end && load<u8>(at) === 0x22 && depth > 0) {
            at++;
            state = inKey ? COLON : COMMA_OR_END;
            if (inKey && at < end && load<u8>(at) === 0x3a) {
              at++;
              state = VALUE;
            }
            inKey = false;
          }
          continue;
        case COLON_CLASS:
          if (state !== COLON) break;
          state = VALUE;
          continue;
        case DIGIT:
          if (state > ELEMENT_OR_END) break;
          state = ZERO;
          if (byte !== 0x30) {
            while (at < end && isDigit(load<u8>(at))) at++;
            state = INTEGER;
          }
          if (at + 1 < end && load<u8>(at) === 0x2e && isDigit(load<u8>(at + 1))) {
            at += 2;
            while (at < end && isDigit(load<u8>(at))) at++;
            state = FRACTION;
          }
          if (at < end && depth > 0) {
            const next = load<u8>(CLASSES + load<u8>(at));
            if (next === COMMA_CLASS) {
              at++;
              state = isObject ? KEY : VALUE;
              size++;
            } else if (next === CLOSING) state = COMMA_OR_END;
          }
          continue;
        case OPENING:
          if (state > ELEMENT_OR_END) break;
          // Its closing bracket, if it is empty.
          if (depth > 0 && at < end && load<u8>(at) === byte + 2) {
            at++;
            size++;
            if (depth >= maxDepth) maxDepth = depth + 1;
            state = COMMA_OR_END;
            continue;
          }
          state = byte === 0x7b ? KEY_OR_END : ELEMENT_OR_END;
          isObject = state - ELEMENT_OR_END;
          store<u8>(OPEN + depth, isObject);
          depth++;
          size++;
          if (depth > maxDepth) maxDepth = depth;
          continue;
        case CLOSING: {
          if (byte === 0x7d) {
            if (isObject === 0 || (state !== COMMA_OR_END && state !== KEY_OR_END)) break;
          } else if (isObject !== 0 || (state !== COMMA_OR_END && state !== ELEMENT_OR_END)) break;
          depth--;
          isObject = load<u8>(OPEN + depth - 1);
          state = COMMA_OR_END;
          if (depth > 0) {
            if (at < end && load<u8>(at) === 0x2c) {
              at++;
              state = isObject ? KEY : VALUE;
              size++;
            }
            continue;
          }
          result = DONE;
          break;
        }
        case OTHER_VALUE:
          if (state > ELEMENT_OR_END) break;
          state = firstState(byte);
          if (state <= NULL && depth > 0 && at + 4 <= end) {
            const length = literalLength(at - 1);
            if (length !== 0) {
              at += length - 1;
              state = COMMA_OR_END;
              continue;
            }
          }
          store<i32>(PROGRESS, 1);
          continue;
      }
      if (result === DONE) break;
      at--;
      result = INVALID;
      break;
    } else if (state === STRING) {
      at = stringStop(at, end);
      if (at >= end) {
        if (at > end) {
          state = ESCAPE;
          at = end;
        }
        break;
      }
      const byte = load<u8>(at);
      if (byte === 0x22) {
        at++;
        if (depth === 0) {
          result = DONE;
          break;
        }
        state = inKey ? COLON : COMMA_OR_END;
        inKey = false;
      } else if (byte === 0x75) {
        // The `u` of an escape.
        at++;
        store<i32>(PROGRESS, 0);
        state = HEX;
      } else {
        result = INVALID;
        break;
      }
    } else if (state >= ZERO) {
      const byte = load<u8>(at);
      const next = nextOfNumber(state, byte);
      if (next >= 0) {
        state = next;
        at++;
      } else if (state > EXPONENT_DIGITS) {
        result = INVALID;
        break;
      } else if (depth === 0) {
        result = DONE;
        break;
      } else {
        state = COMMA_OR_END;
      }
    } else {
      const byte = load<u8>(at);
      const progress = load<i32>(PROGRESS);
      if (state === ESCAPE) {
        if (byte === 0x75) {
          store<i32>(PROGRESS, 0);
          state = HEX;
        } else if (isSimpleEscape(byte)) {
          state = STRING;
        } else {
          result = INVALID;
          break;
        }
      } else if (state === HEX) {
        const letter = byte | 0x20;
        if ((byte < 0x30 || byte > 0x39) && (letter < 0x61 || letter > 0x66)) {
          result = INVALID;
          break;
        }
        store<i32>(PROGRESS, progress + 1);
        if (progress === 3) state = STRING;
      } else {
        const literal = LITERALS + ((state - TRUE) << 3);
        if (byte !== load<u8>(literal + progress)) {
          result = INVALID;
          break;
        }
        store<i32>(PROGRESS, progress + 1);
        if (load<u8>(literal + progress + 1) === 0) {
          if (depth === 0) {
            result = DONE;
            at++;
            break;
          }
          state = COMMA_OR_END;
        }
      }
      at++;
    }
  }

  store<i32>(STATE, state);
  store<i32>(DEPTH, depth);
  store<i32>(MAX_DEPTH, maxDepth);
  store<i32>(IN_KEY, inKey ? 1 : 0);
  store<i32>(RESULT, result);
  store<i32>(SIZE, size);
  return <i32>(at - INPUT);
}

/** State after the first byte of a literal or of a negative number. */
function firstState(byte: u8): i32 {
  if (byte === 0x2d) return MINUS;
  return byte === 0x74 ? TRUE : byte === 0x66 ? FALSE : NULL;
}

function isDigit(byte: u8): bool {
  return <u32>(byte - 0x30) <= 9;
}

/** State after another byte of a number; -1 if it cannot belong to the number. */
function nextOfNumber(state: i32, byte: u8): i32 {
  if (byte >= 0x30 && byte <= 0x39) {
    if (state === ZERO) return -1;
    if (state === MINUS) return byte === 0x30 ? ZERO : INTEGER;
    if (state === POINT) return FRACTION;
    return state >= EXPONENT ? EXPONENT_DIGITS : state;
  }
  if (byte === 0x2e) return state === ZERO || state === INTEGER ? POINT : -1;
  if ((byte | 0x20) === 0x65) return state >= ZERO && state <= FRACTION ? EXPONENT : -1;
  return (byte === 0x2b || byte === 0x2d) && state === EXPONENT ? EXPONENT_SIGN : -1;
}

function isSimpleEscape(byte: u8): bool {
  if (byte === 0x22 || byte === 0x5c || byte === 0x2f) return true;
  return byte === 0x62 || byte === 0x66 || byte === 0x6e || byte === 0x72 || byte === 0x74;
}

/**
 * Address in a string of its closing quote, of the `u` of an escape or of an invalid byte; `end` without one, or `end` + 1 if
 * the text ends after the backslash of an escape.
 */
function stringStop(from: usize, end: usize): usize {
  let at = from;
  /** 1 if an escape has begun before `at`. */
  let isEscaped: i32 = 0;
  /** Not 0 if a byte was beyond ASCII, possibly after the stop: a text is then taken for one that is not ASCII. */
  let beyond: i32 = 0;
  while (at < end) {
    const block = v128.load(at);
    const length: i32 = <i32>min<usize>(end - at, 16);
    const mask: i32 = (1 << length) - 1;
    let backslashes = i8x16.bitmask(i8x16.eq(block, i8x16.splat(0x5c))) & mask;
    let quotes = i8x16.bitmask(i8x16.eq(block, i8x16.splat(0x22))) & mask;
    let stops = i8x16.bitmask(i8x16.lt_u(block, i8x16.splat(0x20))) & mask;
    beyond |= i8x16.bitmask(block) & mask;
    if ((backslashes | isEscaped) !== 0) {
      // Bytes after an odd number of backslashes, by the carry of an addition for each sequence of them.
      backslashes &= ~isEscaped;
      const following = (backslashes << 1) | isEscaped;
      const oddStarts = backslashes & ~0x5555 & ~following;
      const escaped = (0x15555 ^ ((oddStarts + backslashes) << 1)) & following;
      quotes &= ~escaped;
      stops |= escaped & mask & ~simpleEscapes(block);
      isEscaped = (escaped >> length) & 1;
    }
    stops |= quotes;
    if (stops !== 0) {
      at += ctz(stops);
      break;
    }
    at += length;
    if (at >= end) at += isEscaped;
  }
  if (beyond !== 0) store<i32>(BEYOND_ASCII, 1);
  return at;
}

/** Bytes of the block that may follow a backslash, except `u`, as a bit mask: those with a common bit in two tables. */
// biome-ignore format: one row for each half
function simpleEscapes(block: v128): i32 {
  const byLow = i8x16.swizzle(
    i8x16(0, 0, 13, 0, 8, 0, 4, 0, 0, 0, 0, 0, 2, 0, 4, 1),
    v128.and(block, i8x16.splat(0x0f)),
  );
  const byHigh = i8x16.swizzle(
    i8x16(0, 0, 1, 0, 0, 2, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0),
    i8x16.shr_u(block, 4),
  );
  return i8x16.bitmask(i8x16.ne(v128.and(byLow, byHigh), i8x16.splat(0)));
}
