import { describe, expect, test } from 'vitest';
import { type ChangedLists, Draft } from './draft.ts';
import { DEFAULT_NAMESPACE, type Namespace, parseNamespace } from './entries.ts';
import { applyCatalogs } from './fixtures/operations.ts';
import { addForward, catalog, items, view } from './fixtures/upstreams.ts';
import { createEntry, removeEntry, updateEntry } from './operations.ts';
import { registerService, removeServices } from './operations-topology.ts';
import { Snapshot } from './snapshot.ts';
import { runSteps } from './steps.ts';
import { storedChanges } from './store/fixtures/changes.ts';

function namespace(name: string): Namespace {
  return parseNamespace(name) ?? DEFAULT_NAMESPACE;
}

const SERVICE = { name: 's', host: 'h', port: 1, serviceType: 'tool-invoker' } as const;
const TOOL = { description: '', uri: 'u', toolType: 'custom', input_schema: {} };

/** The state after these operations. */
function after(
  base: Snapshot,
  ...operations: ((draft: Draft) => void)[]
): { snapshot: Snapshot; changed: ChangedLists[] } {
  const draft = new Draft(base);
  for (const operation of operations) runSteps(draft.attempt(operation));
  return runSteps(draft.finishInSteps());
}

const base = after(Snapshot.empty(), (draft) => {
  for (const name of ['default', 'ops', 'crm']) draft.ensureNamespace(namespace(name));
  createEntry(draft, 'tool', { ...TOOL, name: 'mine' });
  createEntry(draft, 'tool', { ...TOOL, name: 'theirs', namespace: 'crm' });
  const forward = addForward(draft, 'up', { namespace: namespace('ops') });
  applyCatalogs(draft, forward, [
    catalog({ tools: items('name', ['a', 'b']), resources: items('uri', ['r:1']), prompts: items('name', ['p']) }),
  ]);
  registerService(draft, SERVICE);
  registerService(draft, { ...SERVICE, serviceType: 'resource-provider' });
  registerService(draft, { ...SERVICE, name: 'other' });
}).snapshot;

/** Everything that a snapshot shows. */
function shown(snapshot: Snapshot): unknown {
  return structuredClone({
    namespaces: [...snapshot.namespaces.values()].map(({ name, labels }) => ({ name, labels })),
    forwards: [...snapshot.forwards],
    entries: (['tool', 'resource', 'prompt'] as const).map((kind) => snapshot.entries(kind, { shadowed: true })),
    counts: snapshot.counts('up'),
    services: [snapshot.services.all, snapshot.services.named('s'), snapshot.services.named('new')],
    next: snapshot.next,
  });
}

/** Operations on every kind of record. */
const CHANGES: [string, (draft: Draft) => void][] = [
  ['a new entry', (draft) => createEntry(draft, 'tool', { ...TOOL, name: 'new', namespace: 'new' })],
  ['an entry less', (draft) => removeEntry(draft, 'tool', { name: 'mine' })],
  ['a namespace labeled', (draft) => draft.putNamespace(namespace('ops'), { a: '1' })],
  ['a namespace removed', (draft) => runSteps(draft.removeNamespaceInSteps(namespace('ops')))],
  [
    'an entry changed twice',
    (draft) => {
      updateEntry(draft, 'tool', { name: 'mine' }, { ...TOOL, title: 'once' });
      updateEntry(draft, 'tool', { name: 'mine' }, { ...TOOL, title: 'twice' });
      draft.putNamespace(namespace('ops'), { a: '1' });
      draft.putNamespace(namespace('ops'), { a: '2' });
    },
  ],
  [
    'a namespace deleted and recreated',
    (draft) => {
      runSteps(draft.removeNamespaceInSteps(namespace('ops')));
      createEntry(draft, 'tool', { ...TOOL, name: 'z', namespace: 'ops' });
    },
  ],
  ['a new service', (draft) => registerService(draft, { ...SERVICE, name: 'new' })],
  ['a service replaced', (draft) => registerService(draft, { ...SERVICE, port: 2 })],
  ['a service less', (draft) => removeServices(draft, 's', 'tool-invoker')],
  [
    'services deleted and registered again',
    (draft) => {
      removeServices(draft, 's');
      registerService(draft, { ...SERVICE, port: 2 });
      removeServices(draft, 'other');
    },
  ],
  ['a forward removed', (draft) => runSteps(draft.removeForwardInSteps('up'))],
  [
    'a forward replaced',
    (draft) => {
      runSteps(draft.removeForwardInSteps('up'));
      addForward(draft, 'up');
    },
  ],
  [
    'a forward rediscovered',
    (draft) => {
      const forward = draft.forwards.get('up');
      if (forward) applyCatalogs(draft, forward, [catalog({ tools: items('name', ['b', 'c'], ',"x":1') })]);
    },
  ],
];

