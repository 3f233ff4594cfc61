import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { acceptsEventStream } from '@sluice/protocol/mcp/accept';
import { INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, META_CLIENT_INFO } from '@sluice/protocol/mcp/constants';
import type { Implementation, RequestMessage } from '@sluice/protocol/mcp/message';
import { parseListenFilter } from '@sluice/protocol/mcp/subscriptions';
import { declaresTasks } from '@sluice/protocol/mcp/tasks';
import { type Access, entryNotFound } from '../../access/access.ts';
import { UpstreamError } from '../../http/client/errors.ts';
import { type ErrorOutcome, rpcError } from '../../http/outcome.ts';
import { quotaOwner } from '../../http/quota.ts';
import type { Registry } from '../../registry/registry.ts';
import type { NamespaceState } from '../../registry/snapshot.ts';
import type { TargetLogger } from '../../telemetry/log.ts';
import { deferOutcome, type RequestOutcome } from '../../upstreams/deferred-outcome.ts';
import type { Forwards } from '../../upstreams/forwards.ts';
import { missingTasks } from '../../upstreams/mcp/mcp-connection.ts';
import type { RpcReply } from '../../upstreams/mcp/rpc-client.ts';
import type { SessionBindings } from '../../upstreams/mcp/sessions/session-bindings.ts';
import type { TaskWatcherOptions } from '../../upstreams/mcp/tasks/watcher.ts';
import { FORWARDING_LOOP, type UpstreamHeaders } from '../../upstreams/upstream-headers.ts';
import type { McpOutcome, McpRequest } from '../exchange.ts';
import { type ListenParts, type ListenRequest, ListenStream } from '../listen-stream.ts';
import { NO_EVENT_STREAMS } from '../open-streams.ts';
import { type SessionState, SessionStateError } from '../sessions/session-state.ts';
import type { ClientSession } from '../sessions/sessions.ts';
import { boundedClientInfo } from './lifecycle.ts';
import { ownerOf, type TaskMethodParts } from './tasks.ts';

/** Dependencies of the methods for subscriptions. */
interface SubscribeParts extends TaskMethodParts, Omit<ListenParts, 'watcherOptions'> {
  readonly registry: Registry;
  readonly forwards: Forwards;
  readonly upstreamHeaders: UpstreamHeaders;
  readonly sessionBindings: SessionBindings;
  readonly taskWatcherOptions: TaskWatcherOptions;
  /** Identity of the service, sent to upstreams for clients that send none. */
  readonly serverInfo: Implementation;
  readonly log: TargetLogger;
}

/**
 * `resources/subscribe` and `resources/unsubscribe` of a legacy session: the forward that has the resource gets the request, in
 * the client's own session or, if it supports the modern era only, as `subscriptions/listen`. The subscription is stored and
 * survives restarts of the service and of the upstream. Updates are sent on the notification stream.
 */
export function changeSubscription(request: McpRequest, parts: SubscribeParts): McpOutcome {
  const { headers, session, principal, namespace, message } = request;
  const { method } = message;
  const { uri } = message.params;
  if (typeof uri !== 'string') return rpcError(INVALID_PARAMS, 'missing required parameter: uri');
  if (!session) return rpcError(INVALID_REQUEST, `${method} needs a session: initialize first`);
  const forward = forwardOf(message, session, namespace, parts.access);
  if (typeof forward !== 'string') return forward;
  const upstream = parts.forwards.upstreams.of(forward);
  if (!upstream) return rpcError(INTERNAL_ERROR, `forward "${forward}" is no longer registered`);
  const sent = parts.upstreamHeaders(headers);
  if (!sent) return FORWARDING_LOOP;
  const client = { session, principal, headers: sent };
  const { sessionBindings } = parts;
  const subscribe = () => {
    const store = () => session.change((before) => withSubscription(before, uri, forward));
    return sessionBindings.subscribe(upstream, client, uri, store);
  };
  const unsubscribe = async () => {
    // Ended before the upstream request, so that it ends even if the upstream is unreachable.
    await session.change((before) => withoutSubscription(before, uri));
    return await sessionBindings.unsubscribe(upstream, client, uri);
  };
  const execute = method === 'resources/subscribe' ? subscribe : unsubscribe;
  return deferOutcome(() => execute().then(toOutcome).catch(toError), parts.log);
}

function toOutcome(reply: RpcReply): RequestOutcome {
  if (reply.kind === 'result') return { kind: 'result', json: reply.text };
  return rpcError(reply.code, reply.message, undefined, reply.data);
}

function toError(error: unknown): ErrorOutcome {
  if (error instanceof SessionStateError) return rpcError(INVALID_REQUEST, error.message);
  if (!(error instanceof UpstreamError)) throw error;
  return rpcError(INTERNAL_ERROR, `forwarded subscription failed: ${error.message}`);
}

