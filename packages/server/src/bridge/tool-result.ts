import type { Era } from '../mcp/protocol.ts';
import { resultText } from '../mcp/result.ts';
import type { BridgedAnswer } from './bridged-call.ts';

/** What a tool's call is answered: a text for each content (specification, "Request-building rules" 5). */
export function toolResult(era: Era, content: readonly string[], isError: boolean): BridgedAnswer {
  const json = resultText(era, { content: content.map((text) => ({ type: 'text', text })), isError });
  return { kind: 'result', json };
}
