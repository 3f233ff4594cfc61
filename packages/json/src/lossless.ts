import { readJson } from './reader.ts';

/** A JSON value whose numbers may be `JSON.rawJSON` objects, where a double would not spell them as they came. */
export type JsonValue = string | number | boolean | null | RawNumber | JsonValue[] | JsonObject;
/** A parsed JSON object, its members in the order of the text. */
export type JsonObject = { [key: string]: JsonValue };

/** A number that a double cannot carry exactly, kept as its own text: what `JSON.rawJSON` makes. */
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
 * Parses JSON so that `JSON.stringify` spells every number as it came (9223372036854775807 and 1.0 included).
 *
 * For places where an object is read, changed and written again; the relay cuts and joins text instead. Throws the
 * `SyntaxError` of `JSON.parse`, and one of its own for values nested more than 2,500 levels deep: walking over them,
 * which writing them again does too, takes a place on the stack for each.
 */
export function parseLossless(text: string): JsonValue {
  const value: JsonValue = JSON.parse(text);
  // In a text there is nothing to keep. A reviver, which is shown how numbers are spelled, takes twice as long or more.
  return typeof value === 'string' ? value : readJson(text, asSpelled);
}

function asSpelled(source: string): number | RawNumber {
  const number = Number(source);
  return String(number) === source ? number : JSON.rawJSON(source);
}

/** True for a JSON object (not an array, not a raw number). */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !JSON.isRawJSON(value);
}
