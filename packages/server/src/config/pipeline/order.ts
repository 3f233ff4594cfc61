import type { PlacedFilter } from './pipeline.ts';
import type { Problem } from './problems.ts';

/** What is wrong with the order of a listener's filters (decisions 1.4, "Ordering mistakes"). */
export function orderMistakes(filters: readonly PlacedFilter[]): Problem[] {
  const mistakes: Problem[] = [];
  const before = new Set<string>();
  let ended = false;
  for (const { settings, at } of filters) {
    const name = settings.filter;
    const mistake = (problem: string) => mistakes.push({ at, text: `filter ${name} ${problem}` });
    if (ended) mistake('is never reached: static_response before it answers everything; give that conditions');
    if (name.startsWith('service_') && name !== 'service_intercept' && !before.has('mcp')) {
      mistake('needs the filter mcp somewhere before it');
    }
    if (name === 'load_balancer' && !before.has('router')) mistake('needs the filter router somewhere before it');
    if (name === 'static_response' && !settings.conditions?.length) ended = true;
    before.add(name);
  }
  return mistakes;
}
