import { memberText } from '@sluice/protocol/json/text';
import { MINIMUM_LEVEL, reachesLevel } from '@sluice/protocol/mcp/capabilities';
import { legacyResourceUpdated } from '@sluice/protocol/mcp/subscriptions';
import type { Registry } from '../registry/registry.ts';
import type { StreamListener } from '../upstreams/downstream.ts';
import type { Forwards } from '../upstreams/forwards.ts';
import type { SessionBindings } from '../upstreams/mcp/sessions/session-bindings.ts';
import type { ActiveSessions } from './sessions/active-sessions.ts';
import { stateOf } from './sessions/session-state.ts';
import type { EvictedSubscription, SessionStore } from './sessions/session-store.ts';

/** Dependencies of {@link onSubscriptionEvicted}. */
export interface EvictedSubscriptionParts {
  readonly registry: Pick<Registry, 'current'>;
  readonly store: SessionStore;
  readonly active: ActiveSessions;
  readonly forwards: Forwards;
  readonly sessionBindings: SessionBindings;
}

/**
 * Returns the handler for a subscription of a legacy session that made room for those of others. It ends upstream as well.
 * The legacy era has no message for that, so the client gets an update, for which it reads the resource once more, and a
 * warning in its log. Ending the session instead would interrupt much more than one subscription.
 */
export function onSubscriptionEvicted(parts: EvictedSubscriptionParts): (evicted: EvictedSubscription) => void {
  const { registry, store, active, forwards, sessionBindings } = parts;
  /** Notices for clients that do not listen, with what ends the wait for them. */
  const waiting = new Map<StreamListener, () => void>();
  return ({ session, subscription: { uri, forward } }) => {
    const { id } = session;
    const upstream = forwards.upstreams.of(forward);
    if (upstream) sessionBindings.endSubscription(upstream, session, uri).catch(() => undefined);
    const channel = active.ensure(session);
    const inform = (): void => {
      channel.send(legacyResourceUpdated(uri));
      const data = `subscription to ${uri} ended to make room for those of others; subscribe again if it is still needed`;
      const params = { level: 'warning', logger: 'sluice', data };
      const minimum = stateOf(store.sessions.get(id)).logLevel ?? MINIMUM_LEVEL;
      const identities = registry.current.forwards.get(forward)?.catalogs.map(({ identity }) => identity) ?? [];
      if (!identities.some(declaresLogging) || !reachesLevel(params, minimum)) return;
      channel.send(JSON.stringify({ jsonrpc: '2.0', method: 'notifications/message', params }));
    };
    if (channel.isListening) return inform();
    const [dropOldest] = waiting.values();
    if (waiting.size >= MAX_WAITING) dropOldest?.();
    const notice: StreamListener = {
      onListeningChanged() {
        // Once the stream has its connection.
        queueMicrotask(inform);
        drop();
      },
    };
    const drop = (): void => {
      waiting.delete(notice);
      channel.removeListener(notice);
    };
    waiting.set(notice, drop);
    channel.addListener(notice);
  };
}

/** Number of notices that wait for their clients to listen; of more, the oldest are lost. */
const MAX_WAITING = 1_000;

/** Clients accept log messages only of a server that declares them. */
function declaresLogging(identity: string): boolean {
  return memberText(memberText(identity, 'capabilities') ?? '{}', 'logging') !== undefined;
}
