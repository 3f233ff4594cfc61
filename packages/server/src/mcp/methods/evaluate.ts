import type { Filter } from '../../http/chain.ts';
import type { EvaluatorEngine } from '../../policy/engine.ts';

/**
 * Evaluators: requests that one of them triggers on are judged before anything carries them out (spec "Evaluator
 * processing rules"). It stands after the namespace is known and before the methods; a chain without it runs none.
 */
export function serviceEvaluator(engine: Pick<EvaluatorEngine, 'judge'>): Filter {
  return (context) => engine.judge(context);
}
