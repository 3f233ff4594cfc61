import { isJsonObject, type JsonValue, type RawNumber } from './parse.ts';

/**
 * Whether two JSON values mean the same. A number that a double cannot carry equals the double that it becomes in a
 * client which reads and sends it back through one: such a client did not mean to change it.
 */
export function equal(a: JsonValue, b: JsonValue): boolean {
  return alike(a, b, (raw, other) =>
    JSON.isRawJSON(other) ? raw.rawJSON === other.rawJSON : Number(raw.rawJSON) === other,
  );
}

/** Whether two JSON values are the same, down to the spelling of every number. The order of members means nothing. */
export function identical(a: JsonValue, b: JsonValue): boolean {
  return alike(a, b, (raw, other) => JSON.isRawJSON(other) && raw.rawJSON === other.rawJSON);
}

function alike(a: JsonValue, b: JsonValue, sameNumber: (raw: RawNumber, other: JsonValue) => boolean): boolean {
  if (a === b) return true;
  if (JSON.isRawJSON(a)) return sameNumber(a, b);
  if (JSON.isRawJSON(b)) return sameNumber(b, a);
  if (Array.isArray(a)) {
    return Array.isArray(b) && a.length === b.length && a.every((item, at) => alike(item, b[at] ?? null, sameNumber));
  }
  if (!isJsonObject(a) || !isJsonObject(b)) return false;
  const members = Object.entries(a);
  const other = new Map(Object.entries(b));
  return (
    members.length === other.size &&
    members.every(([member, value]) => {
      const theirs = other.get(member);
      return theirs !== undefined && alike(value, theirs, sameNumber);
    })
  );
}
