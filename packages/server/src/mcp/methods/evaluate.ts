import type { EvaluatorEngine } from '../../policy/engine.ts';
import type { McpFilter } from '../request.ts';

/**
 * Creates the filter that evaluates requests before they are handled (spec "Evaluator processing rules"). It follows
 * `service_namespace` and precedes the methods; a chain without it runs no evaluators.
 */
export function serviceEvaluator(engine: Pick<EvaluatorEngine, 'evaluate'>): McpFilter {
  return (context) => engine.evaluate(context);
}
