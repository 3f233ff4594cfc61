import { info } from 'service:evaluator/log';
import { block, pass, rejectMalformed } from 'service:evaluator/response';
import type { EvaluationContext } from 'service:evaluator/types';

/** Blocks calls that the LLM labels unsafe. Rejects calls if the label is neither "safe" nor "unsafe". */
export function evaluate(ctx: EvaluationContext): void {
  // Accepts variants such as "Unsafe.".
  const label = ctx.llmResult.toLowerCase().replace(/[^a-z]/g, '');
  info(`${ctx.toolName ?? ctx.method}: label "${label.slice(0, 20)}"`);
  if (label === 'safe') pass();
  else if (label === 'unsafe') block('call classified as unsafe');
  else rejectMalformed('safety check returned no valid label');
}
