import { isJsonObject, type JsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { type Era, METHOD_NOT_FOUND, MODERN_ERROR_CODES } from '@sluice/protocol/mcp/constants';
import { withoutRetiredCode } from '@sluice/protocol/mcp/era';
import { withId } from '@sluice/protocol/mcp/message-text';
import type { ClientFacts } from '../../client-facts.ts';
import type { ResponseSink } from '../../response-sink.ts';
import type { LargeResponse, UpstreamResponse } from '../response-handler.ts';
import type { CallSpec, RewrittenResponse } from './call-spec.ts';

type TextResponse = Extract<UpstreamResponse, { kind: 'response' }>;

/**
 * Sends the client the response with the client's id and in the form that it gets: of a large one the bytes that arrived, with
 * the edits of translation.
 */
export function sendResponse(sink: ResponseSink, spec: CallSpec, response: UpstreamResponse): void {
  if (response.kind === 'large') sendLarge(sink, spec, response);
  else sink.complete(clientResponse(sink.client, spec, response));
}

/** Returns a response in the form that its client gets: the same object, since nearly all calls have such a response. */
export function clientResponse(client: ClientFacts, spec: CallSpec, response: TextResponse): TextResponse {
  const { idText, era, capabilities } = client;
  const { value, isAscii, status } = response;
  const own = withId(response.text, idText);
  const isRetired = !spec.rewriter && era === 'modern' && 'error' in value;
  const rewritten = isRetired
    ? replaceRetiredCode(own, value, spec.message.method, capabilities)
    : spec.rewriter?.rewrite(own, value);
  response.text = rewritten?.text ?? own;
  response.value = rewritten?.value ?? value;
  response.status = sentStatus(era, response.value, status);
  response.isAscii = isAscii && !rewritten && idText.length === Buffer.byteLength(idText);
  return response;
}

function sendLarge(
  sink: ResponseSink,
  { rewriter }: CallSpec,
  { large, value, status: received }: LargeResponse,
): void {
  const { idText, era } = sink.client;
  const rewritten = large.result && rewriter?.rewriteLarge(large.result, value, idText);
  if (rewritten && 'text' in rewritten) {
    const status = sentStatus(era, rewritten.value, received);
    return sink.complete({ kind: 'response', text: rewritten.text, value: rewritten.value, status, isAscii: false });
  }
  sink.complete({ kind: 'large', bytes: large.cut(rewritten), value, status: sentStatus(era, value, received) });
}

/**
 * Replaces an error code that the modern era has retired, for modern clients of upstreams of either era. Returns undefined for
 * other responses. `newRestartState` creates the `requestState` of a client that is to visit a URL and then to call again.
 */
export function replaceRetiredCode(
  text: string,
  { error }: JsonObject,
  method: string,
  capabilities: JsonObject,
  newRestartState?: () => string,
): RewrittenResponse | undefined {
  if (!isJsonObject(error)) return undefined;
  const changed = withoutRetiredCode(text, error, method, capabilities, newRestartState);
  const parsed = changed === undefined ? undefined : tryParseJson(changed);
  return changed !== undefined && isJsonObject(parsed) ? { text: changed, value: parsed } : undefined;
}

/** Returns a response with an error in place of that of the upstream; `id` is JSON text. */
export function errorResponse(id: string, error: JsonObject): RewrittenResponse {
  return { text: `{"jsonrpc":"2.0","id":${id},"error":${JSON.stringify(error)}}`, value: { error } };
}

/** True for a result that requires input of the user. */
export function requiresInput({ result }: JsonObject): boolean {
  return isJsonObject(result) && result.resultType === 'input_required';
}

/** True for a response that creates a task, at an upstream session of this era. */
export function createsTask(spec: CallSpec, era: Era, { result }: JsonObject): boolean {
  if (!isJsonObject(result) || (result.resultType !== 'task' && result.task === undefined)) return false;
  return spec.task?.handler?.isCreated(spec, era, result) === true;
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
