import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/json/lossless';
import { z } from 'zod';

export type { JsonObject, JsonValue };

/** Any member of a parsed JSON text, handed on as it is: numbers keep their spelling, nothing is copied. */
export const jsonValue = z.custom<JsonValue>((value) => value !== undefined);

/** An object of a parsed JSON text, handed on as it is. A number that a double cannot carry is none. */
export const jsonObject = z
  .custom<JsonObject>(isJsonObject, {
    error: ({ input }) => (input === undefined ? 'is required' : 'must be an object'),
  })
  .meta({ type: 'object', additionalProperties: true });

/** A schema to which a number that a double cannot carry is its value as a double: no object, and maybe an integer. */
export function byValue<T extends z.ZodType>(schema: T) {
  return z.preprocess((input) => (JSON.isRawJSON(input) ? Number(input.rawJSON) : input), schema);
}

/** Most elements of a list, and most labels, that a body may have: each that is wrong is named in the answer. */
export const MOST = 1_000;

/** The schema of a list. A longer one than {@link MOST} is refused before its elements are looked at. */
export function listOf<T extends z.ZodType>(element: T) {
  return z.preprocess((input, context) => {
    if (!Array.isArray(input) || input.length <= MOST) return input;
    context.addIssue({ code: 'custom', message: `must have at most ${MOST} elements` });
    return z.NEVER;
  }, z.array(element).max(MOST));
}
