import { INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST } from '@sluice/protocol/mcp/constants';
import type { RequestMessage } from '@sluice/protocol/mcp/message';
import { type Outcome, rpcError } from '../../answer/outcome.ts';
import type { Forwards } from '../../forwards/forwards.ts';
import { type CallRelay, FORWARDING_LOOP } from '../../forwards/relay.ts';
import type { SessionLinks } from '../../forwards/session-links.ts';
import type { SessionWatches } from '../../forwards/session-watches.ts';
import type { Upstream } from '../../forwards/upstream.ts';
import { findResource } from '../../mcp/find-resource.ts';
import type { NamespaceState } from '../../registry/snapshot.ts';
import { SessionStateError } from '../../sessions/kept/kept.ts';
import type { SessionState } from '../../sessions/kept-sessions.ts';
import type { ClientSession, ClientSessions } from '../../sessions/sessions.ts';
import { UpstreamError } from '../../transport/upstream-error.ts';
import type { RequestContext } from '../context.ts';

/** What subscriptions of legacy sessions are made with. */
export interface ResourceSubscriptionParts {
  readonly forwards: Forwards;
  readonly relay: Pick<CallRelay, 'upstreamHeaders' | 'forwardOfUnlisted'>;
  readonly sessions: ClientSessions;
  readonly sessionLinks: SessionLinks;
  readonly sessionWatches: SessionWatches;
}

/** The two methods; legacy sessions only. */
export type SubscriptionMethod = 'resources/subscribe' | 'resources/unsubscribe';

/**
 * `resources/subscribe` and `resources/unsubscribe` of a legacy session: the forward that has the resource is asked, in
 * the client's own session there or, where it speaks the modern era alone, with `subscriptions/listen`. The subscription
 * is kept, so that neither a restart of ours nor one of the upstream ends it (mcp 3). Updates come on the notification
 * stream.
 */
export async function resourceSubscription(
  method: SubscriptionMethod,
  { headers, session, namespace }: RequestContext,
  { params: { uri } }: RequestMessage,
  parts: ResourceSubscriptionParts,
): Promise<Outcome> {
  if (typeof uri !== 'string') return rpcError(INVALID_PARAMS, 'missing required parameter: uri');
  if (!session || !namespace) return rpcError(INVALID_REQUEST, `${method} needs a session: initialize first`);
  const forward = forwardOf(method, uri, session, namespace, parts);
  if (forward === undefined) return rpcError(INVALID_PARAMS, `resource not found: ${uri}`, undefined, { uri });
  const upstream = parts.forwards.upstream(forward);
  if (!upstream) return rpcError(INTERNAL_ERROR, `forward "${forward}" is no longer registered; list again`);
  const sent = parts.relay.upstreamHeaders(headers);
  if (!sent) return FORWARDING_LOOP;
  try {
    // Ended before the upstream is asked, so that it is over even where the upstream cannot be asked.
    if (method === 'resources/unsubscribe') await parts.sessions.change(session, (before) => without(before, uri));
    if (upstream.modernOnly) {
      if (method === 'resources/subscribe')
        return await subscribeCrossing(uri, forward, upstream, session, sent, parts);
      parts.sessionWatches.changed(upstream, session);
      return EMPTY_RESULT;
    }
    const reply = await parts.sessionLinks.subscription(method, uri, upstream, session, sent);
    if (reply.kind === 'error') {
      const data = reply.data === undefined ? undefined : JSON.stringify(reply.data);
      return {
        kind: 'error',
        error: { code: reply.code, message: reply.message, ...(data !== undefined && { data }) },
      };
    }
    if (method === 'resources/subscribe') {
      const kept = parts.sessions.change(session, (before) => withOne(before, uri, forward));
      // What is not kept here is not to be held there either.
      const undo = () => parts.sessionLinks.subscription('resources/unsubscribe', uri, upstream, session, sent);
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

const EMPTY_RESULT: Outcome = { kind: 'result', json: '{}', bytes: 2 };

/** Has the upstream, which knows no such method, say whether it will tell of the resource. */
async function subscribeCrossing(
  uri: string,
  forward: string,
  upstream: Upstream,
  session: ClientSession,
  headers: readonly string[],
  { sessions, sessionWatches }: ResourceSubscriptionParts,
): Promise<Outcome> {
  const keep = () => sessions.change(session, (before) => withOne(before, uri, forward));
  if (await sessionWatches.subscribe(upstream, session, headers, uri, keep)) return EMPTY_RESULT;
  return rpcError(INVALID_PARAMS, `forward "${forward}" does not let ${uri} be watched`);
}

/** Where the resource is, or for the end of a subscription, where that was made. */
function forwardOf(
  method: SubscriptionMethod,
  uri: string,
  session: ClientSession,
  namespace: NamespaceState,
  { relay, sessions }: ResourceSubscriptionParts,
): string | undefined {
  if (method === 'resources/unsubscribe') {
    const made = sessions.state(session)?.subscriptions.find((subscription) => subscription.uri === uri);
    if (made) return made.forward;
  }
  const resource = findResource(namespace.shelves.resource, uri);
  return resource ? resource.discovered?.forward : relay.forwardOfUnlisted(namespace, uri);
}

function withOne(state: SessionState, uri: string, forward: string): SessionState {
  const { subscriptions } = without(state, uri);
  return { ...state, subscriptions: [...subscriptions, { uri, forward }] };
}

function without(state: SessionState, uri: string): SessionState {
  return { ...state, subscriptions: state.subscriptions.filter((subscription) => subscription.uri !== uri) };
}
