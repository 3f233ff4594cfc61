import type { Condition, Match } from '../config/pipeline/condition.ts';
import type { Filter } from './chain.ts';
import type { RequestContext } from './context.ts';

/** The filter, used only for requests that meet all conditions; others pass it by (decisions 1.4, "condition"). */
export function conditional(filter: Filter, conditions: readonly Condition[] = []): Filter {
  if (conditions.length === 0) return filter;
  const tests = conditions.map((condition) => {
    const matches = matcher('when' in condition ? condition.when : condition.unless);
    return 'when' in condition ? matches : (context: RequestContext) => !matches(context);
  });
  return (context) => (tests.every((test) => test(context)) ? filter(context) : undefined);
}

/** True for requests that are all of what is asked for. */
function matcher({ path, path_prefix, methods, headers }: Match): (context: RequestContext) => boolean {
  const wanted = headersMatcher(headers);
  return (context) =>
    (path === undefined || context.path === path) &&
    (path_prefix === undefined || context.path.startsWith(path_prefix)) &&
    (methods === undefined || methods.includes(context.method)) &&
    wanted(context);
}

/** True for requests that have each of these headers with this value. */
export function headersMatcher(headers: Readonly<Record<string, string>> = {}): (context: RequestContext) => boolean {
  const wanted = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value] as const);
  return (context) => wanted.every(([name, value]) => context.headers[name] === value);
}
