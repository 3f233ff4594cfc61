import type { OutlinedFilter } from './outline.ts';

/** A filter, and what is wrong with where it stands. */
export interface Misplaced {
  readonly filter: OutlinedFilter;
  readonly text: string;
}

/** Filters that do nothing by themselves: `load_balancer` does what they say. */
const FOR_LOAD_BALANCER: ReadonlySet<string> = new Set(['router', 'service_intercept']);

/** What is wrong with the order of a listener's filters (decisions 1.4, "Ordering mistakes"). */
export function orderMistakes(filters: readonly OutlinedFilter[]): Misplaced[] {
  const mistakes: Misplaced[] = [];
  const before = new Set<string>();
  for (const [index, outlined] of filters.entries()) {
    const { filter: name = '', conditional } = outlined;
    const mistake = (filter: OutlinedFilter, problem: string) =>
      mistakes.push({ filter, text: `filter ${filter.filter ?? 'without a name'} ${problem}` });
    if (name.startsWith('service_') && name !== 'service_intercept' && !before.has('mcp')) {
      mistake(outlined, 'needs the filter mcp, without conditions, somewhere before it');
    }
    if (name === 'load_balancer' && !before.has('router'))
      mistake(outlined, 'needs the filter router somewhere before it');
    // Behind one that may be passed by, nobody would have read the message.
    if (name !== 'mcp' || !conditional) before.add(name);
    if (name !== 'static_response' || conditional) continue;
    const next = filters[index + 1];
    if (next) mistake(next, 'and all behind it are never reached: give the static_response before it conditions');
    break;
  }
  return mistakes;
}

/** What is in order, and yet does nothing: a filter that prepares a request to be sent on, which nobody then does. */
export function idleFilters(filters: readonly OutlinedFilter[]): Misplaced[] {
  const last = filters.findLastIndex(({ filter }) => filter === 'load_balancer');
  return filters
    .filter(({ filter = '' }, index) => FOR_LOAD_BALANCER.has(filter) && index > last)
    .map((filter) => ({ filter, text: `filter ${filter.filter} has no effect without load_balancer behind it` }));
}
