import { describe, expect, test } from 'vitest';
import { type DiscoveredCatalog, knownCatalogs } from './catalogs.ts';
import { DEFAULT_NAMESPACE, type Forward, type Namespace, parseNamespace } from './entries.ts';
import { commit } from './fixtures/commit.ts';
import { applyCatalogs, removeForward, removeNamespace } from './fixtures/operations.ts';
import { PausableStore, stored } from './fixtures/pausable-store.ts';
import { entryTexts, stateOf } from './fixtures/state.ts';
import { addForward, catalog, items } from './fixtures/upstreams.ts';
import { createEntry, removeEntry, updateEntry } from './operations.ts';
import { type CopyOutcome, copyTools, createNamespace } from './operations-topology.ts';
import { Registry } from './registry.ts';
import { entryJson } from './serialize.ts';
import { runSteps } from './steps.ts';

const TOOL = { description: 'd', uri: 'u', toolType: 'custom', input_schema: {} };
const FOUND = { description: '', uri: 'http://up.test/mcp', toolType: 'mcp-forward', input_schema: {} };

function ns(name: string): Namespace {
  const namespace = parseNamespace(name);
  if (!namespace) throw new Error(`no namespace: ${name}`);
  return namespace;
}

/** A registry with the forward `up` and its discovered tools `a` and `b`. */
async function withForward(more: Partial<Forward> = {}) {
  const store = new PausableStore();
  const registry = new Registry(store);
  await registry.load();
  await commit(registry, (draft) => addForward(draft, 'up', more));
  const discover = (...found: Partial<DiscoveredCatalog>[]): Promise<void> =>
    commit(registry, (draft) => {
      const forward = draft.forwards.get('up');
      if (forward) applyCatalogs(draft, forward, found.map(catalog));
    });
  await discover({ tools: items('name', ['a', 'b']) });
  const toolNamed = (namespace: string, name: string) =>
    registry.current.namespace(namespace)?.indexes.tool.served(name);
  /** Copies the tool with this name in a namespace (`default`). */
  const copy = async (name: string, target: string, from = 'default'): Promise<CopyOutcome | undefined> => {
    const tool = toolNamed(from, name);
    if (!tool) throw new Error(`no tool ${name} in ${from}`);
    const [outcome] = await commit(registry, (draft) => copyTools(draft, [{ tool, targetNamespace: ns(target) }]));
    return outcome;
  };
  const names = (namespace?: string) => registry.current.entries('tool', { namespace }).map(({ key }) => key);
  return { registry, store, discover, toolNamed, copy, names };
}

/** The same registry after a restart: from `registry.json`, and from the journal. */
async function restarts(registry: Registry, store: PausableStore): Promise<Registry[]> {
  const loaded = [{ entries: entryTexts(registry.current) }, { journal: structuredClone(store.journal) }];
  return Promise.all(
    loaded.map(async (from) => {
      const again = new Registry(new PausableStore(from));
      expect(await again.load()).toEqual([]);
      return again;
    }),
  );
}

