import { validate } from '@sluice/contract';
import type { z } from 'zod';
import { Failure } from '../failure.ts';

/** A value as the schema's type, or what is wrong with it, a line each: `input_schema: is required`. */
export function tryValidate<T extends z.ZodType>(
  schema: T,
  value: unknown,
): { readonly value: z.output<T> } | { readonly findings: string[] } {
  const result = validate(schema, value);
  if ('value' in result) return result;
  return { findings: result.issues.map(({ path, message }) => (path === '' ? message : `${path}: ${message}`)) };
}

/** A value as the schema's type. Throws {@link Failure} with what is wrong with it; `what` is what it should be. */
export function validated<T extends z.ZodType>(schema: T, value: unknown, what: string): z.output<T> {
  const result = tryValidate(schema, value);
  if ('value' in result) return result.value;
  throw new Failure(`invalid ${what}`, { notes: result.findings });
}
