import { BACKSLASH, CLOSE_BRACE, COLON, OPEN_BRACE, QUOTE, skipSpace, stringValue } from './text.ts';

/** Number of keys of an object up to which a linear search is faster than a set. */
const MAX_LINEAR = 16;
/** Work between two yields: a few milliseconds, whatever the text. */
const KEYS_PER_SLICE = 5_000;
const CHARACTERS_PER_SLICE = 256 * 1024;

/** Keys of an open object, as JSON text without escapes that are not needed. */
interface OpenObject {
  readonly keys: string[];
  set: Set<string> | undefined;
}

/** What is wrong with the members of an object: a key occurs twice, or there are too many. */
export type MemberProblem =
  | { readonly kind: 'duplicate'; readonly key: string }
  | { readonly kind: 'crowded'; readonly key?: undefined };

/**
 * Finds an object at any depth of the text from `start` to `end`, which is valid JSON, that has a key twice, written with
 * escapes or not, or more than `maxMembers` members. Takes linear time and yields every few milliseconds, so that a caller
 * can search a large text without blocking.
 *
 * Keys are compared up to U+0000, where readers written in C end them, with U+FFFD for lone surrogates.
 */
export function* findMemberProblem(
  text: string,
  start: number,
  end: number,
  maxMembers: number,
): Generator<void, MemberProblem | undefined> {
  const open: OpenObject[] = [];
  let keys = 0;
  let sliceEnd = start + CHARACTERS_PER_SLICE;
  for (let at = start; at < end; at++) {
    if (keys === KEYS_PER_SLICE || at >= sliceEnd) {
      yield;
      keys = 0;
      sliceEnd = at + CHARACTERS_PER_SLICE;
    }
    const code = text.charCodeAt(at);
    if (code === OPEN_BRACE) open.push({ keys: [], set: undefined });
    else if (code === CLOSE_BRACE) open.pop();
    if (code !== QUOTE) continue;
    const stringStart = at;
    let isEscaped = false;
    for (at++; text.charCodeAt(at) !== QUOTE; at++) {
      if (text.charCodeAt(at) === BACKSLASH) {
        isEscaped = true;
        at++;
      }
      if (at < sliceEnd) continue;
      yield;
      sliceEnd = at + CHARACTERS_PER_SLICE;
    }
    const object = open.at(-1);
    // Only a key is followed by a colon.
    if (!object || text.charCodeAt(skipSpace(text, at + 1)) !== COLON) continue;
    const raw = text.slice(stringStart, at + 1);
    const key = isEscaped ? normalized(raw) : raw;
    if (!add(object, key)) return { kind: 'duplicate', key: stringValue(key) };
    if ((object.set?.size ?? object.keys.length) > maxMembers) return { kind: 'crowded' };
    keys++;
  }
  return undefined;
}

/** Adds a key; false if the object has it already. With its quotes no key is a number, whose hashes are predictable. */
function add(object: OpenObject, key: string): boolean {
  const { keys, set } = object;
  if (set) return set.size !== set.add(key).size;
  if (keys.includes(key)) return false;
  keys.push(key);
  if (keys.length > MAX_LINEAR) object.set = new Set(keys);
  return true;
}

function normalized(key: string): string {
  const [name = ''] = stringValue(key).split('\0');
  return JSON.stringify(name.toWellFormed());
}