describe('a copy of a discovered tool', () => {
  test('is served in a newly created namespace like its original, which stays', async () => {
    const { registry, toolNamed, copy, names } = await withForward({ prefix: 'crm.' });
    expect(await copy('crm.a', 'finance')).toBe('copied');
    expect(names()).toEqual(['crm.a', 'crm.b', 'crm.a']);
    expect([names('default'), names('finance')]).toEqual([['crm.a', 'crm.b'], ['crm.a']]);
    const made = toolNamed('finance', 'crm.a');
    expect(made?.rendered).toEqual(toolNamed('default', 'crm.a')?.rendered);
    expect(made && JSON.parse(entryJson(made))).toEqual({
      name: 'crm.a',
      namespace: 'finance',
      forward: 'up',
      upstreamName: 'a',
      uri: 'http://up.test/mcp',
      toolType: 'mcp-forward',
      labels: {},
      enabled: true,
      description: '',
      input_schema: {},
      n: 1,
    });
    expect(registry.current.counts('up').tool).toBe(2);
  });

  test('includes overrides, and keeps them when discovery updates the tool', async () => {
    const { registry, discover, toolNamed, copy } = await withForward();
    await commit(registry, (draft) =>
      updateEntry(draft, 'tool', { name: 'a' }, { ...FOUND, name: 'z', title: 'Ours', labels: { l: '1' }, n: 1 }),
    );
    await copy('z', 'finance');
    await commit(registry, (draft) => removeEntry(draft, 'tool', { name: 'z', namespace: 'default' }));
    await discover({ tools: [{ key: 'a', json: '{"name":"a","n":2.0,"more":true}' }, ...items('name', ['b'])] });
    const made = toolNamed('finance', 'z');
    expect(made?.rendered).toEqual([{ json: '{"name":"z","n":2.0,"more":true,"title":"Ours"}', catalogs: undefined }]);
    expect(made?.labels).toEqual({ l: '1' });
    expect(toolNamed('default', 'z')?.rendered).toEqual(made?.rendered);
  });

  test('is not rewritten while its tool is unchanged, wherever the upstream lists it', async () => {
    const { discover, store, copy } = await withForward();
    await copy('b', 'finance');
    store.journal.length = 0;
    await discover({ tools: items('name', ['a', 'b']) });
    expect(store.journal).toEqual([]);
    await discover({ tools: items('name', ['0', 'a', 'b']) });
    const put = store.journal.flat().map((change) => change.json !== null && JSON.parse(change.json).namespace);
    expect(put).toEqual(['default', 'default', 'default']);
  });

  test('is removed when the upstream no longer lists the tool, and is not recreated', async () => {
    const { discover, toolNamed, copy, names } = await withForward();
    await copy('a', 'finance');
    await copy('b', 'finance');
    await discover({ tools: items('name', ['b']) });
    expect(names('finance')).toEqual(['b']);
    await discover({ tools: items('name', ['a', 'b']) });
    expect([names('default'), names('finance')]).toEqual([['a', 'b'], ['b']]);
    await copy('a', 'finance');
    expect(toolNamed('finance', 'a')).toBeDefined();
  });

  test('is removed with its forward and with its namespace', async () => {
    const { registry, copy, names } = await withForward({ namespace: ns('crm') });
    await copy('a', 'finance', 'crm');
    await copy('a', 'other', 'finance');
    await commit(registry, (draft) => removeNamespace(draft, 'finance', true));
    expect(names()).toEqual(['a', 'b', 'a']);
    await commit(registry, (draft) => removeForward(draft, 'up'));
    expect(names()).toEqual([]);
  });

  test('survives its original, and can itself be copied', async () => {
    const { registry, toolNamed, copy } = await withForward();
    await copy('a', 'finance');
    await commit(registry, (draft) => removeEntry(draft, 'tool', { name: 'a', namespace: 'default' }));
    await copy('a', 'ops', 'finance');
    expect(toolNamed('ops', 'a')?.discovered).toMatchObject({ forward: 'up', upstreamKey: 'a', copied: true });
    expect(toolNamed('default', 'a')).toBeUndefined();
  });

  test('that was renamed, moved or overridden is still updated; a removed one stays removed', async () => {
    const { registry, discover, toolNamed, copy, names } = await withForward();
    await copy('a', 'finance');
    await copy('b', 'finance');
    await commit(registry, (draft) => {
      const selector = { name: 'a', namespace: 'finance' };
      updateEntry(draft, 'tool', selector, { ...FOUND, name: 'pay', namespace: 'ops', title: 'Pay', n: 1 });
      removeEntry(draft, 'tool', { name: 'b', namespace: 'finance' });
    });
    await discover({ tools: [{ key: 'a', json: '{"name":"a","new":1}' }, ...items('name', ['b'])] });
    expect([names('default'), names('finance'), names('ops')]).toEqual([['a', 'b'], [], ['pay']]);
    expect(toolNamed('ops', 'pay')?.rendered[0]?.json).toBe('{"name":"pay","new":1,"title":"Pay"}');
    expect(await copy('b', 'finance')).toBe('copied');
    // The name is free again, and a second copy of the same tool is a separate entry.
    expect(await copy('a', 'ops')).toBe('copied');
    expect(names('ops')).toEqual(['pay', 'a']);
    await discover({});
    expect(names()).toEqual([]);
  });

  test('is offered to the clients that the upstream offers the tool to', async () => {
    const { discover, toolNamed, copy } = await withForward();
    const rich = { key: 'a', json: '{"name":"a","for":"rich"}' };
    const both = [{ tools: items('name', ['b']) }, { key: 'legacy:rich', tools: [rich, ...items('name', ['b'])] }];
    await discover(...both);
    await copy('a', 'finance');
    expect(toolNamed('finance', 'a')?.rendered).toEqual([{ json: rich.json, catalogs: ['legacy:rich'] }]);
    await discover({ tools: [rich] });
    expect(toolNamed('finance', 'a')?.rendered).toEqual([{ json: rich.json, catalogs: undefined }]);
  });

  test("is not a second discovered entry when an era's catalogs are rebuilt", async () => {
    const { registry, copy } = await withForward();
    await copy('a', 'finance');
    const stored = await commit(registry, (draft) => {
      const forward = draft.forwards.get('up');
      return forward && runSteps(knownCatalogs(draft, forward, new Set(['legacy'] as const)));
    });
    expect(stored?.map(({ tools }) => tools)).toEqual([items('name', ['a', 'b'])]);
  });
});

