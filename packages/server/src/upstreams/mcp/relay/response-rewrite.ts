import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { METHOD_NOT_FOUND, MODERN_ERROR_CODES } from '@sluice/protocol/mcp/constants';
import { withId } from '@sluice/protocol/mcp/message';
import type { CallResponse } from '../../downstream.ts';
import type { CallPlan } from './call-plan.ts';
import type { LargeMessage } from './large-message.ts';
import { replaceRetiredCode } from './request-rewrite.ts';

/**
 * Sends the client the response of the upstream, as text and parsed, with the client's id and in the form that it gets;
 * `status` is the HTTP status of the upstream. `isAscii`: the text is known to be ASCII.
 */
export function sendResponse(
  response: CallResponse,
  plan: CallPlan,
  text: string,
  value: JsonObject,
  status: number,
  isAscii = false,
): void {
  const { rewriter, json, era, message, capabilities } = plan;
  const { idText } = response;
  const own = withId(text, idText);
  let rewritten = rewriter?.rewrite(own, value);
  if (!rewriter && era === 'modern' && 'error' in value) {
    rewritten = replaceRetiredCode(own, value, message.method, capabilities);
  }
  const sent = rewritten?.value ?? value;
  const failed = !('result' in sent);
  const sentStatus = 'error' in sent ? errorStatus(plan, sent, status) : 200;
  const isOwnAscii = isAscii && !rewritten && idText.length === Buffer.byteLength(idText);
  response.sendResponse(rewritten?.text ?? own, failed, sentStatus, json, isOwnAscii);
}

/** Like {@link sendResponse}, for a large response: sends the bytes that arrived, with the edits of translation. */
export function sendLargeResponse(
  response: CallResponse,
  plan: CallPlan,
  large: LargeMessage,
  value: JsonObject,
  status: number,
): void {
  const { rewriter, json } = plan;
  const rewritten = large.result && rewriter?.rewriteLarge(large.result, value, response.idText);
  if (rewritten && 'text' in rewritten) {
    return response.sendResponse(rewritten.text, true, errorStatus(plan, rewritten.value, status), json);
  }
  const failed = !('result' in value);
  const code = isJsonObject(value.error) ? value.error.code : undefined;
  const sentStatus = 'error' in value ? errorStatus(plan, value, status) : 200;
  response.sendBytes(large.cut(rewritten), failed, code, sentStatus, json);
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

/** JSON-RPC errors have HTTP status 200 in the legacy era; in the modern era some have a status of their own (mcp 1). */
function errorStatus({ era }: CallPlan, { error }: JsonObject, status: number): number {
  if (!isJsonObject(error) || era !== 'modern') return 200;
  const { code } = error;
  if (code === METHOD_NOT_FOUND) return 404;
  if (typeof code === 'number' && MODERN_ERROR_CODES.has(code)) return 400;
  return CREDENTIALS_REQUIRED.has(status) ? 200 : status;
}
