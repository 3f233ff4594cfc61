import { ClientProfiles } from '../mcp/client-profile.ts';
import { DeclaredParams } from '../mcp/declared-params.ts';
import { ListChangeNotifier } from '../mcp/list-changes.ts';
import { OpenStreams } from '../mcp/open-streams.ts';
import { ActiveSessions } from '../mcp/sessions/active-sessions.ts';
import { EventStore } from '../mcp/sessions/event-store.ts';
import { SessionStore } from '../mcp/sessions/session-store.ts';
import { ClientSessions } from '../mcp/sessions/sessions.ts';
import { SubscriptionQuota } from '../mcp/sessions/subscription-quota.ts';
import { SessionBindings } from '../upstreams/mcp/sessions/session-bindings.ts';
import { taskMessages } from '../upstreams/mcp/tasks/translation.ts';
import { SERVER_INFO } from './core.ts';
import { openTasks } from './storage.ts';
import type { WithUpstreams } from './upstreams.ts';

/** The layer with the clients: see {@link addSessions}. */
export type WithSessions = Awaited<ReturnType<typeof addSessions>>;

/** Adds sessions of clients with their streams, subscriptions and tasks, and the sessions at upstreams that belong to them. */
export async function addSessions(parts: WithUpstreams) {
  const { config, logger, registry, records, sealer, replicaId, forwards, calls, sharedSessions, closing } = parts;
  const profiles = new ClientProfiles(registry, SERVER_INFO);
  const subscriptions = new SubscriptionQuota(config.subscriptionLimits);
  const sessionStore = closing(new SessionStore({ subscriptions, maxEnded: config.maxEndedSessions }));
  await sessionStore.open(records);
  const events = closing(new EventStore(sealer, replicaId, config.maxResumableBytes));
  const active = new ActiveSessions(events, replicaId);
  const tasks = closing(await openTasks(parts));

  const sessionBindings = new SessionBindings({
    access: parts.access,
    taskMessages: ({ transport: { address } }, { sessionId }, { id }) =>
      taskMessages(
        tasks,
        { address, session: sessionId },
        (record) => record.clientSession === id && !parts.access.checkStored(record),
      ),
    upstreams: forwards.upstreams,
    calls,
    sharedSessions,
    log: logger.target('service::forward'),
  });
  sessionStore.ended.subscribe((id) => {
    active.find(id)?.end();
    events.dropSession(id);
    sessionBindings.onEnded(id);
  });
  return {
    ...parts,
    profiles,
    subscriptions,
    sessionStore,
    events,
    tasks,
    sessionBindings,
    activeSessions: active,
    sessions: new ClientSessions(sealer, profiles, sessionStore, active, Date.now, parts.blocks),
    declaredParams: new DeclaredParams(profiles),
    openStreams: new OpenStreams(),
    listChanges: closing(new ListChangeNotifier(registry)),
  };
}
