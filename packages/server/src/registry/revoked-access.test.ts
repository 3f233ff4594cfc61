import { describe, expect, test } from 'vitest';
import { ANONYMOUS, createUser } from '../identity/principal.ts';
import type { DiscoveredCatalog } from './catalogs.ts';
import { changeForwardInSteps, type ForwardChanges } from './change-forward.ts';
import type { Draft } from './draft.ts';
import { DEFAULT_NAMESPACE, type Forward } from './entries.ts';
import { commit, TESTER } from './fixtures/commit.ts';
import { applyCatalogs, removeForward, removeNamespace } from './fixtures/operations.ts';
import { SharedMemoryStore } from './fixtures/shared-memory-store.ts';
import { addForward, catalog, items } from './fixtures/upstreams.ts';
import { createEntry, removeEntry, updateEntry } from './operations.ts';
import { enableEntries, markUpstreamEntries } from './operations-enabled.ts';
import { createNamespace, labelNamespace, registerService, removeServices } from './operations-topology.ts';
import { type ChangeOrigin, Registry, type RegistryCommit, type ServicePart } from './registry.ts';
import { runSteps } from './steps.ts';
import { memoryLog } from './store/record-log.ts';

type Operation = (draft: Draft) => unknown;

const MANUAL = { description: '', uri: 'grpc://a', toolType: 'custom', input_schema: {} };
const FORWARDED = { ...MANUAL, uri: 'http://up.test/mcp', toolType: 'mcp-forward' };
const SERVICE = { name: 's', host: '10.0.0.1', port: 1, serviceType: 'tool-invoker' } as const;

/** Reference to a secret. */
const TOKEN = `$\{env:SERVICE_SECRET_TOKEN}`;

const createTool = (draft: Draft) => createEntry(draft, 'tool', { ...MANUAL, name: 'manual' });
const createResource = (draft: Draft) =>
  createEntry(draft, 'resource', { name: 'r', location: 'a://r', type: 'custom', uri: 'grpc://a' });
const updateTool = (change: object) => (draft: Draft) =>
  updateEntry(draft, 'tool', { name: 'manual' }, { ...MANUAL, name: 'manual', ...change });
const enable = (kind: 'tool' | 'resource', key: string, enabled: boolean) => (draft: Draft) =>
  enableEntries(draft, kind, kind === 'tool' ? { names: [key] } : { uris: [key] }, enabled);
const mark = (kind: 'tool' | 'resource', key: string, enabled: boolean) => (draft: Draft) =>
  markUpstreamEntries(draft, kind, { forward: 'up', keys: new Set([key]) }, enabled);
const add =
  (more: Partial<Forward> = {}) =>
  (draft: Draft) =>
    addForward(draft, 'up', more);
const discover = (found: Partial<DiscoveredCatalog>) => (draft: Draft) => {
  const forward = draft.forwards.get('up');
  if (forward) applyCatalogs(draft, forward, [catalog(found)]);
};
const change = (changes: Partial<ForwardChanges>) => (draft: Draft) => {
  const forward = draft.forwards.get('up');
  if (forward) runSteps(changeForwardInSteps(draft, forward, { headers: undefined, expose: undefined, ...changes }));
};
const register =
  (more: object = {}) =>
  (draft: Draft) =>
    registerService(draft, { ...SERVICE, ...more });

const NARROW = { tools: { allow: ['a'] } };
const TOOLS = { tools: items('name', ['a', 'b']) };
const RESOURCES = { resources: items('uri', ['a://1', 'a://2']) };
const NEW_DISABLED = { expose: { resources: { new: 'disabled' }, tools: { new: 'disabled' } } } as const;