test('a copy of a manual tool is an independent manual tool', async () => {
  const { registry, discover, toolNamed, copy } = await withForward();
  const more = { labels: { l: '1' }, id: 'i', title: 'T', extra: 1 };
  await commit(registry, (draft) => createEntry(draft, 'tool', { ...TOOL, name: 'mine', ...more }));
  await copy('mine', 'finance');
  await commit(registry, (draft) => updateEntry(draft, 'tool', { name: 'mine' }, { ...TOOL, title: 'Other' }));
  await discover({});
  await commit(registry, (draft) => removeForward(draft, 'up'));
  const made = toolNamed('finance', 'mine');
  const shown = { ...TOOL, ...more, name: 'mine', namespace: 'finance', enabled: true };
  expect(made && JSON.parse(entryJson(made))).toEqual(shown);
  await commit(registry, (draft) => removeEntry(draft, 'tool', { name: 'mine', namespace: 'default' }));
  expect(toolNamed('finance', 'mine')).toBe(made);
});

describe('a name conflict', () => {
  test('leaves the existing tool, counts the copy as found, and writes nothing', async () => {
    const { registry, store, toolNamed, copy } = await withForward();
    await commit(registry, (draft) => createEntry(draft, 'tool', { ...TOOL, name: 'a', namespace: 'finance' }));
    await copy('b', 'finance');
    const before = [toolNamed('finance', 'a'), toolNamed('finance', 'b'), toolNamed('default', 'b')];
    store.journal.length = 0;
    expect([await copy('a', 'finance'), await copy('b', 'finance'), await copy('b', 'default')]).toEqual([
      'exists',
      'exists',
      'exists',
    ]);
    expect([toolNamed('finance', 'a'), toolNamed('finance', 'b'), toolNamed('default', 'b')]).toEqual(before);
    expect(store.journal).toEqual([]);
  });

  test('a copy stays first when a forward later lists the name, until the copy is removed', async () => {
    const { registry, discover, toolNamed, copy, names } = await withForward();
    await copy('a', 'finance');
    await commit(registry, (draft) => {
      const late = addForward(draft, 'late', { namespace: ns('finance') });
      applyCatalogs(draft, late, [catalog({ tools: items('name', ['a'], ',"late":1') })]);
    });
    expect(toolNamed('finance', 'a')?.discovered?.forward).toBe('up');
    expect(registry.current.shadowed('late').map(({ key }) => key)).toEqual(['a']);
    await discover({ tools: items('name', ['b']) });
    expect(toolNamed('finance', 'a')?.discovered?.forward).toBe('late');
    expect(names('finance')).toEqual(['a']);
  });

  test("a copy in its forward's own namespace also stays first when the tool returns there", async () => {
    const { registry, store, discover, toolNamed, copy } = await withForward();
    const selector = { name: 'a', namespace: 'default' };
    await commit(registry, (draft) => updateEntry(draft, 'tool', selector, { ...FOUND, namespace: 'ops', n: 1 }));
    await copy('a', 'default', 'ops');
    await commit(registry, (draft) => {
      // Without retaining that it was moved.
      const moved = draft.get('tool', ns('ops'), 'a');
      if (moved) draft.remove(moved);
    });
    await discover({ tools: items('name', ['a', 'b'], ',"v":2') });
    expect(toolNamed('default', 'a')?.discovered?.copied).toBe(true);
    expect(toolNamed('default', 'a')?.rendered[0]?.json).toContain('"v":2');
    expect(registry.current.shadowed('up').map(({ key }) => key)).toEqual(['a']);
    for (const again of await restarts(registry, store)) {
      expect(stateOf(again.current)).toEqual(stateOf(registry.current));
    }
    await commit(registry, (draft) => removeEntry(draft, 'tool', selector));
    // The journal identifies which of the two was removed.
    const id = JSON.stringify(['default', 'a', 'up', 'a', 'copied']);
    expect(store.journal.at(-1)).toEqual([{ section: 'tools', id, json: null }]);
    expect(toolNamed('default', 'a')?.discovered).not.toHaveProperty('copied');
    for (const again of await restarts(registry, store)) {
      expect(stateOf(again.current)).toEqual(stateOf(registry.current));
    }
  });
});