describe.each(CHANGES)('%s', (_name, change) => {
  test('is invisible to readers of the previous state', () => {
    const before = shown(base);
    const lists = base.namespaces.get(namespace('ops'))?.indexes.tool.lists.get(
      view(() => []),
      'tools/list',
    );
    const { snapshot } = after(base, change);
    expect(shown(base)).toEqual(before);
    expect(
      base.namespaces.get(namespace('ops'))?.indexes.tool.lists.get(
        view(() => []),
        'tools/list',
      ),
    ).toBe(lists);
    expect(shown(snapshot)).not.toEqual(before);
  });

  test('is discarded when the operation throws, while others in the commit succeed', () => {
    const alone = after(
      base,
      (draft) => createEntry(draft, 'tool', { ...TOOL, name: 'first', namespace: 'ops' }),
      (draft) => createEntry(draft, 'tool', { ...TOOL, name: 'last' }),
    );
    const draft = new Draft(base);
    runSteps(draft.attempt((current) => createEntry(current, 'tool', { ...TOOL, name: 'first', namespace: 'ops' })));
    const noted = storedChanges(draft.changes);
    const fails = () =>
      runSteps(
        draft.attempt((current) => {
          change(current);
          throw new Error('too late');
        }),
      );
    expect(fails).toThrow('too late');
    expect(storedChanges(draft.changes)).toEqual(noted);
    runSteps(draft.attempt((current) => createEntry(current, 'tool', { ...TOOL, name: 'last' })));
    const { snapshot } = runSteps(draft.finishInSteps());
    expect(shown(snapshot)).toEqual(shown(alone.snapshot));
    expect([...snapshot.namespaces.keys()]).toEqual([...alone.snapshot.namespaces.keys()]);
  });
});

describe('changed lists', () => {
  test('are those with changed entries only', () => {
    const { changed, snapshot } = after(
      base,
      (draft) => createEntry(draft, 'prompt', { name: 'q', namespace: 'ops' }),
      (draft) => removeEntry(draft, 'tool', { name: 'mine' }),
    );
    expect(changed).toEqual([
      { namespace: 'ops', kind: 'prompt' },
      { namespace: 'default', kind: 'tool' },
    ]);
    // Everything else is the same object, including prebuilt lists.
    expect(snapshot.namespaces.get(namespace('crm'))).toBe(base.namespaces.get(namespace('crm')));
    expect(snapshot.namespaces.get(namespace('ops'))?.indexes.tool).toBe(
      base.namespaces.get(namespace('ops'))?.indexes.tool,
    );
  });

  test('are empty when only namespaces, forwards or services change', () => {
    const { changed } = after(base, (draft) => {
      draft.putNamespace(namespace('crm'), { a: '1' });
      addForward(draft, 'second');
      removeServices(draft, 's');
    });
    expect(changed).toEqual([]);
  });

  test("are a forward's lists when its caching hints or catalogs change though no entry does", () => {
    const found = (ttlMs: number, extra: string[] = []) => {
      const hints = { 'tools/list': { ttlMs, cacheScope: 'public' } } as const;
      const lists = {
        tools: items('name', ['a', 'b']),
        resources: items('uri', ['r:1']),
        prompts: items('name', ['p']),
      };
      return ['legacy:{}', ...extra].map((key) => catalog({ key, cache: hints, ...lists }));
    };
    const apply =
      (...args: Parameters<typeof found>) =>
      (draft: Draft) => {
        const forward = draft.forwards.get('up');
        if (forward) applyCatalogs(draft, forward, found(...args));
      };
    const tools = (snapshot: Snapshot) =>
      snapshot.namespaces
        .get(namespace('ops'))
        ?.indexes.tool.lists.get(
          view(() => snapshot.forwards.get('up')?.catalogs ?? []),
          'tools/list',
        )
        .json.toString();
    const first = after(base, apply(5_000)).snapshot;
    expect(tools(first)).toMatch(/5000 public$/);
    const second = after(first, apply(7_000));
    expect(tools(second.snapshot)).toMatch(/7000 public$/);
    expect(tools(first)).toMatch(/5000 public$/);
    expect(second.changed).toContainEqual({ namespace: 'ops', kind: 'tool' });
    expect(second.changed).not.toContainEqual({ namespace: 'default', kind: 'tool' });
    expect(after(second.snapshot, apply(7_000)).changed).toEqual([]);
    expect(after(second.snapshot, apply(7_000, ['legacy:rich'])).changed).toContainEqual({
      namespace: 'ops',
      kind: 'tool',
    });
  });
});

test('an entry that names a namespace creates it, and the default one cannot be removed', () => {
  const draft = new Draft(Snapshot.empty());
  createEntry(draft, 'tool', { ...TOOL, name: 'a', namespace: 'fresh' });
  expect([...draft.namespaces.keys()]).toEqual(['fresh']);
  expect(draft.changes.map(({ section }) => section)).toEqual(['namespaces', 'tools']);
  expect(() => runSteps(draft.removeNamespaceInSteps(DEFAULT_NAMESPACE))).toThrow();
});

test('labeling a namespace leaves its contents', () => {
  const { snapshot } = after(base, (draft) => draft.putNamespace(namespace('ops'), { a: '1' }));
  const state = snapshot.namespace('ops');
  expect(state?.labels).toEqual({ a: '1' });
  expect(state?.indexes.tool.entries).toHaveLength(2);
  expect(snapshot.namespace('no such')).toBeUndefined();
});

test('shadowed entries of a forward are found, and counted with the others', () => {
  const { snapshot } = after(base, (draft) => {
    createEntry(draft, 'tool', { ...TOOL, name: 'x', namespace: 'ops' });
    const late = addForward(draft, 'late', { namespace: namespace('ops') });
    applyCatalogs(draft, late, [catalog({ tools: items('name', ['a', 'x', 'own']) })]);
  });
  expect(snapshot.shadowed('late').map(({ key }) => key)).toEqual(['a', 'x']);
  expect(snapshot.shadowed('up')).toEqual([]);
  expect(snapshot.counts('late')).toEqual({ tool: 3, resource: 0, prompt: 0 });
  expect(snapshot.counts('up')).toEqual({ tool: 2, resource: 1, prompt: 1 });
  expect(snapshot.counts('nobody')).toEqual({ tool: 0, resource: 0, prompt: 0 });
});
