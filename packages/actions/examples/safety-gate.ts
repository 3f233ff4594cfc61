import { info } from 'service:evaluator/log';
import { block, pass, rejectMalformed } from 'service:evaluator/response';
import type { EvaluationContext } from 'service:evaluator/types';
import { verifyLlmResult } from 'service:evaluator/validation';
import { jsonAnswer, member, oneLine } from './json-answer.ts';

/**
 * A gate before tools: the LLM judges each call by the rules of its prompt, and what it calls unsafe is blocked.
 *
 * The LLM answers `{"verdict": "allow" | "block", "reason": "…"}`, which `result_schema` in safety-gate.yaml says, too.
 * An answer that says neither lets nothing through: a model that was talked out of its format by what stands in the
 * arguments has not allowed anything. Such calls end with error -32002, blocked ones with -32001 and the reason.
 *
 * The reason is the LLM's own wording, cut to 200 characters; the agent that made the call reads it.
 */
export function evaluate(ctx: EvaluationContext): void {
  const answer = jsonAnswer(verified(ctx.llmResult) ?? '');
  const verdict = member(answer, 'verdict');
  if (verdict === 'allow') return pass();
  if (verdict !== 'block') return rejectMalformed('the safety check gave no usable verdict');

  const reason = member(answer, 'reason');
  info(`blocked a call of ${ctx.toolName ?? ctx.method}`);
  block(typeof reason === 'string' && reason.trim() !== '' ? oneLine(reason, 200) : 'blocked by the safety check');
}

/** The text, when it fits the evaluator's schema. */
function verified(text: string): string | undefined {
  try {
    return verifyLlmResult(text);
  } catch {
    return undefined;
  }
}
