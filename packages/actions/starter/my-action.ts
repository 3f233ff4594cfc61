import { info } from 'service:evaluator/log';
import { block, pass, rejectMalformed } from 'service:evaluator/response';
import type { EvaluationContext } from 'service:evaluator/types';

/** Blocks what the LLM calls unsafe. An answer that is neither "safe" nor "unsafe" lets nothing through. */
export function evaluate(ctx: EvaluationContext): void {
  // "Unsafe." is an answer, too.
  const label = ctx.llmResult.toLowerCase().replace(/[^a-z]/g, '');
  info(`${ctx.toolName ?? ctx.method}: the model says "${label.slice(0, 20)}"`);
  if (label === 'safe') pass();
  else if (label === 'unsafe') block('this call was found to be unsafe');
  else rejectMalformed('the safety check gave no usable answer');
}
