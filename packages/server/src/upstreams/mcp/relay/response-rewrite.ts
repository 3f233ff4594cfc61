import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { type Era, METHOD_NOT_FOUND, MODERN_ERROR_CODES } from '@sluice/protocol/mcp/constants';
import { withId } from '@sluice/protocol/mcp/message';
import type { ResponseSink } from '../../response-sink.ts';
import type { CallPlan } from './call-plan.ts';
import type { LargeMessage } from './large-message.ts';
import { replaceRetiredCode } from './request-rewrite.ts';

/**
 * Sends the client the response of the upstream, as text and parsed, with the client's id and in the form that it gets;
 * `status` is the HTTP status of the upstream. `isAscii`: the text is known to be ASCII.
 */
export function sendResponse(
  sink: ResponseSink,
  { rewriter, message }: CallPlan,
  text: string,
  value: JsonObject,
  status: number,
  isAscii = false,
): void {
  const { idText, era, capabilities } = sink.client;
  const own = withId(text, idText);
  let rewritten = rewriter?.rewrite(own, value);
  if (!rewriter && era === 'modern' && 'error' in value) {
    rewritten = replaceRetiredCode(own, value, message.method, capabilities);
  }
  const sent = rewritten?.value ?? value;
  sink.complete({
    kind: 'response',
    text: rewritten?.text ?? own,
    value: sent,
    status: sentStatus(era, sent, status),
    isAscii: isAscii && !rewritten && idText.length === Buffer.byteLength(idText),
  });
}

/** Like {@link sendResponse}, for a large response: sends the bytes that arrived, with the edits of translation. */
export function sendLargeResponse(
  sink: ResponseSink,
  { rewriter }: CallPlan,
  large: LargeMessage,
  value: JsonObject,
  received: number,
): void {
  const { idText, era } = sink.client;
  const rewritten = large.result && rewriter?.rewriteLarge(large.result, value, idText);
  if (rewritten && 'text' in rewritten) {
    const status = sentStatus(era, rewritten.value, received);
    return sink.complete({ kind: 'response', text: rewritten.text, value: rewritten.value, status, isAscii: false });
  }
  sink.complete({ kind: 'large', bytes: large.cut(rewritten), value, status: sentStatus(era, value, received) });
}

/** True for a result that requires input of the user. */
export function requiresInput({ result }: JsonObject): boolean {
  return isJsonObject(result) && result.resultType === 'input_required';
}

/** True for a result that may create a task: of the extension, or of core tasks. */
export function mayCreateTask({ result }: JsonObject): boolean {
  return isJsonObject(result) && (result.resultType === 'task' || result.task !== undefined);
}

/** True for the state of a task that requires input, by which it becomes known what its client may respond to. */
export function isWaitingTask({ result }: JsonObject): boolean {
  return isJsonObject(result) && result.status === 'input_required';
}

/** Statuses that request credentials. The SDK of a client would begin a login here, although the upstream requires one of us. */
const CREDENTIALS_REQUIRED: ReadonlySet<number> = new Set([401, 403, 407]);

/** JSON-RPC errors have HTTP status 200 in the legacy era; in the modern era some have a status of their own. */
function sentStatus(era: Era, { error }: JsonObject, status: number): number {
  if (!isJsonObject(error) || era !== 'modern') return 200;
  const { code } = error;
  if (code === METHOD_NOT_FOUND) return 404;
  if (typeof code === 'number' && MODERN_ERROR_CODES.has(code)) return 400;
  return CREDENTIALS_REQUIRED.has(status) ? 200 : status;
}
