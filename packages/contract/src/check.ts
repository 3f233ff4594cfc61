import type { z } from 'zod';

/** One thing that a schema refuses. `path` is dotted and empty for the whole value; `message` completes a sentence. */
export interface Refusal {
  readonly path: string;
  readonly message: string;
}

/** So many are told; whoever mends them all is told of the next ones. */
const MOST_REFUSALS = 100;

/** A value as the schema's type, or what is wrong with it in the words of the API's answers (decisions 2.1). */
export function check<T extends z.ZodType>(
  schema: T,
  value: unknown,
): { readonly value: z.output<T> } | { readonly refusals: readonly Refusal[] } {
  const result = schema.safeParse(value, {
    reportInput: true,
    error: ({ input }) => (input === undefined ? 'is required' : undefined),
  });
  if (result.success) return { value: result.data };
  return {
    refusals: result.error.issues
      .flatMap((issue) => {
        const message = issue.message.replace(/^Invalid input: /, '');
        // Members that are too many are told one by one, as others are.
        const members = issue.code === 'unrecognized_keys' ? issue.keys : [];
        const paths = members.length > 0 ? members.map((member) => [...issue.path, member]) : [issue.path];
        return paths.map((path) => ({ path: path.join('.'), message }));
      })
      .slice(0, MOST_REFUSALS),
  };
}
