import { quoteText } from '../text.ts';
import {
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COLON,
  COMMA,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
  skipSpace,
  skipString,
} from './text.ts';

/** Maximum nesting: each level needs a stack frame. */
const MAX_DEPTH = 2_500;

/** Maximum length of a key in an error. */
const MAX_KEY_LENGTH = 100;

/** First letters of JSON's literals. */
const TRUE = 0x74;
const FALSE = 0x66;
const NULL = 0x6e;

const MEMBER = { enumerable: true, configurable: true, writable: true } as const;

/**
 * True when a key of any object in the text contains an escape.
 *
 * `JSON.parse` of V8 12.8 to (at least) 14.6 confuses such a key with another one from an object that was parsed
 * before: after `{"a":1,"na\\u":2}` it parses `{"a":1,"na\u006de":2}` with a member `na\u` instead of `name`
 * (nodejs/node issue 63785). One client could change how another client's message is parsed, so texts with such keys
 * are parsed by {@link readJson}. Expects valid JSON.
 */
export function hasEscapedKey(text: string): boolean {
  let backslash = text.indexOf('\\');
  let at = backslash === -1 ? -1 : text.indexOf('"');
  while (at !== -1) {
    const end = skipString(text, at);
    if (backslash < at) backslash = text.indexOf('\\', at);
    if (backslash === -1) return false;
    if (backslash < end && text.charCodeAt(skipSpace(text, end)) === COLON) return true;
    at = text.indexOf('"', end);
  }
  return false;
}

/**
 * Parses JSON text that `JSON.parse` accepts, without using it for keys. `numberOf` converts the text of a number.
 * SyntaxError when it is nested too deeply and, with `uniqueKeys`, when an object has two members of the same key.
 */
export function readJson<N>(text: string, numberOf: (text: string) => N, uniqueKeys = false): Json<N> {
  return new Reader(text, numberOf, uniqueKeys).value(0);
}

/** Parsed value: JSON with numbers of some type. */
export type Json<N> = string | boolean | null | N | Json<N>[] | { [key: string]: Json<N> };

class Reader<N> {
  readonly #text: string;
  readonly #numberOf: (text: string) => N;
  readonly #uniqueKeys: boolean;
  #at = 0;

  constructor(text: string, numberOf: (text: string) => N, uniqueKeys = false) {
    this.#text = text;
    this.#numberOf = numberOf;
    this.#uniqueKeys = uniqueKeys;
  }

  value(depth: number): Json<N> {
    if (depth > MAX_DEPTH) throw new SyntaxError('nested too deeply');
    this.#at = skipSpace(this.#text, this.#at);
    switch (this.#text.charCodeAt(this.#at)) {
      case OPEN_BRACE:
        return this.#object(depth);
      case OPEN_BRACKET:
        return this.#array(depth);
      case QUOTE:
        return this.#string();
      case TRUE:
        this.#at += 4;
        return true;
      case FALSE:
        this.#at += 5;
        return false;
      case NULL:
        this.#at += 4;
        return null;
      default:
        return this.#number();
    }
  }

  #object(depth: number): Json<N> {
    const object: { [key: string]: Json<N> } = {};
    this.#at = skipSpace(this.#text, this.#at + 1);
    while (this.#text.charCodeAt(this.#at) === QUOTE) {
      const key = this.#key();
      if (this.#uniqueKeys && Object.hasOwn(object, key)) {
        throw new SyntaxError(`duplicate key ${quoteText(key, MAX_KEY_LENGTH)}`);
      }
      this.#at = skipSpace(this.#text, this.#at) + 1;
      const value = this.value(depth + 1);
      // An assignment would set the prototype.
      if (key === '__proto__') Object.defineProperty(object, key, { ...MEMBER, value });
      else object[key] = value;
      this.#next();
    }
    this.#at++;
    return object;
  }

  #array(depth: number): Json<N> {
    const elements: Json<N>[] = [];
    this.#at = skipSpace(this.#text, this.#at + 1);
    while (this.#text.charCodeAt(this.#at) !== CLOSE_BRACKET) {
      elements.push(this.value(depth + 1));
      this.#next();
    }
    this.#at++;
    return elements;
  }

  /** Skips the comma, or stays at the closing bracket. */
  #next(): void {
    this.#at = skipSpace(this.#text, this.#at);
    if (this.#text.charCodeAt(this.#at) === COMMA) this.#at = skipSpace(this.#text, this.#at + 1);
  }

  #key(): string {
    const end = skipString(this.#text, this.#at);
    const raw = this.#text.slice(this.#at + 1, end - 1);
    if (raw.includes('\\')) return this.#string();
    this.#at = end;
    return raw;
  }

  /** Parsed instead of sliced: a slice retains the whole text in memory. */
  #string(): string {
    const end = skipString(this.#text, this.#at);
    const text: unknown = JSON.parse(this.#text.slice(this.#at, end));
    this.#at = end;
    return String(text);
  }

  #number(): N {
    let end = this.#at;
    for (let code = this.#text.charCodeAt(end); !isEnd(code); code = this.#text.charCodeAt(++end));
    const number = this.#numberOf(this.#text.slice(this.#at, end));
    this.#at = end;
    return number;
  }
}

