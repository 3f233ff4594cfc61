import type { Emitter } from '@sluice/protocol/emitter';
import { TokenSealer } from '@sluice/protocol/seal';
import { afterAll, beforeAll, expect, type TestContext, test } from 'vitest';
import { z } from 'zod';
import { startPostgres, type TestPostgres } from '../../testing/postgres.ts';
import { Secrets } from '../http/secrets/secrets.ts';
import { createUser } from '../identity/principal.ts';
import type { StoredSession } from '../mcp/sessions/session-state.ts';
import { SessionStore } from '../mcp/sessions/session-store.ts';
import { SessionTable } from '../mcp/sessions/session-table.ts';
import { newSessionKey } from '../mcp/sessions/sessions.ts';
import { ActionFiles } from '../policy/action-loader.ts';
import { EVALUATOR_REVISIONS } from '../policy/evaluator-revisions.ts';
import { Evaluators } from '../policy/evaluators.ts';
import { PrefixCompiler } from '../policy/fixtures/prefix-compiler.ts';
import { DEFAULT_NAMESPACE } from '../registry/entries.ts';
import { commit } from '../registry/fixtures/commit.ts';
import { addForward, registerService } from '../registry/operations-topology.ts';
import { Registry } from '../registry/registry.ts';
import { Collection } from '../registry/store/collection.ts';
import { memoryRevisionStore } from '../registry/store/fixtures/memory-revision-store.ts';
import { Database } from '../registry/store/postgres/database.ts';
import { ReplicatedLog } from '../registry/store/postgres/replicated-log.ts';
import { memoryLog } from '../registry/store/record-log.ts';
import { LogRevisionStore } from '../registry/store/revision-store.ts';
import { createLogger } from '../telemetry/log.ts';
import { unlimitedOperations } from '../upstreams/fixtures/operations.ts';
import { ForwardValidator } from '../upstreams/forward-validator.ts';
import { Forwards } from '../upstreams/forwards.ts';
import { ServiceHealthMonitor } from '../upstreams/grpc/health.ts';
import { ForwardKinds } from '../upstreams/kinds.ts';
import { SharedUpstreamSessions } from '../upstreams/mcp/sessions/shared-sessions.ts';
import type { Task } from '../upstreams/mcp/tasks/task.ts';
import { type NewTask, Tasks } from '../upstreams/mcp/tasks/tasks.ts';
import { SharedDiscovery } from '../upstreams/shared-discovery.ts';
import { DEFAULT_LOG_FILTER } from './config/environment.ts';

let postgres: TestPostgres;
let url: string;
let shared: ReplicatedLog;
const logs: ReplicatedLog[] = [];
beforeAll(async () => {
  postgres = await startPostgres();
  url = await postgres.createDatabase();
  shared = await openLog();
});
afterAll(async () => {
  for (const log of logs) await log.close();
  await postgres[Symbol.asyncDispose]();
});

const log = createLogger(DEFAULT_LOG_FILTER, () => undefined).target('service');

async function openLog(): Promise<ReplicatedLog> {
  const opened = new ReplicatedLog({ database: new Database({ url, log }), log, version: '1' });
  await opened.open();
  logs.push(opened);
  return opened;
}

/** Another replica stores a record. */
async function commitElsewhere(section: string, content: object): Promise<void> {
  const other = await openLog();
  const put = { section, id: 'a', json: JSON.stringify(content) } as const;
  await other.commit({ changes: [put], publish: () => undefined });
  await shared.refresh();
}

/** An event, and what makes its owner emit it. */
interface Emission {
  subscribe(subscriber: (payload: unknown) => void): () => void;
  trigger(): unknown;
}

function emission<Payload>(emitter: Emitter<Payload>, trigger: () => unknown): Emission {
  return { subscribe: (subscriber) => emitter.subscribe(subscriber), trigger };
}

type Open = (context: TestContext) => Emission | Promise<Emission>;

const STATE = {
  status: 'working',
  statusMessage: undefined,
  createdAt: '2026-01-01T00:00:00Z',
  lastUpdatedAt: '2026-01-01T00:00:00Z',
  pollIntervalMs: undefined,
  ttlMs: 60_000,
  taskId: 'upstream',
} as const;
const TASK: NewTask = {
  namespace: 'default',
  principal: createUser('ann', 'proxy'),
  holder: { namespace: 'default', name: 'ann' },
  clientSession: undefined,
  forward: 'forward',
  address: 'http://upstream/mcp',
  kind: 'extension',
  clientEra: 'modern',
  upstreamId: 'upstream',
  isError: false,
  inputRequests: [],
  tool: { key: 'tool' },
  progress: undefined,
};

/** An event of {@link Tasks}; `act` gets a task that has been created. */
function ofTasks<Payload>(
  event: (tasks: Tasks) => Emitter<Payload>,
  act: (tasks: Tasks, task: Task) => unknown = (tasks) => tasks.create(TASK, STATE),
): Open {
  return async ({ onTestFinished }) => {
    const tasks = new Tasks({ log: memoryLog() });
    onTestFinished(() => tasks.close());
    await tasks.load();
    const task = await tasks.create(TASK, STATE);
    if (!task) throw new Error('no task');
    return emission(event(tasks), () => act(tasks, task));
  };
}

const subscribed = (uri: string, user: string, logLevel?: string): StoredSession => ({
  kind: 'changed',
  expires: Number.MAX_SAFE_INTEGER,
  holder: { namespace: 'n', name: user },
  state: { subscriptions: [{ uri, forward: 'f' }], logLevel },
});

const registered = (name: string) => ({ name, host: '127.0.0.1', port: 1, serviceType: 'tool-invoker' }) as const;

