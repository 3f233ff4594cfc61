import type { z } from 'zod';
import { Failure } from '../failure.ts';

/** One thing that a schema found wrong: `input_schema: is required`. */
export type Finding = string;

/** A value as the schema's type, or what is wrong with it, member by member, in the words of the service. */
export function check<T extends z.ZodType>(
  schema: T,
  value: unknown,
): { readonly value: z.output<T> } | { readonly findings: Finding[] } {
  const result = schema.safeParse(value, {
    reportInput: true,
    error: ({ input }) => (input === undefined ? 'is required' : undefined),
  });
  if (result.success) return { value: result.data };
  return {
    findings: result.error.issues.map(({ path, message }) => {
      const reason = message.replace(/^Invalid input: /, '');
      return path.length === 0 ? reason : `${path.join('.')}: ${reason}`;
    }),
  };
}

/** A value as the schema's type. Throws {@link Failure} with what is wrong with it; `what` is what it should be. */
export function checked<T extends z.ZodType>(schema: T, value: unknown, what: string): z.output<T> {
  const result = check(schema, value);
  if ('value' in result) return result.value;
  throw new Failure(`invalid ${what}`, { notes: result.findings });
}
