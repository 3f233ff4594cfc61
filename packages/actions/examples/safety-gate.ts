import { info } from 'service:evaluator/log';
import { block, pass, rejectMalformed } from 'service:evaluator/response';
import type { EvaluationContext } from 'service:evaluator/types';
import { verifyLlmResult } from 'service:evaluator/validation';
import { member, oneLine, parseJsonOutput } from './json-output.ts';

/**
 * Blocks tool calls that the LLM classifies as unsafe by the rules of its prompt.
 *
 * Expected LLM output: `{"verdict": "allow" | "block", "reason": "…"}`, as declared by `result_schema` in
 * safety-gate.yaml. Any other output, for example after a prompt injection in the arguments, rejects the call with error
 * -32002. Blocked calls fail with -32001 and the reason.
 *
 * The reason is the LLM's wording, truncated to 200 characters, and is sent to the agent.
 */
export function evaluate(ctx: EvaluationContext): void {
  const output = parseJsonOutput(validate(ctx.llmResult) ?? '');
  const verdict = member(output, 'verdict');
  if (verdict === 'allow') return pass();
  if (verdict !== 'block') return rejectMalformed('safety check returned no valid verdict');

  const reason = member(output, 'reason');
  info(`blocked call of ${ctx.toolName ?? ctx.method}`);
  block(typeof reason === 'string' && reason.trim() !== '' ? oneLine(reason, 200) : 'blocked by the safety check');
}

/** Returns the text if it matches the evaluator's `result_schema`. */
function validate(text: string): string | undefined {
  try {
    return verifyLlmResult(text);
  } catch {
    return undefined;
  }
}
