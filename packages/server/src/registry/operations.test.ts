import { expect, test } from 'vitest';
import type { DiscoveredCatalog } from './catalogs.ts';
import { DEFAULT_NAMESPACE, type Forward } from './entries.ts';
import { commit } from './fixtures/commit.ts';
import { applyCatalogs, removeNamespace } from './fixtures/operations.ts';
import { PausableStore } from './fixtures/pausable-store.ts';
import { entryTexts } from './fixtures/state.ts';
import { createEntry, removeEntry, updateEntry } from './operations.ts';
import { createNamespace, labelNamespace } from './operations-topology.ts';
import { Registry } from './registry.ts';
import { entryJson } from './serialize.ts';

const TOOL = { name: 't', description: '', uri: 'u', toolType: 'custom', input_schema: {} };
const UP: Forward = {
  name: 'up',
  address: 'http://up/mcp',
  namespace: DEFAULT_NAMESPACE,
  labels: {},
  prefix: '',
  registrationId: 1,
  catalogs: [],
};
const FOUND: DiscoveredCatalog = {
  key: 'legacy:',
  era: 'legacy',
  capabilities: {},
  identity: '{}',
  cache: {},
  tools: ['a', 'b', 'c'].map((key) => ({ key, json: `{"name":"${key}","inputSchema":{},"n":1.0}` })),
  resources: [{ key: 'x:1', json: '{"uri":"x:1","name":"r"}' }],
  templates: [],
  prompts: [],
};

/** Everything that the API could show, in order. */
function shown(registry: Registry): unknown {
  const { current } = registry;
  return {
    namespaces: [...current.namespaces.values()].map(({ name, labels }) => ({ name, labels })),
    forwards: [...current.forwards.keys()],
    entries: (['tool', 'resource', 'prompt'] as const).map((kind) =>
      current.entries(kind, { shadowed: true }).map((entry) => [entryJson(entry), entry.rendered]),
    ),
  };
}

test('the results of operations survive a restart, from the journal and from the snapshot', async () => {
  const store = new PausableStore();
  const registry = new Registry(store);
  await registry.load();
  await commit(registry, (draft) => draft.putForward({ ...UP, registrationId: draft.nextRegistrationId() }));
  await commit(registry, (draft) => applyCatalogs(draft, UP, [FOUND]));
  await commit(registry, (draft) => createEntry(draft, 'tool', { ...TOOL, source: 'mine', upstream: [1], kept: true }));
  await commit(registry, (draft) => createEntry(draft, 'tool', { ...TOOL, name: 'gone' }));
  await commit(registry, (draft) => createEntry(draft, 'prompt', { name: 'p', messages: [], namespace: 'ops' }));
  await commit(registry, (draft) => {
    const change = { ...TOOL, uri: UP.address, toolType: 'mcp-forward', labels: { l: '1' } };
    updateEntry(draft, 'tool', { name: 'b' }, { ...change, name: 'z', namespace: 'moved', title: 'Ours' });
  });
  await commit(registry, (draft) => {
    updateEntry(draft, 'resource', { name: 'r' }, { name: 'renamed', location: 'x:1', type: 'mcp-forward' });
  });
  await commit(registry, (draft) => {
    removeEntry(draft, 'tool', { name: 'gone' });
    removeEntry(draft, 'tool', { name: 'c' });
  });
  await commit(registry, (draft) => createNamespace(draft, 'empty', {}));
  await commit(registry, (draft) => createNamespace(draft, 'left', {}));
  await commit(registry, (draft) => labelNamespace(draft, 'left', { a: '1' }));
  await commit(registry, (draft) => removeNamespace(draft, 'empty', false));

  const replayed = new Registry(new PausableStore({ journal: store.journal }));
  expect(await replayed.load()).toEqual([]);
  expect(shown(replayed)).toEqual(shown(registry));

  const restored = new Registry(new PausableStore({ entries: entryTexts(registry.current) }));
  expect(await restored.load()).toEqual([]);
  expect(shown(restored)).toEqual(shown(registry));
});

test('a rejected operation changes nothing, also among others in the same commit', async () => {
  const store = new PausableStore();
  const registry = new Registry(store);
  await registry.load();
  const results = await Promise.allSettled([
    commit(registry, (draft) => createEntry(draft, 'tool', TOOL)),
    commit(registry, (draft) => createEntry(draft, 'tool', TOOL)),
    commit(registry, (draft) => updateEntry(draft, 'tool', { name: 't' }, { ...TOOL, name: 'renamed' })),
    commit(registry, (draft) => removeNamespace(draft, 'default', true)),
  ]);
  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'rejected']);
  expect(registry.current.entries('tool').map(({ name }) => name)).toEqual(['renamed']);
});
