import type { Era } from '../mcp/protocol.ts';
import { resultText } from '../mcp/result.ts';

/** A tool's result, as JSON text: a text for each content (specification, "Request-building rules" 5). */
export function toolResult(era: Era, content: readonly string[], isError: boolean): string {
  return resultText(era, { content: content.map((text) => ({ type: 'text', text })), isError });
}
