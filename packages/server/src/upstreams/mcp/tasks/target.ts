import type { JsonObject } from '@sluice/protocol/json/parse';
import { type Era, HEADER_METHOD, HEADER_NAME, LATEST_MODERN } from '@sluice/protocol/mcp/constants';
import { type Implementation, parseRequest, type RequestMessage } from '@sluice/protocol/mcp/message';
import { encodeHeaderValue } from '@sluice/protocol/mcp/param-headers';
import { withTasksExtension } from '@sluice/protocol/mcp/tasks';
import type { RunningOperations } from '../../operation.ts';
import type { CallDeps, CallSpec } from '../relay/call-spec.ts';
import { collect, type Reply } from '../relay/collect.ts';
import { RequestEdits } from '../relay/request-edits.ts';
import { modernEnvelope } from '../rpc-client.ts';
import type { Upstream } from '../upstream.ts';
import { adoptSession, type UpstreamSession } from '../upstream-sessions.ts';
import type { Upstreams } from '../upstreams.ts';
import type { UpstreamTask } from './task.ts';
import { eraOf } from './task-record.ts';
import type { Tasks } from './tasks.ts';
import { storedRequests, TASK_FAILURE } from './translation.ts';

/** Dependencies of requests about tasks. */
export interface TaskDeps extends CallDeps {
  readonly tasks: Tasks;
  readonly upstreams: Pick<Upstreams, 'at' | 'of'>;
  readonly operations: RunningOperations;
  /** Identity of the service, for requests of its own. */
  readonly clientInfo: Implementation;
}

/** A task at its upstream, and what requests about it have in common. */
export interface TaskTarget extends Pick<CallSpec, 'upstream' | 'openSession' | 'serverRequests'> {
  readonly deps: TaskDeps;
  /** Era of the upstream. */
  readonly era: Era;
  /** Id at the upstream. */
  readonly upstreamId: string;
  readonly namespace: string | undefined;
  /** Headers besides those of the session and those that mirror a message: names and values, alternating. */
  readonly headers: readonly string[];
  /** Identity and capabilities, besides tasks, that a modern upstream gets with each request. */
  readonly clientInfo: JsonObject;
  readonly capabilities: JsonObject;
}

/** Returns the session that requests about a task are sent in: after a restart, the stored one is continued. */
export function taskSession({ session, record }: UpstreamTask, upstream: Upstream): UpstreamSession {
  if (!record.session) return upstream.sessions.modern;
  return session ?? adoptSession(record.session.protocolVersion, record.session.id);
}

/**
 * Returns the target of requests about a stored task; undefined if its forward is gone, or has another address now. With their
 * responses, a legacy upstream may send requests for input, which are stored if the client of the task is a modern one.
 */
export function storedTarget(
  deps: TaskDeps,
  task: UpstreamTask,
  headers: readonly string[] = [],
): TaskTarget | undefined {
  const { upstreams, clientInfo } = deps;
  const { record } = task;
  const { upstreamId, namespace, forward, address } = record;
  const upstream = forward === undefined ? upstreams.at(address) : upstreams.of(forward);
  if (upstream?.transport.address !== address) return undefined;
  const storesRequests = record.kind === 'core' && record.clientEra === 'modern';
  const serverRequests = storesRequests ? () => storedRequests(task) : undefined;
  const openSession = () => taskSession(task, upstream);
  const client = { headers, clientInfo: { ...clientInfo }, capabilities: {} };
  return { deps, ...client, era: eraOf(record), upstreamId, namespace, upstream, serverRequests, openSession };
}

/** Returns the spec of a request about a task. A modern upstream routes it by the id. */
export function taskSpec(target: TaskTarget, message: RequestMessage): CallSpec {
  const { era, upstreamId, upstream, headers, serverRequests, openSession } = target;
  const routing = era === 'modern' ? [HEADER_METHOD, message.method, HEADER_NAME, encodeHeaderValue(upstreamId)] : [];
  const sent = { message, edits: new RequestEdits(message, headers, routing) };
  const constant = { capabilities: {}, needsTranslation: false, failure: TASK_FAILURE, forward: upstream.forward };
  return { ...sent, ...constant, upstream, serverRequests, openSession };
}

/** Returns the spec of a request of our own about a task; `more` are further params and its progress token, as JSON text. */
export function ownTaskSpec(
  target: TaskTarget,
  method: string,
  more: { readonly params?: string | undefined; readonly token?: string | undefined } = {},
): CallSpec {
  const { era, upstreamId, clientInfo, capabilities } = target;
  const client = { clientInfo, capabilities: withTasksExtension(capabilities) };
  const envelope = era === 'modern' ? modernEnvelope(client, LATEST_MODERN).params({})?._meta : {};
  const meta = joined(JSON.stringify(envelope).slice(1, -1), more.token && `"progressToken":${more.token}`);
  const params = joined(`"taskId":${JSON.stringify(upstreamId)}`, meta && `"_meta":{${meta}}`, more.params);
  return taskSpec(target, parseRequest(`{"jsonrpc":"2.0","id":0,"method":"${method}","params":{${params}}}`));
}

/** Joins members in JSON text. */
function joined(...parts: (string | undefined)[]): string {
  return parts.filter((part) => part !== undefined && part !== '').join(',');
}

/** Sends a request of our own about a task; never rejects. */
export function requestTask(target: TaskTarget, method: string, params?: string): Promise<Reply> {
  return collect(target.deps, ownTaskSpec(target, method, { params }), target.namespace);
}
