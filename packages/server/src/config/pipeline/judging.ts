import { quote } from '../setting.ts';
import type { Misplaced } from './order.ts';
import type { OutlinedFilter } from './outline.ts';
import type { PipelineListener } from './pipeline.ts';

/** Filters that answer requests which evaluators can judge; what they answer, no filter behind them sees. */
const ANSWERING: ReadonlySet<string> = new Set([
  'service_mcp_init',
  'service_tool_list',
  'service_tool_call',
  'service_resource_list',
  'service_resource_read',
  'service_subscribe',
  'service_prompt_list',
  'service_prompt_get',
  'service_completion',
  'service_relay',
]);

/**
 * Where a listener's filters let requests pass unjudged though `service_evaluator` is there: in front of
 * `service_namespace` it judges none, and never what was answered before it. A filter with conditions may answer before
 * it: that says which requests are not to be judged.
 */
export function unjudgedFilters(filters: readonly OutlinedFilter[]): Misplaced[] {
  const found: Misplaced[] = [];
  const answering: string[] = [];
  let hasNamespace = false;
  for (const outlined of filters) {
    const { filter: name = '', conditional } = outlined;
    if (name === 'service_namespace') hasNamespace = true;
    else if (hasNamespace && !conditional && ANSWERING.has(name)) answering.push(name);
    if (name !== 'service_evaluator') continue;
    if (!hasNamespace) {
      const text = 'filter service_evaluator judges no request without service_namespace before it: put it behind that';
      found.push({ filter: outlined, text });
      continue;
    }
    if (answering.length > 0) {
      const what = answering.join(', ');
      const text = `filter service_evaluator judges nothing of what is answered before it: put it before ${what}`;
      found.push({ filter: outlined, text });
    }
    // What passes the first one by was meant to.
    break;
  }
  return found;
}

/**
 * Warnings of listeners whose requests no evaluator judges, because there is no `service_evaluator` (decisions 1.4). It is
 * for whoever knows that there are evaluators.
 */
export function unjudgedListeners(
  listeners: readonly Pick<PipelineListener, 'name' | 'chains' | 'filters'>[],
): string[] {
  return listeners
    .filter(({ filters }) => {
      const names = filters.map(({ settings }) => settings.filter);
      return names.some((name) => ANSWERING.has(name)) && !names.includes('service_evaluator');
    })
    .map(
      ({ name, chains }) =>
        `evaluators judge nothing at the listener ${quote(name)}: none of its chains (${chains.map(quote).join(', ')}) ` +
        'has the filter service_evaluator; put it behind service_namespace',
    );
}