/** The state before, the operation, and whether that takes access away. */
const CHANGES: readonly [name: string, before: readonly Operation[], operation: Operation, revokes: boolean][] = [
  ['an entry is created', [], createTool, false],
  ['an entry is removed', [createTool], (draft) => removeEntry(draft, 'tool', { name: 'manual' }), true],
  ['an entry is disabled', [createTool], enable('tool', 'manual', false), true],
  ['an entry is enabled', [createTool, enable('tool', 'manual', false)], enable('tool', 'manual', true), false],
  ['an entry is renamed', [createTool], updateTool({ name: 'other' }), true],
  ['an entry is moved', [createTool], updateTool({ namespace: 'ops' }), true],
  ['an entry gets another executor', [createTool], updateTool({ uri: 'grpc://b' }), true],
  ['an entry gets another text', [createTool], updateTool({ description: 'new' }), false],
  ['an entry is stored unchanged', [createTool], updateTool({}), false],
  [
    'a disabled entry is removed',
    [createTool, enable('tool', 'manual', false)],
    (draft) => removeEntry(draft, 'tool', { name: 'manual' }),
    false,
  ],
  [
    'an entry is replaced by another one under its key',
    [createTool],
    (draft) => {
      removeEntry(draft, 'tool', { name: 'manual' });
      addForward(draft, 'up');
      discover({ tools: items('name', ['manual']) })(draft);
    },
    true,
  ],
  [
    'a shadowed entry is not listed any more',
    [createTool, add(), discover({ tools: items('name', ['manual', 'a']) })],
    discover({ tools: items('name', ['a']) }),
    false,
  ],
  [
    'a disabled resource is created',
    [],
    function* (draft) {
      const { key } = createResource(draft);
      yield* enable('resource', key, false)(draft);
    },
    true,
  ],
  ['a namespace is created', [], (draft) => createNamespace(draft, 'ops', {}), false],
  ['a namespace gets labels', [], (draft) => labelNamespace(draft, DEFAULT_NAMESPACE, { a: '1' }), false],
  [
    'an empty namespace is removed',
    [(draft) => createNamespace(draft, 'ops', {})],
    (draft) => removeNamespace(draft, 'ops', false),
    true,
  ],
  [
    'a namespace is removed and created again',
    [(draft) => createNamespace(draft, 'ops', {})],
    (draft) => {
      removeNamespace(draft, 'ops', false);
      createNamespace(draft, 'ops', {});
    },
    true,
  ],
  ['a forward is added', [], add(), false],
  ['a forward is removed', [add()], (draft) => removeForward(draft, 'up'), true],
  [
    'a forward is removed and added again',
    [add()],
    (draft) => {
      removeForward(draft, 'up');
      addForward(draft, 'up');
    },
    true,
  ],
  ['a forward gets another address', [add()], change({ address: 'http://other.test/mcp' }), true],
  ['a forward gets headers', [add()], change({ headers: { 'x-tenant': TOKEN } }), true],
  ['a forward gets a proxy', [add()], change({ proxy: 'http://proxy.test' }), true],
  ['a forward gets compression', [add()], change({ compression: true }), false],
  ['a forward gets labels', [add()], change({ labels: { a: '1' } }), false],
  ['a forward with entries gets a prefix', [add(), discover(TOOLS)], change({ prefix: 'up_' }), true],
  ['a forward without entries gets a prefix', [add()], change({ prefix: 'up_' }), false],
  ['a forward exposes fewer tools', [add(), discover(TOOLS)], change({ expose: { tools: { deny: ['a'] } } }), true],
  [
    'a forward hides tools that it has not',
    [add(), discover(TOOLS)],
    change({ expose: { tools: { deny: ['z'] } } }),
    false,
  ],
  ['a forward hides uris that are in no list', [add()], change({ expose: { resources: { deny: ['b://*'] } } }), true],
  ['a forward allows only some uris', [add()], change({ expose: { resources: { allow: ['a://*'] } } }), true],
  [
    'a forward allows more uris',
    [add({ expose: { resources: { allow: ['a://*'], deny: ['a://1', 'a://2'] } } })],
    change({ expose: { resources: { allow: ['a://*', 'b://*'], deny: ['a://1'] } } }),
    false,
  ],
  [
    'a forward exposes everything again',
    [add({ expose: { resources: { deny: ['a'] } } })],
    change({ expose: null }),
    false,
  ],
  ['a resource is disabled before it is discovered', [add()], mark('resource', 'a://9', false), true],
  [
    'a resource is enabled before it is discovered',
    [add(), mark('resource', 'a://9', false)],
    mark('resource', 'a://9', true),
    false,
  ],
  ['the first discovery', [add()], discover({ ...TOOLS, ...RESOURCES }), false],
  [
    'a discovery finds other texts',
    [add(), discover({ ...TOOLS, ...RESOURCES })],
    discover({
      tools: items('name', ['a', 'b'], ',"title":"T"'),
      resources: items('uri', ['a://1', 'a://2'], ',"size":1'),
    }),
    false,
  ],
  ['a discovery finds more', [add(), discover(TOOLS)], discover({ tools: items('name', ['a', 'b', 'c']) }), false],
  ['a discovery finds less', [add(), discover(TOOLS)], discover({ tools: items('name', ['a']) }), true],
  [
    'a discovery finds a new resource, which is disabled',
    [add(NEW_DISABLED), discover(RESOURCES)],
    discover({ resources: items('uri', ['a://1', 'a://2', 'a://3']) }),
    true,
  ],
  [
    'a discovery finds a new tool, which is disabled',
    [add(NEW_DISABLED), discover(TOOLS)],
    discover({ tools: items('name', ['a', 'b', 'c']) }),
    false,
  ],
  [
    'a disabled resource is not listed any more, and remains hidden',
    [add(), discover(RESOURCES), enable('resource', 'a://2', false)],
    discover({ resources: items('uri', ['a://1']) }),
    false,
  ],
  [
    'a resource that was hidden is listed',
    [add(), mark('resource', 'a://2', false), discover({ resources: items('uri', ['a://1']) })],
    discover(RESOURCES),
    false,
  ],
  [
    'a discovered entry gets another name',
    [add(), discover(TOOLS)],
    (draft) => updateEntry(draft, 'tool', { name: 'a' }, { ...FORWARDED, name: 'z' }),
    true,
  ],
  ['a service is registered', [], register(), false],
  ['a service is registered again', [register()], register({ labels: { a: '1' } }), false],
  ['a service gets another address', [register()], register({ port: 2 }), true],
  ['a service is removed', [register()], (draft) => removeServices(draft, 's'), true],
];

