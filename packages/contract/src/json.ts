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

/** The schema of an object that is read member by member: a number that a double cannot carry is no object to it. */
export function objectOf<T extends z.ZodType>(schema: T) {
  return z.preprocess((input) => (JSON.isRawJSON(input) ? Number(input.rawJSON) : input), schema);
}
