import { z } from 'zod';
import type { AnyOutcome, Filter } from './chain.ts';
import type { RequestContext } from './context.ts';
import { method, path, requiredHeaders } from './filters/schema.ts';

const match = z
  .strictObject({
    path: path.optional(),
    path_prefix: path.optional(),
    methods: z.array(method).min(1, { error: 'must name at least one method' }).optional(),
    headers: requiredHeaders.optional(),
  })
  .refine((conditions) => Object.values(conditions).some((value) => value !== undefined), {
    error: 'must have at least one of path, path_prefix, methods, headers',
  });

/** Properties that a request must have to match. */
export type Match = z.output<typeof match>;
export type Condition = { readonly when: Match } | { readonly unless: Match };

/** Schema of one condition of a filter. A filter runs if all of its conditions are met (decisions 1.4). */
export const condition = z
  .strictObject({ when: match.optional(), unless: match.optional() })
  .transform(({ when, unless }, { addIssue }): Condition => {
    if (when && !unless) return { when };
    if (unless && !when) return { unless };
    addIssue({
      code: 'custom',
      message: when ? 'has both when and unless; use two conditions' : 'must have when or unless',
    });
    return z.NEVER;
  });

/** Limits a filter to requests that meet all conditions; other requests are passed on. */
export function conditional<Context extends RequestContext, Result extends AnyOutcome>(
  filter: Filter<Context, Result>,
  conditions: readonly Condition[] = [],
): Filter<Context, Result> {
  if (conditions.length === 0) return filter;
  const tests = conditions.map((condition) => {
    const matches = matcher('when' in condition ? condition.when : condition.unless);
    return 'when' in condition ? matches : (context: RequestContext) => !matches(context);
  });
  return (context) => (tests.every((test) => test(context)) ? filter(context) : undefined);
}

function matcher({ path, path_prefix, methods, headers }: Match): (context: RequestContext) => boolean {
  const hasHeaders = headersMatcher(headers);
  return (context) =>
    (path === undefined || context.path === path) &&
    (path_prefix === undefined || context.path.startsWith(path_prefix)) &&
    (methods === undefined || methods.includes(context.method)) &&
    hasHeaders(context);
}

/** Returns a predicate for requests that have all of these headers with these values. */
export function headersMatcher(headers: Readonly<Record<string, string>> = {}): (context: RequestContext) => boolean {
  const required = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value] as const);
  return (context) => required.every(([name, value]) => context.headers[name] === value);
}