const PARTS: readonly ServicePart[] = ['bootstrap', 'discovery', 'action'];
const ORIGINS: readonly ChangeOrigin[] = [
  TESTER,
  { actor: ANONYMOUS, reason: 'test' },
  ...PARTS.map((actor) => ({ actor, reason: 'test' })),
];

/** A registry that other replicas share, and its commits from now on. */
async function open(before: readonly Operation[] = []) {
  const store = new SharedMemoryStore();
  const registry = new Registry(store);
  await registry.load();
  for (const operation of before) await commit(registry, operation);
  store.confirmations = 0;
  const commits: RegistryCommit[] = [];
  registry.committed.subscribe((each) => commits.push(each));
  return { registry, store, commits };
}

describe('access is revoked by the difference, whoever makes it', () => {
  test.each(CHANGES)('%s', async (_name, before, operation, revokes) => {
    for (const origin of ORIGINS) {
      const { registry, store, commits } = await open(before);
      const unchanged = registry.current;
      store.unconfirmed = Promise.resolve(['other']);
      const { unconfirmed } = await registry.commit(operation, origin);
      const { actor } = origin;
      const summary = { origins: [origin], revokesAccess: revokes, before: unchanged, after: registry.current };
      expect(commits).toMatchObject([summary]);
      // Callers also wait if they may have repeated a withdrawal (below).
      if (!revokes && typeof actor !== 'string') continue;
      const isConfirmed = revokes && actor !== 'bootstrap';
      expect([unconfirmed, store.confirmations]).toEqual(isConfirmed ? [['other'], 1] : [[], 0]);
    }
  });

  test.each(CHANGES)('by another replica: %s', async (_name, before, operation, revokes) => {
    const other = await open(before);
    const { store, commits } = await open();
    for (const changes of other.store.commits) await store.applyCommit(changes);
    commits.length = 0;
    await commit(other.registry, operation);
    await store.applyCommit(other.store.commits.at(-1) ?? []);
    expect([commits, store.confirmations]).toMatchObject([[{ origins: [], revokesAccess: revokes }], 0]);
  });

  test('not by an operation that fails', async () => {
    const { registry, store, commits } = await open([createTool]);
    const failing = registry.commit((draft) => {
      removeEntry(draft, 'tool', { name: 'manual' });
      throw new Error('changed my mind');
    }, TESTER);
    const next = registry.commit((draft) => createNamespace(draft, 'ops', {}), TESTER);
    await expect(failing).rejects.toThrow('changed my mind');
    expect(await next).toMatchObject({ unconfirmed: [] });
    expect([commits.map(({ revokesAccess }) => revokesAccess), store.confirmations]).toEqual([[false], 0]);
  });
});

