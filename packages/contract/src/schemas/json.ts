import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import { z } from 'zod';

export type { JsonObject, JsonValue };

/** Any JSON value. Passed through without copying; raw numbers keep their digits. */
export const jsonValue = z.custom<JsonValue>((value) => value !== undefined);

/** A JSON object. Passed through without copying; a raw number is not an object. */
export const jsonObject = z
  .custom<JsonObject>(isJsonObject, {
    error: ({ input }) => (input === undefined ? 'is required' : 'must be an object'),
  })
  .meta({ type: 'object', additionalProperties: true });

/** Converts a raw JSON number, one that a double cannot represent exactly, to a double before it is validated. */
export function coerceRawNumber<T extends z.ZodType>(schema: T) {
  return z.preprocess((input) => (JSON.isRawJSON(input) ? Number(input.rawJSON) : input), schema);
}

/** Maximum number of elements of a list, and of labels, in a request body. */
export const MAX_ITEMS = 1_000;

/** Array of at most {@link MAX_ITEMS} elements. A longer one is rejected before its elements are validated. */
export function boundedArray<T extends z.ZodType>(element: T) {
  return z.preprocess((input, context) => {
    if (!Array.isArray(input) || input.length <= MAX_ITEMS) return input;
    context.addIssue({ code: 'custom', message: `must have at most ${MAX_ITEMS} elements` });
    return z.NEVER;
  }, z.array(element).max(MAX_ITEMS));
}

/**
 * Renames aliases to canonical member names before validation. The canonical member wins when both are present. Issues name the
 * canonical member.
 */
export function withAliases<T extends z.ZodType>(aliases: Readonly<Record<string, string>>, schema: T) {
  return z.preprocess((input) => {
    if (typeof input !== 'object' || input === null || Array.isArray(input)) return input;
    const renamed = new Map<string, unknown>();
    for (const [member, value] of Object.entries(input)) {
      const canonical = Object.hasOwn(aliases, member) ? aliases[member] : undefined;
      if (canonical === undefined) renamed.set(member, value);
      else if (!Object.hasOwn(input, canonical)) renamed.set(canonical, value);
    }
    return Object.fromEntries(renamed);
  }, schema);
}
