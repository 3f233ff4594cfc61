import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, META_CLIENT_INFO } from '@sluice/protocol/mcp/constants';
import type { Implementation, RequestMessage } from '@sluice/protocol/mcp/message';
import { parseListenFilter } from '@sluice/protocol/mcp/subscriptions';
import { UpstreamError } from '../../http/client/errors.ts';
import { rpcError } from '../../http/outcome.ts';
import type { Namespace } from '../../registry/entries.ts';
import type { Registry } from '../../registry/registry.ts';
import { findResource, type NamespaceState } from '../../registry/snapshot.ts';
import type { TargetLogger } from '../../telemetry/log.ts';
import type { Forwards } from '../../upstreams/mcp/forwards.ts';
import { type CallRouter, FORWARDING_LOOP } from '../../upstreams/mcp/relay/router.ts';
import type { SessionBindings } from '../../upstreams/mcp/sessions/session-bindings.ts';
import type { SessionSubscriptions } from '../../upstreams/mcp/streams/session-subscriptions.ts';
import type { Upstream } from '../../upstreams/mcp/upstream.ts';
import type { ListChangeNotifier } from '../list-changes.ts';
import { type ListenParts, ListenStream } from '../listen-stream.ts';
import type { OpenStreams } from '../open-streams.ts';
import type { McpFilter, McpOutcome, McpRequest } from '../request.ts';
import { type SessionState, SessionStateError } from '../sessions/session-state.ts';
import type { ClientSession } from '../sessions/sessions.ts';

/** What subscriptions of legacy sessions are made with. */
export interface ResourceSubscriptionParts {
  readonly forwards: Forwards;
  readonly relay: Pick<CallRouter, 'upstreamHeaders' | 'findUnlistedForward'>;
  readonly sessionBindings: SessionBindings;
  readonly sessionSubscriptions: SessionSubscriptions;
}

/** The two methods; legacy sessions only. */
export type SubscriptionMethod = 'resources/subscribe' | 'resources/unsubscribe';

/**
 * `resources/subscribe` and `resources/unsubscribe` of a legacy session: the forward that has the resource is requested, in
 * the client's own session there or, where it speaks the modern era alone, with `subscriptions/listen`. The subscription
 * is kept, so that neither a restart of ours nor one of the upstream ends it (mcp 3). Updates come on the notification
 * stream.
 */
async function resourceSubscription(
  method: SubscriptionMethod,
  { headers, session, namespace }: McpRequest,
  { params: { uri } }: RequestMessage,
  parts: ResourceSubscriptionParts,
): Promise<McpOutcome> {
  if (typeof uri !== 'string') return rpcError(INVALID_PARAMS, 'missing required parameter: uri');
  if (!session || !namespace) return rpcError(INVALID_REQUEST, `${method} needs a session: initialize first`);
  const forward = forwardOf(method, uri, session, namespace, parts);
  if (forward === undefined) return rpcError(INVALID_PARAMS, `resource not found: ${uri}`, undefined, { uri });
  const upstream = parts.forwards.upstream(forward);
  if (!upstream) return rpcError(INTERNAL_ERROR, `forward "${forward}" is no longer registered; list again`);
  const sent = parts.relay.upstreamHeaders(headers);
  if (!sent) return FORWARDING_LOOP;
  try {
    // Ended before the upstream is requested, so that it is over even where the upstream cannot be requested.
    if (method === 'resources/unsubscribe') await session.change((before) => without(before, uri));
    if (upstream.isModernOnly) {
      if (method === 'resources/subscribe')
        return await subscribeCrossing(uri, forward, upstream, session, sent, parts);
      parts.sessionSubscriptions.onUnsubscribed(upstream, session);
      return EMPTY_RESULT;
    }
    const reply = await parts.sessionBindings.requestSubscription(method, uri, upstream, session, sent);
    if (reply.kind === 'error') {
      const data = reply.data === undefined ? undefined : JSON.stringify(reply.data);
      return {
        kind: 'error',
        error: { code: reply.code, message: reply.message, ...(data !== undefined && { data }) },
      };
    }
    if (method === 'resources/subscribe') {
      const kept = session.change((before) => withOne(before, uri, forward));
      // What is not kept here is not to be held there either.
      const undo = () =>
        parts.sessionBindings.requestSubscription('resources/unsubscribe', uri, upstream, session, sent);
      kept.catch(undo).catch(() => undefined);
      await kept;
    }
    return { kind: 'result', json: reply.text };
  } catch (error) {
    if (error instanceof SessionStateError) return rpcError(INVALID_REQUEST, error.message);
    if (!(error instanceof UpstreamError)) throw error;
    return rpcError(INTERNAL_ERROR, `forwarded subscription failed: ${error.message}`);
  }
}

