import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';

/** A value as capability services take it: text as it is, all else as JSON (decisions 4.10). Null has none. */
export function asText(value: JsonValue | undefined): string | undefined {
  if (value === undefined || value === null) return undefined;
  // Half a surrogate pair, which JSON can spell and UTF-8 cannot, would make the whole message unreadable.
  return typeof value === 'string' ? value.toWellFormed() : JSON.stringify(value);
}

/** The same of a value that is JSON text already: what is no text stays as it was spelled, and costs no parsing. */
export function textOfJson(json: string | undefined): string | undefined {
  if (json === undefined || json === 'null') return undefined;
  return json.startsWith('"') ? String(JSON.parse(json)).toWellFormed() : json;
}

/** A member of the object's own, and none that all objects have. */
function own(object: JsonObject, member: string): JsonValue | undefined {
  return Object.hasOwn(object, member) ? object[member] : undefined;
}

/** A member that is a text; empty where there is none. */
export function textIn(object: JsonObject, member: string): string {
  const value = own(object, member);
  return typeof value === 'string' ? value.toWellFormed() : '';
}

/** A member that is an object; an empty one where there is none. */
export function objectIn(object: JsonObject, member: string): JsonObject {
  const value = own(object, member);
  return isJsonObject(value) ? value : {};
}
