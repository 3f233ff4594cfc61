import type { EvaluatorEngine } from '../../policy/engine.ts';
import type { McpFilter } from '../request.ts';

/**
 * Evaluators: requests that one of them triggers on are judged before anything carries them out (spec "Evaluator
 * processing rules"). It stands after the namespace is known and before the methods; a chain without it runs none.
 */
export function serviceEvaluator(engine: Pick<EvaluatorEngine, 'evaluate'>): McpFilter {
  return (context) => engine.evaluate(context);
}
