import type { JsonObject, JsonValue } from '@sluice/json/lossless';

/** Arguments of these names become headers of the request and are no arguments any more (specification, rules 1 and 2). */
export const META_PREFIX = 'service_meta_';
/** As {@link META_PREFIX}; what they carry is secret. */
export const AUTH_PREFIX = 'service_auth_';

/** A value as capability services take it: text as it is, all else as JSON (decisions 4.10). Null has none. */
export function asText(value: JsonValue | undefined): string | undefined {
  if (value === undefined || value === null) return undefined;
  // Half a surrogate pair, which JSON can spell and UTF-8 cannot, would make the whole message unreadable.
  return typeof value === 'string' ? value.toWellFormed() : JSON.stringify(value);
}

/** The members of an object that have a value, as texts, in their order. */
export function asTexts(object: JsonObject): [string, string][] {
  const texts: [string, string][] = [];
  for (const [name, value] of Object.entries(object)) {
    const text = asText(value);
    if (text !== undefined) texts.push([name.toWellFormed(), text]);
  }
  return texts;
}

/** True for arguments that become headers. */
export function becomesHeader(name: string): boolean {
  return name.startsWith(META_PREFIX) || name.startsWith(AUTH_PREFIX);
}

/** A member of the object's own, and none that all objects have. */
export function own(object: JsonObject, member: string): JsonValue | undefined {
  return Object.hasOwn(object, member) ? object[member] : undefined;
}

/** A member that is a text; empty where there is none. */
export function textIn(object: JsonObject, member: string): string {
  const value = own(object, member);
  return typeof value === 'string' ? value.toWellFormed() : '';
}