const EMPTY_RESULT: McpOutcome = { kind: 'result', json: '{}', bytes: 2 };

/** Has the upstream, which knows no such method, say whether it will tell of the resource. */
async function subscribeCrossing(
  uri: string,
  forward: string,
  upstream: Upstream,
  session: ClientSession,
  headers: readonly string[],
  { sessionSubscriptions }: ResourceSubscriptionParts,
): Promise<McpOutcome> {
  const keep = () => session.change((before) => withOne(before, uri, forward));
  if (await sessionSubscriptions.subscribe(upstream, session, headers, uri, keep)) return EMPTY_RESULT;
  return rpcError(INVALID_PARAMS, `forward "${forward}" does not let ${uri} be watched`);
}

/** Where the resource is, or for the end of a subscription, where that was made. */
function forwardOf(
  method: SubscriptionMethod,
  uri: string,
  session: ClientSession,
  namespace: NamespaceState,
  { relay }: ResourceSubscriptionParts,
): string | undefined {
  if (method === 'resources/unsubscribe') {
    const made = session.subscriptions.find((subscription) => subscription.uri === uri);
    if (made) return made.forward;
  }
  const resource = findResource(namespace.indexes.resource, uri);
  return resource ? resource.discovered?.forward : relay.findUnlistedForward(namespace, uri);
}

function withOne(state: SessionState, uri: string, forward: string): SessionState {
  const { subscriptions } = without(state, uri);
  return { ...state, subscriptions: [...subscriptions, { uri, forward }] };
}

function without(state: SessionState, uri: string): SessionState {
  return { ...state, subscriptions: state.subscriptions.filter((subscription) => subscription.uri !== uri) };
}

/** What the filter works with. */
export interface SubscribeParts extends ResourceSubscriptionParts {
  readonly registry: Registry;
  readonly listChanges: ListChangeNotifier;
  readonly longStreams: OpenStreams;
  /** Who we are, told to upstreams by clients that do not say who they are. */
  readonly serverInfo: Implementation;
  readonly log: TargetLogger;
}

/** Each uri is looked for among the templates of the namespace, and kept for as long as the stream is open. */
const MAX_URIS = 1_000;

/** `subscriptions/listen` of modern clients, and `resources/subscribe` and `unsubscribe` of legacy ones (mcp 1). */
export function serviceSubscribe(parts: SubscribeParts): McpFilter {
  const { registry, forwards, relay, listChanges, longStreams, log } = parts;
  const forwardOfUnlisted = (namespace: NamespaceState, uri: string) => relay.findUnlistedForward(namespace, uri);
  const listening = { listChanges, longStreams, watching: { registry, forwards, forwardOfUnlisted, log } };
  return (context) => {
    const { message, namespace, era } = context;
    if (message?.kind !== 'request' || !namespace) return undefined;
    if (era === 'modern' && message.method === 'subscriptions/listen') {
      return listen(context, message, namespace.name, parts, listening);
    }
    if (era === 'legacy' && (message.method === 'resources/subscribe' || message.method === 'resources/unsubscribe')) {
      return resourceSubscription(message.method, context, message, parts);
    }
    return undefined;
  };
}

function listen(
  { headers, capabilities }: McpRequest,
  message: RequestMessage,
  namespace: Namespace,
  { relay, serverInfo }: SubscribeParts,
  listening: ListenParts,
): McpOutcome {
  const requested = parseListenFilter(message.params.notifications);
  if (typeof requested === 'string') return rpcError(INVALID_PARAMS, requested);
  const uris = requested.resourceSubscriptions ?? [];
  if (uris.length > MAX_URIS) {
    return rpcError(INVALID_PARAMS, `parameter "notifications.resourceSubscriptions" has more than ${MAX_URIS} uris`);
  }
  const own = relay.upstreamHeaders(headers);
  if (!own) return FORWARDING_LOOP;
  const watcher = {
    namespace,
    clientInfo: clientInfo(message) ?? { ...serverInfo },
    capabilities,
    headers: own,
  };
  return { kind: 'deferred', start: (client) => new ListenStream(listening, requested, watcher, client).start() };
}

function clientInfo({ params: { _meta: meta } }: RequestMessage): JsonObject | undefined {
  const info = isJsonObject(meta) ? meta[META_CLIENT_INFO] : undefined;
  return isJsonObject(info) ? info : undefined;
}