describe('the confirmation by other replicas', () => {
  const disable = enable('tool', 'manual', false);
  const label = (draft: Draft) => labelNamespace(draft, DEFAULT_NAMESPACE, { a: '1' });

  test('is awaited by the operation that takes access away, not by others, of the same commit or later', async () => {
    const { registry, store, commits } = await open([createTool]);
    const confirmation = Promise.withResolvers<readonly string[]>();
    store.unconfirmed = confirmation.promise;
    const settled: string[] = [];
    const visible: unknown[] = [];
    const run = (name: string, operation: Operation, onVisible?: (value: unknown) => void) =>
      registry.commit(operation, { actor: createUser(name, 'test'), reason: 'test' }, onVisible).then((committed) => {
        settled.push(name);
        return committed;
      });
    // Alone, so that the next two share a commit.
    await run('first', label);
    const revoking = run('revoking', disable, (value) => visible.push(value));
    await Promise.all([run('beside', (draft) => createNamespace(draft, 'ops', {})), run('later', createResource)]);
    expect(settled).toEqual(['first', 'beside', 'later']);
    expect(visible).toEqual([1]);
    expect(registry.current.namespace('default')?.indexes.tool.served('manual')).toBeUndefined();
    confirmation.resolve(['stopped']);
    expect(await revoking).toEqual({ value: 1, unconfirmed: ['stopped'] });
    expect(commits.flatMap(({ origins }) => origins.map(({ actor }) => actor))).toEqual(
      ['first', 'revoking', 'beside', 'later'].map((name) => createUser(name, 'test')),
    );
  });

  test.each<[what: string, before: Operation[], repeated: Operation]>([
    ['that finds nothing to change', [], () => undefined],
    ['that disables an entry', [createTool, disable], disable],
    ['that replaces an entry', [createTool], updateTool({})],
    ['that hides a tool of a forward', [add(), discover(TOOLS), mark('tool', 'a', false)], mark('tool', 'a', false)],
    ['that hides an undiscovered tool', [add(), mark('tool', 'c', false)], mark('tool', 'c', false)],
    ['that registers a service', [register()], register()],
    ['that narrows a forward', [add(), change({ expose: NARROW })], change({ expose: NARROW })],
  ])(
    'is awaited by a caller that repeats an operation %s: the first one may not be confirmed',
    async (_, before, again) => {
      const { registry, store } = await open(before);
      store.unconfirmed = Promise.resolve(['stopped']);
      expect(await registry.commit(again, TESTER)).toMatchObject({ unconfirmed: ['stopped'] });
      expect(await registry.commit(again, { actor: 'discovery', reason: 'test' })).toMatchObject({ unconfirmed: [] });
      expect(store.confirmations).toBe(1);
    },
  );

  test('is awaited by a caller that removes what has been removed, and not after other failures', async () => {
    const { registry, store } = await open([createTool]);
    const remove = (draft: Draft) => removeEntry(draft, 'tool', { name: 'manual' });
    await registry.commit(remove, TESTER);
    expect(store.confirmations).toBe(1);
    await expect(registry.commit(remove, TESTER)).rejects.toMatchObject({ code: 'NOT_FOUND' });
    expect(store.confirmations).toBe(2);
    await registry.commit(createTool, TESTER);
    await expect(registry.commit(createTool, TESTER)).rejects.toMatchObject({ code: 'CONFLICT' });
    expect(store.confirmations).toBe(2);
  });

  test('is not awaited by a caller that only adds something', async () => {
    const { registry, store } = await open([]);
    const additions: Operation[] = [createTool, createResource, add(), register()];
    for (const addition of additions) await registry.commit(addition, TESTER);
    expect(store.confirmations).toBe(0);
  });

  test('is not awaited without other replicas', async () => {
    const registry = new Registry(memoryLog());
    await registry.load();
    await commit(registry, createTool);
    expect(await registry.commit(disable, TESTER)).toEqual({ value: 1, unconfirmed: [] });
  });
});

test('subscribers are called before the promise of an operation resolves', async () => {
  const { registry } = await open();
  const events: string[] = [];
  registry.committed.subscribe(({ after }) => events.push(`event ${after === registry.current}`));
  await registry.commit(createTool, TESTER, () => events.push('visible'));
  expect(events).toEqual(['event true', 'visible']);
});
