import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { acceptsEventStream } from '@sluice/protocol/mcp/accept';
import { INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, META_CLIENT_INFO } from '@sluice/protocol/mcp/constants';
import type { Implementation, RequestMessage } from '@sluice/protocol/mcp/message';
import { parseListenFilter } from '@sluice/protocol/mcp/subscriptions';
import { declaresTasks } from '@sluice/protocol/mcp/tasks';
import { type Access, entryNotFound } from '../../access/access.ts';
import { UpstreamError } from '../../http/client/errors.ts';
import { type ErrorOutcome, rpcError } from '../../http/outcome.ts';
import { quotaOwner } from '../../http/shares.ts';
import type { Namespace } from '../../registry/entries.ts';
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
import { boundedClientInfo } from '../client-info.ts';
import type { FindMissing, McpExchange, McpFilter, McpMethodFilter, McpOutcome } from '../exchange.ts';
import type { ListChangeNotifier } from '../list-changes.ts';
import { type ListenParts, ListenStream, type SubscribedTasks } from '../listen-stream.ts';
import { NO_EVENT_STREAMS, type OpenStreams } from '../open-streams.ts';
import { type SessionState, SessionStateError } from '../sessions/session-state.ts';
import type { ClientSession } from '../sessions/sessions.ts';
import type { SubscriptionShares } from '../sessions/subscription-shares.ts';
import { ownerOf, type TaskMethodParts } from './tasks.ts';

/** Dependencies of {@link serviceSubscribe}. */
export interface SubscribeParts extends TaskMethodParts {
  readonly registry: Registry;
  readonly forwards: Forwards;
  readonly upstreamHeaders: UpstreamHeaders;
  readonly sessionBindings: SessionBindings;
  readonly listChanges: ListChangeNotifier;
  readonly openStreams: OpenStreams;
  readonly subscriptions: SubscriptionShares;
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
function resourceSubscription(
  method: 'resources/subscribe' | 'resources/unsubscribe',
  { headers, session, namespace }: McpExchange,
  message: RequestMessage,
  parts: SubscribeParts,
): McpOutcome {
  const { uri } = message.params;
  if (typeof uri !== 'string') return rpcError(INVALID_PARAMS, 'missing required parameter: uri');
  if (!session || !namespace) return rpcError(INVALID_REQUEST, `${method} needs a session: initialize first`);
  const forward = forwardOf(message, session, namespace, parts.access);
  if (typeof forward !== 'string') return forward;
  const upstream = parts.forwards.upstreams.of(forward);
  if (!upstream) return rpcError(INTERNAL_ERROR, `forward "${forward}" is no longer registered`);
  const sent = parts.upstreamHeaders.of(headers);
  if (!sent) return FORWARDING_LOOP;
  const client = { session, headers: sent };
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
    const existing = session.subscriptions.find((subscription) => subscription.uri === uri);
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
/** Each id is looked up and sent upstream. */
const MAX_TASKS = 1_000;

/**
 * `subscriptions/listen` of modern clients, `resources/subscribe` and `resources/unsubscribe` of legacy ones.
 */
export function serviceSubscribe(parts: SubscribeParts): McpMethodFilter {
  const { access, registry, forwards, listChanges, openStreams, subscriptions, log } = parts;
  const watcherOptions = { registry, upstreams: forwards.upstreams, access, log };
  const listening = { listChanges, openStreams, subscriptions, watcherOptions };
  const filter: McpFilter = (exchange) => {
    const { message, namespace, era } = exchange;
    if (message?.kind !== 'request' || !namespace) return undefined;
    if (era === 'modern' && message.method === 'subscriptions/listen') {
      if (!acceptsEventStream(exchange.headers.accept)) return NO_EVENT_STREAMS;
      return listen(exchange, message, namespace.name, parts, listening);
    }
    if (era === 'legacy' && (message.method === 'resources/subscribe' || message.method === 'resources/unsubscribe')) {
      return resourceSubscription(message.method, exchange, message, parts);
    }
    return undefined;
  };
  const findMissing: FindMissing = ({ message, namespace, session }) => {
    if (message?.kind !== 'request' || !namespace || !session || message.method === 'subscriptions/listen')
      return undefined;
    const forward = forwardOf(message, session, namespace, access);
    return typeof forward !== 'string' && forward.isMiss ? forward : undefined;
  };
  return { methods: ['subscriptions/listen', 'resources/subscribe', 'resources/unsubscribe'], filter, findMissing };
}

function listen(
  exchange: McpExchange,
  message: RequestMessage,
  namespace: Namespace,
  { upstreamHeaders, serverInfo, tasks, taskWatcherOptions }: SubscribeParts,
  listening: ListenParts,
): McpOutcome | Promise<McpOutcome> {
  const { headers, capabilities, principal, head } = exchange;
  const requested = parseListenFilter(message.params.notifications);
  if (typeof requested === 'string') return rpcError(INVALID_PARAMS, requested);
  const uris = requested.resourceSubscriptions ?? [];
  if (uris.length > MAX_URIS) {
    return rpcError(INVALID_PARAMS, `parameter "notifications.resourceSubscriptions" has more than ${MAX_URIS} uris`);
  }
  const taskIds = requested.taskIds ?? [];
  if (taskIds.length > MAX_TASKS) {
    return rpcError(INVALID_PARAMS, `parameter "notifications.taskIds" has more than ${MAX_TASKS} ids`);
  }
  if (taskIds.length > 0 && !declaresTasks(capabilities)) return missingTasks();
  const own = upstreamHeaders.of(headers);
  if (!own) return FORWARDING_LOOP;
  const watcher = {
    namespace,
    clientInfo: clientInfo(message) ?? { ...serverInfo },
    capabilities,
    headers: own,
  };
  const holder = quotaOwner(namespace, principal, head.address);
  const open = (tasks?: SubscribedTasks): McpOutcome => ({
    kind: 'deferred',
    start: (client) => new ListenStream(listening, requested, watcher, holder, client, tasks).start(),
  });
  if (taskIds.length === 0) return open();
  // Those of others are left out of the acknowledgment, as unknown ones are.
  return Promise.all(taskIds.map((id) => tasks.find(id, ownerOf(exchange)))).then((found) => {
    const records = found.filter((record) => record !== undefined).filter((one) => one.clientEra === 'modern');
    return open({ options: taskWatcherOptions, records });
  });
}

function clientInfo({ params: { _meta: meta } }: RequestMessage): JsonObject | undefined {
  const info = isJsonObject(meta) ? meta[META_CLIENT_INFO] : undefined;
  return isJsonObject(info) ? boundedClientInfo(info) : undefined;
}