test('many copies are one commit; tools that no longer exist are skipped, without creating a namespace', async () => {
  const { registry, store, toolNamed, names } = await withForward();
  await commit(registry, (draft) => createEntry(draft, 'tool', { ...TOOL, name: 'mine' }));
  const [a, b, mine] = ['a', 'b', 'mine'].map((name) => toolNamed('default', name));
  if (!a || !b || !mine) throw new Error('no tools');
  await commit(registry, (draft) => {
    removeEntry(draft, 'tool', { name: 'a' });
    removeEntry(draft, 'tool', { name: 'mine' });
    // A new tool under the same name is not the selected one.
    createEntry(draft, 'tool', { ...TOOL, name: 'a' });
  });
  store.journal.length = 0;
  const outcomes = await commit(registry, (draft) =>
    copyTools(draft, [
      { tool: a, targetNamespace: ns('one') },
      { tool: b, targetNamespace: ns('two') },
      { tool: mine, targetNamespace: ns('three') },
      { tool: b, targetNamespace: ns('two') },
      { tool: b, targetNamespace: DEFAULT_NAMESPACE },
      { tool: b, targetNamespace: ns('four') },
    ]),
  );
  expect(outcomes).toEqual(['gone', 'copied', 'gone', 'exists', 'exists', 'copied']);
  expect(store.journal).toHaveLength(1);
  expect([...registry.current.namespaces.keys()]).toEqual(['default', 'two', 'four']);
  expect(names()).toEqual(['b', 'a', 'b', 'b']);
});

describe('copies after a restart', () => {
  test('are unchanged, also after updates', async () => {
    const { registry, store, discover, copy } = await withForward();
    await commit(registry, (draft) => {
      createNamespace(draft, 'ops', {});
      createEntry(draft, 'tool', { ...TOOL, name: 'mine' });
    });
    await copy('b', 'ops');
    await copy('mine', 'ops');
    await copy('a', 'ops');
    await commit(registry, (draft) =>
      updateEntry(draft, 'tool', { name: 'b', namespace: 'ops' }, { ...FOUND, name: 'z', title: 'Ours', n: 1 }),
    );
    const found = { tools: items('name', ['b'], ',"v":2') };
    const again = await restarts(registry, store);
    for (const other of again) {
      expect(stateOf(other.current)).toEqual(stateOf(registry.current));
      await commit(other, (draft) => {
        const forward = draft.forwards.get('up');
        if (forward) applyCatalogs(draft, forward, [catalog(found)]);
      });
    }
    await discover(found);
    expect(registry.current.entries('tool', { namespace: 'ops' }).map(({ key }) => key)).toEqual(['z', 'mine']);
    for (const other of again) expect(stateOf(other.current)).toEqual(stateOf(registry.current));
  });

  test("are distinguished from an upstream's own member of that name, in new and old files", async () => {
    const own = { key: 'a', json: '{"name":"a","copied":true}' };
    const { registry, store, discover, toolNamed, copy } = await withForward();
    await discover({ tools: [own] });
    await copy('a', 'ops');
    for (const again of await restarts(registry, store)) {
      const copied = (namespace: string) => {
        const tool = again.current.namespace(namespace)?.indexes.tool.served('a');
        return [tool?.discovered?.copied, tool?.rendered[0]?.json];
      };
      expect([copied('default'), copied('ops')]).toEqual([
        [undefined, own.json],
        [true, own.json],
      ]);
    }
    expect(toolNamed('ops', 'a') && JSON.parse(entryJson(toolNamed('ops', 'a') ?? never()))).toMatchObject({
      copied: true,
    });

    const source = registry.current.forwards.get('up')?.registrationId;
    const upstream = { name: 'a', copied: true };
    const old = new Registry(
      new PausableStore({
        entries: stored({
          forwards: [{ name: 'up', address: 'http://up.test/mcp', source }],
          tools: [{ name: 'a', forward: 'up', copied: true, upstream, overrides: {}, position: 0, source }],
        }),
      }),
    );
    expect(await old.load()).toEqual([]);
    expect(old.current.entries('tool')[0]?.discovered?.copied).toBeUndefined();
  });
});

function never(): never {
  throw new Error('it was there a moment ago');
}