/** True for a character that may follow a number; NaN is the end of the text. */
function isEnd(code: number): boolean {
  return Number.isNaN(code) || code === COMMA || code === CLOSE_BRACE || code === CLOSE_BRACKET || code <= 0x20;
}

/** A JSON value; numbers whose text a double cannot reproduce are `JSON.rawJSON` objects. */
export type JsonValue = string | number | boolean | null | RawNumber | JsonValue[] | JsonObject;
/** A parsed JSON object, its members in the order of the text. */
export type JsonObject = { [key: string]: JsonValue };

/** A number as its exact text, created by `JSON.rawJSON`. */
export interface RawNumber {
  readonly rawJSON: string;
}

declare global {
  // In Node.js since 21; not yet in TypeScript's library.
  interface JSON {
    rawJSON(text: string): RawNumber;
    isRawJSON(value: unknown): value is RawNumber;
  }
}

/**
 * Parses JSON so that `JSON.stringify` reproduces the exact text of every number (9223372036854775807 and 1.0).
 *
 * For objects that are changed and serialized again; the relay edits text instead. Throws the `SyntaxError` of
 * `JSON.parse`, or one for values nested more than 2,500 levels deep, which could exhaust the stack. With `uniqueKeys` it also
 * throws one for an object with two members of the same key, of which other readers might use the first.
 */
export function parseLossless(text: string, { uniqueKeys = false } = {}): JsonValue {
  const value: JsonValue = JSON.parse(text);
  // Strings need no further parsing. A reviver, which gets the text of numbers, takes at least twice as long.
  return typeof value === 'string' ? value : new Reader(text, toExactNumber, uniqueKeys).value(0);
}

function toExactNumber(source: string): number | RawNumber {
  const number = Number(source);
  return String(number) === source ? number : JSON.rawJSON(source);
}

/** True for a JSON object (not an array, not a raw number). */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !JSON.isRawJSON(value);
}

/**
 * Maximum number of values in untrusted text, about: its arrays, objects and commas. More take longer to parse than a turn of the
 * event loop should.
 */
export const MAX_PARSED_VALUES = 50_000;

/** Whether JSON has more values than this, by its commas and brackets outside strings. */
export function hasMoreValues(text: string, limit: number): boolean {
  // A value takes at least two characters.
  if (text.length <= 2 * limit) return false;
  // Most long texts have so few of these characters that it does not matter which of them are in strings.
  const separators = /[,{[]/g;
  let found = 0;
  while (found <= limit && separators.test(text)) found++;
  if (found <= limit) return false;
  let count = 0;
  for (let at = 0; at < text.length && count <= limit; ) {
    const code = text.charCodeAt(at);
    if (code === COMMA || code === OPEN_BRACE || code === OPEN_BRACKET) count++;
    at = code === QUOTE ? skipString(text, at) : at + 1;
  }
  return count > limit;
}

/**
 * `JSON.parse` without V8's bug with escaped keys (see {@link hasEscapedKey}), for untrusted text. Costs one search for a
 * backslash if there are none. `maxValues` may be any number where nothing waits for the thread.
 *
 * @throws SyntaxError also for more values than `maxValues`
 */
export function parseJson(text: string, maxValues: number = MAX_PARSED_VALUES): unknown {
  if (hasMoreValues(text, maxValues)) throw new SyntaxError(`more than ${maxValues} values`);
  const value: unknown = JSON.parse(text);
  return text.includes('\\') && hasEscapedKey(text) ? readJson(text, Number) : value;
}

/** Like {@link parseJson}, but returns undefined for invalid JSON and for too many values. */
export function tryParseJson(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}