const EVENTS: Readonly<Record<string, Open>> = {
  'Tasks.created': ofTasks((tasks) => tasks.created),
  'Tasks.changed': ofTasks(
    (tasks) => tasks.changed,
    (_, task) => task.observe({ ...STATE, status: 'input_required' }),
  ),
  'Tasks.ended': ofTasks(
    (tasks) => tasks.ended,
    (_, task) => task.observe({ ...STATE, status: 'completed' }),
  ),
  'Tasks.orphaned': ofTasks(
    (tasks) => tasks.orphaned,
    (tasks, task) => tasks.discard(task),
  ),
  'Tasks.removed': ofTasks(
    (tasks) => tasks.removed,
    (_, task) => task.remove(),
  ),
  'Tasks.canceled': ofTasks(
    (tasks) => tasks.canceled,
    (_, task) => task.cancel(),
  ),
  'Registry.committed': async () => {
    const registry = await openRegistry();
    return emission(registry.committed, () => commit(registry, (draft) => registerService(draft, registered('s'))));
  },
  'Forwards.changed': async ({ onTestFinished }) => {
    const registry = await openRegistry();
    const [kinds, secrets] = [new ForwardKinds(), new Secrets()];
    const clientInfo = { name: 'sluice', title: 'Sluice', version: '1' };
    const forwards = new Forwards({
      operations: unlimitedOperations(),
      registry,
      secrets,
      kinds,
      validator: new ForwardValidator(kinds, secrets),
      log,
      clientInfo,
      healthCheckIntervalMs: 0,
    });
    onTestFinished(() => forwards.close());
    forwards.open();
    const input = { name: 'f', address: 'http://127.0.0.1:9/', namespace: DEFAULT_NAMESPACE, labels: {}, prefix: '' };
    return emission(forwards.changed, () => commit(registry, (draft) => addForward(draft, input)));
  },
  'ServiceHealthMonitor.changed': async ({ onTestFinished }) => {
    const registry = await openRegistry();
    const health = new ServiceHealthMonitor({
      registry,
      probe: async () => ({ health: 'healthy' }),
      intervalMs: 0,
      log,
    });
    health.start();
    onTestFinished(() => health.close());
    return emission(health.changed, () => commit(registry, (draft) => registerService(draft, registered('s'))));
  },
  'Evaluators.activated': () => {
    const evaluators = new Evaluators({
      connections: [],
      files: new ActionFiles({ baseFolder: '/', actionsPath: undefined }),
      compiler: new PrefixCompiler(),
      schemas: { compile: async () => ({ text: '', validate: async () => undefined }) },
      store: memoryRevisionStore(),
      log,
    });
    return emission(evaluators.activated, () =>
      evaluators.replace([], { expectedRevision: undefined, actor: undefined }),
    );
  },
  'SessionTable.sessionForgotten': () => {
    const table = new SessionTable({ maxEnded: 1 });
    table.set('1', subscribed('1', 'ann', 'error'));
    return emission(table.sessionForgotten, () => table.set('2', subscribed('2', 'ann', 'error')));
  },
  'SessionStore.ended': async () => {
    const store = new SessionStore();
    await store.open(shared);
    const ended = { kind: 'ended', expires: Number.MAX_SAFE_INTEGER, holder: { namespace: 'n', name: 'ann' } };
    return emission(store.ended, () => commitElsewhere('sessions', ended));
  },
  'Collection.changed': async () => {
    const collection = new Collection({ name: 'test', schema: z.int() });
    await collection.open(memoryLog());
    return emission(collection.changed, () => collection.put('a', 1));
  },
  'LogRevisionStore.newer': () => {
    const store = new LogRevisionStore(shared, EVALUATOR_REVISIONS);
    return emission(store.newer, () => store.apply([]));
  },
  'SharedUpstreamSessions.opened': async () => {
    const { sessions, open } = await sharedSessions();
    return emission(sessions.opened, open);
  },
  'SharedUpstreamSessions.closed': async () => {
    const { sessions, open } = await sharedSessions();
    await open();
    return emission(sessions.closed, () => sessions.apply([{ ...SESSION, json: null }]));
  },
  'SharedDiscovery.claimed': ({ onTestFinished }) => {
    const discovery = new SharedDiscovery({ shared, forwards: () => [], log });
    onTestFinished(() => discovery.close());
    return emission(discovery.claimed, () => discovery.start());
  },
  'Membership.left': async () => {
    const other = await openLog();
    await shared.members.renew();
    expect([...shared.members.others.keys()]).toContain(other.members.id);
    return emission(shared.members.left, async () => {
      await other.close();
      await shared.members.renewAfterDeparture();
    });
  },
};

async function openRegistry(): Promise<Registry> {
  const registry = new Registry(memoryLog());
  await registry.load();
  return registry;
}

const SESSION = { section: 'upstream_sessions', id: JSON.stringify(['http://upstream/mcp', 'owner']) };

/** Sessions at upstreams, of which another replica opens one. */
async function sharedSessions() {
  const sealer = new TokenSealer(newSessionKey());
  const sessions = new SharedUpstreamSessions(sealer);
  await sessions.open(shared);
  const session = { sessionId: 's', protocolVersion: '2025-11-25', identity: '{}', usedAt: Date.now() };
  const json = JSON.stringify(sealer.seal('upstreamSession', JSON.stringify(session)));
  return { sessions, open: () => sessions.apply([{ ...SESSION, json }]) };
}

for (const [name, open] of Object.entries(EVENTS)) {
  test(`${name} is received by two subscribers`, async (context) => {
    const { subscribe, trigger } = await open(context);
    const [first, second]: [unknown[], unknown[]] = [[], []];
    subscribe((payload) => first.push(payload));
    subscribe((payload) => second.push(payload));
    await trigger();
    await expect.poll(() => second).not.toEqual([]);
    expect(first).toEqual(second);
  });
}
