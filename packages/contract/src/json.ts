import { z } from 'zod';

/**
 * A JSON value as a parser gave it. Where the parser keeps the spelling of numbers, as the service's does, a number that
 * a double cannot carry is an object with its text in `rawJSON` instead.
 */
export type JsonValue = string | number | boolean | null | { readonly rawJSON: string } | JsonValue[] | JsonObject;
export type JsonObject = { [member: string]: JsonValue };

/** Any member of a parsed JSON text, handed on as it is: numbers keep their spelling, nothing is copied. */
export const jsonValue = z.custom<JsonValue>((value) => value !== undefined);

/** An object of a parsed JSON text, handed on as it is. Parsers give raw numbers no prototype, which tells them apart. */
export const jsonObject = z.custom<JsonObject>(
  (value) =>
    typeof value === 'object' && value !== null && !Array.isArray(value) && Object.getPrototypeOf(value) !== null,
  { error: ({ input }) => (input === undefined ? 'is required' : 'must be an object') },
);
