import type { Era } from '@sluice/protocol/mcp/constants';
import { resultText } from '@sluice/protocol/mcp/message';
import type { BridgedAnswer } from './bridged-call.ts';

/** What a tool's call is answered: a text for each content (specification, "Request-building rules" 5). */
export function toolResult(era: Era, content: readonly string[], isError: boolean): BridgedAnswer {
  const json = resultText(era, { content: content.map((text) => ({ type: 'text', text })), isError });
  return { kind: 'result', json };
}