/** The forward of the resource or, to end a subscription, the forward that it was sent to; an error if there is none. */
function forwardOf(
  message: RequestMessage,
  session: ClientSession,
  namespace: NamespaceState,
  access: Access,
): string | ErrorOutcome {
  const { uri } = message.params;
  if (message.method === 'resources/unsubscribe') {
    const existing = session.state.subscriptions.find((subscription) => subscription.uri === uri);
    if (existing) return existing.forward;
  }
  const target = access.resolve(namespace, message);
  if (target?.kind === 'error') return target;
  return target?.forward ?? entryNotFound(message, 'resource', String(uri));
}

function withSubscription(state: SessionState, uri: string, forward: string): SessionState {
  const { subscriptions } = withoutSubscription(state, uri);
  return { ...state, subscriptions: [...subscriptions, { uri, forward }] };
}

function withoutSubscription(state: SessionState, uri: string): SessionState {
  return { ...state, subscriptions: state.subscriptions.filter((subscription) => subscription.uri !== uri) };
}

/** Each uri is matched with the namespace's templates and stored for the lifetime of the stream. */
const MAX_URIS = 1_000;
/** Characters of all uris together: rules are applied to each form of a uri. */
const MAX_URI_CHARACTERS = 64 * 1024;
/** Each id is looked up and sent upstream. */
const MAX_TASKS = 1_000;

/** {@link FindMissing} of {@link changeSubscription}. */
export function findMissingResource(
  { message, namespace, session }: McpRequest,
  { access }: SubscribeParts,
): ErrorOutcome | undefined {
  const forward = session && forwardOf(message, session, namespace, access);
  return typeof forward === 'object' && forward.notFoundLocally ? forward : undefined;
}

/** `subscriptions/listen` of modern clients. */
export function listen(request: McpRequest, parts: SubscribeParts): McpOutcome | Promise<McpOutcome> {
  const { message, headers, capabilities, principal, head } = request;
  const { upstreamHeaders, serverInfo, tasks, taskWatcherOptions: options } = parts;
  const { name: namespace } = request.namespace;
  if (!acceptsEventStream(headers.accept)) return NO_EVENT_STREAMS;
  const filter = parseListenFilter(message.params.notifications);
  if (typeof filter === 'string') return rpcError(INVALID_PARAMS, filter);
  const uris = filter.resourceSubscriptions ?? [];
  if (uris.length > MAX_URIS) {
    return rpcError(INVALID_PARAMS, `parameter "notifications.resourceSubscriptions" has more than ${MAX_URIS} uris`);
  }
  if (uris.reduce((sum, uri) => sum + uri.length, 0) > MAX_URI_CHARACTERS) {
    const problem = `has more than ${MAX_URI_CHARACTERS} characters: distribute the uris among several subscriptions`;
    return rpcError(INVALID_PARAMS, `parameter "notifications.resourceSubscriptions" ${problem}`);
  }
  const taskIds = filter.taskIds ?? [];
  if (taskIds.length > MAX_TASKS) {
    return rpcError(INVALID_PARAMS, `parameter "notifications.taskIds" has more than ${MAX_TASKS} ids`);
  }
  if (taskIds.length > 0 && !declaresTasks(capabilities)) return missingTasks();
  const own = upstreamHeaders(headers);
  if (!own) return FORWARDING_LOOP;
  const { registry, forwards, access, log } = parts;
  const listening = { ...parts, watcherOptions: { registry, upstreams: forwards.upstreams, access, log } };
  const info = clientInfo(message) ?? { ...serverInfo };
  const client = { namespace, principal, clientInfo: info, capabilities, headers: own };
  const owner = quotaOwner(namespace, principal, head.address);
  const open = (subscribed?: ListenRequest['tasks']): McpOutcome => ({
    kind: 'deferred',
    start: (writer) => new ListenStream(listening, { filter, client, owner, tasks: subscribed }, writer).start(),
  });
  if (taskIds.length === 0) return open();
  // Those of others are left out of the acknowledgment, as unknown ones are.
  return Promise.all(taskIds.map((id) => tasks.find(id, ownerOf(request)))).then((found) => {
    const own = found.filter((task) => task !== undefined).filter(({ record }) => record.clientEra === 'modern');
    return open({ options, tasks: own });
  });
}

function clientInfo({ params: { _meta: meta } }: RequestMessage): JsonObject | undefined {
  const info = isJsonObject(meta) ? meta[META_CLIENT_INFO] : undefined;
  return isJsonObject(info) ? boundedClientInfo(info) : undefined;
}
