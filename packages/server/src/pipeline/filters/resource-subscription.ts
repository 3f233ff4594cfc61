import { type Outcome, rpcError } from '../../answer/outcome.ts';
import type { Forwards } from '../../forwards/forwards.ts';
import { type CallRelay, FORWARDING_LOOP } from '../../forwards/relay.ts';
import type { SessionLinks } from '../../forwards/session-links.ts';
import { UpstreamError } from '../../forwards/upstream-error.ts';
import { findResource } from '../../mcp/find-resource.ts';
import type { RequestMessage } from '../../mcp/message.ts';
import { INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND } from '../../mcp/protocol.ts';
import type { NamespaceState } from '../../registry/snapshot.ts';
import { SessionStateError } from '../../sessions/kept/kept.ts';
import type { SessionState } from '../../sessions/kept-sessions.ts';

import type { ClientSession, ClientSessions } from '../../sessions/sessions.ts';
import type { RequestContext } from '../context.ts';

/** What subscriptions of legacy sessions are made with. */
export interface ResourceSubscriptionParts {
  readonly forwards: Forwards;
  readonly relay: Pick<CallRelay, 'upstreamHeaders' | 'forwardOfUnlisted'>;
  readonly sessions: ClientSessions;
  readonly sessionLinks: SessionLinks;
}

/** The two methods; legacy sessions only. */
export type SubscriptionMethod = 'resources/subscribe' | 'resources/unsubscribe';

/**
 * `resources/subscribe` and `resources/unsubscribe` of a legacy session: the forward that has the resource is asked, in
 * the client's own session there, and the subscription is kept, so that neither a restart of ours nor one of the upstream
 * ends it (mcp 3). Updates come on the notification stream.
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
  if (upstream.eras?.has('legacy') === false) {
    return rpcError(METHOD_NOT_FOUND, `forward "${forward}" does not take subscriptions of this protocol version`);
  }
  const sent = parts.relay.upstreamHeaders(headers);
  if (!sent) return FORWARDING_LOOP;
  try {
    // Ended before the upstream is asked, so that it is over even where the upstream cannot be asked.
    if (method === 'resources/unsubscribe') await parts.sessions.change(session, (before) => without(before, uri));
    const reply = await parts.sessionLinks.subscription(method, uri, upstream, session, sent);
    if (reply.kind === 'error') {
      const data = reply.data === undefined ? undefined : JSON.stringify(reply.data);
      return {
        kind: 'error',
        error: { code: reply.code, message: reply.message, ...(data !== undefined && { data }) },
      };
    }
    if (method === 'resources/subscribe') {
      const kept = parts.sessions.change(session, (before) => {
        const { subscriptions } = without(before, uri);
        return { ...before, subscriptions: [...subscriptions, { uri, forward }] };
      });
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

function without(state: SessionState, uri: string): SessionState {
  return { ...state, subscriptions: state.subscriptions.filter((subscription) => subscription.uri !== uri) };
}
