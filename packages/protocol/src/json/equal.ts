import { isJsonObject, type JsonValue, type RawNumber } from './parse.ts';

/**
 * True when two JSON values are equal. A number that a double cannot represent equals the nearest double: a client that
 * parses and returns it does not change it.
 */
export function equal(a: JsonValue, b: JsonValue): boolean {
  return deepEqual(a, b, (raw, other) =>
    JSON.isRawJSON(other) ? raw.rawJSON === other.rawJSON : Number(raw.rawJSON) === other,
  );
}

/** True when two JSON values are equal, including the exact text of every number. The order of members is ignored. */
export function identical(a: JsonValue, b: JsonValue): boolean {
  return deepEqual(a, b, (raw, other) => JSON.isRawJSON(other) && raw.rawJSON === other.rawJSON);
}

function deepEqual(a: JsonValue, b: JsonValue, sameNumber: (raw: RawNumber, other: JsonValue) => boolean): boolean {
  if (a === b) return true;
  if (JSON.isRawJSON(a)) return sameNumber(a, b);
  if (JSON.isRawJSON(b)) return sameNumber(b, a);
  if (Array.isArray(a)) {
    return (
      Array.isArray(b) && a.length === b.length && a.every((item, at) => deepEqual(item, b[at] ?? null, sameNumber))
    );
  }
  if (!isJsonObject(a) || !isJsonObject(b)) return false;
  const members = Object.entries(a);
  const other = new Map(Object.entries(b));
  return (
    members.length === other.size &&
    members.every(([member, value]) => {
      const otherValue = other.get(member);
      return otherValue !== undefined && deepEqual(value, otherValue, sameNumber);
    })
  );
}
