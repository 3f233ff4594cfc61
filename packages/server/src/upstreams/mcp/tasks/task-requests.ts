import type { JsonObject } from '@sluice/protocol/json/parse';
import {
  type Era,
  HEADER_METHOD,
  HEADER_NAME,
  LATEST_MODERN,
  META_CLIENT_CAPABILITIES,
  META_CLIENT_INFO,
  META_PROTOCOL_VERSION,
} from '@sluice/protocol/mcp/constants';
import { encodeHeaderValue } from '@sluice/protocol/mcp/param-headers';
import { withTasksExtension } from '@sluice/protocol/mcp/tasks';
import type { ResultOutcome } from '../../../http/outcome.ts';
import { type RpcResponse, sendMessage } from '../rpc-request.ts';
import { adoptSession, type Upstream, type UpstreamSession } from '../upstream.ts';
import type { TaskRecord } from './task-record.ts';
import type { Tasks } from './tasks.ts';

/** Acknowledgment of `tasks/update` and `tasks/cancel`. */
export const ACKNOWLEDGED: ResultOutcome = { kind: 'result', json: '{"resultType":"complete"}' };

/** Time for the response to a request about a task, in milliseconds. */
const TIMEOUT_MS = 30_000;

/** Headers of a request about a task, besides those of its session: a modern upstream routes by the id. */
export function taskHeaders(era: Era, method: string, upstreamId: string): string[] {
  return era === 'modern' ? [HEADER_METHOD, method, HEADER_NAME, encodeHeaderValue(upstreamId)] : [];
}

/** Returns the session that requests about a task are sent in: after a restart, the stored one is continued. */
export function taskSession(tasks: Pick<Tasks, 'sessionOf'>, record: TaskRecord, upstream: Upstream): UpstreamSession {
  if (record.era === 'modern') return upstream.sessions.modern;
  const { protocolVersion = '', id } = record.session ?? {};
  return tasks.sessionOf(record) ?? adoptSession(protocolVersion, id);
}

/** Content of a request of our own about a task of an upstream. */
export interface TaskRequest {
  /** Era of the upstream. */
  readonly era: Era;
  readonly upstreamId: string;
  readonly method: string;
  readonly clientInfo: JsonObject;
  /** Capabilities of the client besides tasks. */
  readonly capabilities?: JsonObject;
}

/** A task that a client requests something of, where it is executed. */
export interface TaskTarget {
  readonly record: TaskRecord;
  readonly upstream: Upstream;
  /** Headers of requests besides those of the session and those that mirror a message: names and values, alternating. */
  readonly headers: readonly string[];
  /** Returns the function that selects the session of one request. */
  sessions(): () => UpstreamSession | Promise<UpstreamSession>;
}

/** A request of our own about a task of an upstream. */
export interface OwnTaskRequest extends Omit<TaskRequest, 'era'> {
  readonly upstream: Upstream;
  readonly session: UpstreamSession;
  /** Headers that the client's own requests would have: names and values, alternating. */
  readonly headers: readonly string[];
}

/** Returns such a request as JSON text; `more` are further params. */
export function taskMessage(
  { era, upstreamId, method, clientInfo, capabilities }: TaskRequest,
  id: number,
  more?: string,
): string {
  const _meta = era === 'modern' ? envelope(clientInfo, capabilities) : undefined;
  const params = JSON.stringify({ taskId: upstreamId, _meta });
  const all = more === undefined ? params : `${params.slice(0, -1)},${more}}`;
  return `{"jsonrpc":"2.0","id":${id},"method":"${method}","params":${all}}`;
}

/** Sends such a request. Rejects with `UpstreamError`. */
export function requestTask(request: OwnTaskRequest, more?: string): Promise<RpcResponse> {
  const { upstream, session, upstreamId, method, headers } = request;
  const { era } = session;
  return sendMessage(upstream.transport, {
    message: (id) => taskMessage({ ...request, era }, id, more),
    method,
    sessionId: session.sessionId,
    headers: [...session.identityHeaders, ...taskHeaders(era, method, upstreamId), ...headers],
    timeoutMs: TIMEOUT_MS,
  });
}

function envelope(clientInfo: JsonObject, capabilities: JsonObject = {}): JsonObject {
  return {
    [META_PROTOCOL_VERSION]: LATEST_MODERN,
    [META_CLIENT_INFO]: clientInfo,
    [META_CLIENT_CAPABILITIES]: withTasksExtension(capabilities),
  };
}
