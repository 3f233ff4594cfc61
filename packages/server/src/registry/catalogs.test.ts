import { describe, expect, test } from 'vitest';
import type { DiscoveredCatalog } from './catalogs.ts';
import type { Entry, Forward, Kind } from './entries.ts';
import { commit } from './fixtures/commit.ts';
import { applyCatalogs, removeNamespace } from './fixtures/operations.ts';
import { PausableStore } from './fixtures/pausable-store.ts';
import { entryTexts, stateOf } from './fixtures/state.ts';
import { addForward, catalog, items } from './fixtures/upstreams.ts';
import { createEntry, removeEntry, updateEntry } from './operations.ts';
import { Registry } from './registry.ts';
import { runSteps } from './steps.ts';

/** A registry with one forward, `up`. */
async function withForward(more: Partial<Forward> = {}) {
  const store = new PausableStore();
  const registry = new Registry(store);
  await registry.load();
  await commit(registry, (draft) => addForward(draft, 'up', more));
  const discover = (found: Partial<DiscoveredCatalog> | DiscoveredCatalog[]): Promise<void> =>
    commit(registry, (draft) => {
      const forward = draft.forwards.get('up');
      if (forward) applyCatalogs(draft, forward, Array.isArray(found) ? found : [catalog(found)]);
    });
  const entries = (kind: Kind = 'tool'): readonly Entry[] => registry.current.entries(kind);
  const served = (kind: Kind = 'tool') => entries(kind).map((entry) => entry.rendered.map(({ json }) => json));
  /** The commits written since the last call. */
  const written = () => store.journal.splice(0).flat();
  written();
  return { registry, store, discover, entries, served, written };
}

const TOOL = { description: '', uri: 'http://up.test/mcp', toolType: 'mcp-forward', input_schema: {} };
const keys = (entries: readonly Entry[]): string[] => entries.map(({ key }) => key);

describe('discovered entries', () => {
  test("keep the upstream's text and order", async () => {
    const { discover, entries, served } = await withForward();
    const tools = [
      { key: 'b', json: '{ "name":"b",\n "max":9223372036854775807, "x":1.0 }' },
      { key: 'a', json: '{"name":"a","\\u0078":"\\u00e9"}' },
    ];
    await discover({ tools, prompts: items('name', ['p']) });
    expect(keys(entries())).toEqual(['b', 'a']);
    expect(served()).toEqual(tools.map(({ json }) => [json]));
    expect(entries()[0]).toMatchObject({
      namespace: 'default',
      members: { uri: 'http://up.test/mcp', toolType: 'mcp-forward' },
    });
    expect(entries('prompt')[0]).toMatchObject({ members: { configurationURI: 'http://up.test/mcp' } });
  });

  test('replace previous ones in one commit: new entries are added, missing ones removed, the order updated', async () => {
    const { registry, discover, entries, written } = await withForward();
    await discover({ tools: items('name', ['a', 'b', 'c']) });
    const seen: string[][] = [];
    registry.committed.subscribe(() => seen.push(keys(entries())));
    await discover({ tools: items('name', ['c', 'd', 'a']) });
    expect(seen).toEqual([['c', 'd', 'a']]);
    written();
    await discover({});
    expect(written().filter(({ json }) => json === null)).toHaveLength(3);
    expect(entries()).toEqual([]);
  });

  test('are not written and change no list when they are unchanged', async () => {
    const { registry, discover, entries, written } = await withForward({ prefix: 'p.' });
    const found = () => [
      catalog({ tools: items('name', ['a', 'b']), templates: items('uriTemplate', ['x:{y}']) }),
      catalog({
        key: 'modern:{}',
        era: 'modern',
        tools: items('name', ['b', 'c']),
        resources: items('uri', ['x:1']),
      }),
    ];
    await discover(found());
    await commit(registry, (draft) => {
      updateEntry(draft, 'tool', { name: 'p.a' }, { ...TOOL, name: 'z', labels: { l: '1' }, title: 'Ours' });
      updateEntry(draft, 'resource', { name: 'x:1' }, { name: 'r', location: 'x:1', type: 'mcp-forward', labels: {} });
    });
    written();
    const before = [...entries(), ...entries('resource')];
    await discover(found());
    expect(written()).toEqual([]);
    expect([...entries(), ...entries('resource')]).toEqual(before);

    // Nor after a restart.
    const store = new PausableStore({ entries: entryTexts(registry.current) });
    const again = new Registry(store);
    await again.load();
    await commit(again, (draft) => {
      const forward = draft.forwards.get('up');
      if (forward) applyCatalogs(draft, forward, found());
    });
    expect(store.journal).toEqual([]);
  });

  test('changes one object: that one is written', async () => {
    const { discover, written, served } = await withForward();
    await discover({ tools: items('name', ['a', 'b', 'c']) });
    written();
    const changed = { key: 'b', json: '{"name":"b","n":1.00}' };
    await discover({ tools: [...items('name', ['a']), changed, ...items('name', ['c'])] });
    expect(written().map(({ json }) => json !== null && JSON.parse(json).name)).toEqual(['b']);
    expect(served()[1]).toEqual(['{"name":"b","n":1.00}']);
  });

  test('has its prefix before tools and prompts, and not before uris', async () => {
    const { discover, entries, served } = await withForward({ prefix: 'crm.' });
    await discover({
      tools: items('name', ['a']),
      prompts: items('name', ['p']),
      resources: items('uri', ['x:1']),
      templates: items('uriTemplate', ['x:{y}']),
    });
    expect([...keys(entries()), ...keys(entries('prompt')), ...keys(entries('resource'))]).toEqual([
      'crm.a',
      'crm.p',
      'x:1',
      'x:{y}',
    ]);
    expect(served()).toEqual([['{"name":"crm.a","n":1.0}']]);
    expect(entries()[0]?.discovered?.upstreamKey).toBe('a');
  });
});

describe('over several catalogs', () => {
  test('an entry with equal text in all catalogs is one variant for all, otherwise one per catalog', async () => {
    const { discover, entries } = await withForward();
    const poor = { key: 'v', json: '{"name":"v","for":"poor"}' };
    const rich = { key: 'v', json: '{"name":"v","for":"rich"}' };
    await discover([
      catalog({ key: 'poor', tools: [...items('name', ['all']), poor] }),
      catalog({ key: 'rich', tools: [...items('name', ['all']), rich, ...items('name', ['only'])] }),
      catalog({ key: 'modern', tools: [...items('name', ['all']), rich] }),
    ]);
    expect(Object.fromEntries(entries().map(({ key, rendered: served }) => [key, served]))).toEqual({
      all: [{ json: '{"name":"all","n":1.0}', catalogs: undefined }],
      v: [
        { json: rich.json, catalogs: ['rich', 'modern'] },
        { json: poor.json, catalogs: ['poor'] },
      ],
      only: [{ json: '{"name":"only","n":1.0}', catalogs: ['rich'] }],
    });
  });

  test('an entry that appears in other catalogs than before is served to those clients', async () => {
    const { discover, entries } = await withForward();
    const listed = (...to: string[]) =>
      ['1', '2', '3'].map((key) => catalog({ key, tools: to.includes(key) ? items('name', ['a']) : [] }));
    await discover(listed('1', '2'));
    await discover(listed('2', '3'));
    expect(entries()[0]?.rendered.map(({ catalogs }) => catalogs)).toEqual([['2', '3']]);
  });

  test('the longest catalog determines the order; entries of others follow', async () => {
    const { discover, entries } = await withForward();
    await discover([
      catalog({ key: '1', tools: items('name', ['c', 'x']) }),
      catalog({ key: '2', tools: items('name', ['a', 'b', 'c']) }),
      catalog({ key: '3', tools: items('name', ['b', 'a', 'y']) }),
    ]);
    expect(keys(entries())).toEqual(['a', 'b', 'c', 'y', 'x']);
  });

  test('every variant is renamed and overridden', async () => {
    const { registry, discover, served } = await withForward();
    await discover([
      catalog({ key: '1', tools: [{ key: 'a', json: '{"name":"a","one":1.0}' }] }),
      catalog({ key: '2', tools: [{ key: 'a', json: '{"name":"a","title":"T","two":2.0}' }] }),
    ]);
    await commit(registry, (draft) =>
      updateEntry(draft, 'tool', { name: 'a' }, { ...TOOL, name: 'z', one: JSON.rawJSON('1.0'), title: 'Ours' }),
    );
    expect(served()).toEqual([['{"name":"z","one":1.0,"title":"Ours"}', '{"name":"z","title":"Ours","two":2.0}']]);
  });
});

describe('a uri that is a resource and a template', () => {
  const both = { resources: items('uri', ['x:1']), templates: items('uriTemplate', ['x:1', 'x:{y}']) };

  test('is the resource, at every refresh', async () => {
    const { discover, entries, written } = await withForward();
    await discover(both);
    expect(entries('resource').map(({ key, labels }) => [key, labels['service.is_template']])).toEqual([
      ['x:1', undefined],
      ['x:{y}', 'true'],
    ]);
    written();
    await discover(both);
    expect(written()).toEqual([]);
  });

  test('changes between the two kinds with its upstream', async () => {
    const { discover, entries } = await withForward();
    const shown = () => entries('resource').map(({ key, labels, rendered: served }) => [key, labels, served[0]?.json]);
    const address = { 'service.forward_address': 'http://up.test/mcp' };
    await discover({ templates: items('uriTemplate', ['x:1']) });
    expect(shown()).toEqual([['x:1', { ...address, 'service.is_template': 'true' }, '{"uriTemplate":"x:1","n":1.0}']]);
    await discover({ resources: items('uri', ['x:1']) });
    expect(shown()).toEqual([['x:1', address, '{"uri":"x:1","n":1.0}']]);
    // Also when it is the very same object.
    const both = [{ key: 'x:1', json: '{"uri":"x:1","uriTemplate":"x:1"}' }];
    await discover({ resources: both });
    await discover({ templates: both });
    expect(shown()).toMatchObject([['x:1', { 'service.is_template': 'true' }, both[0]?.json]]);
  });
});

describe('a resource', () => {
  test("has the upstream's name or its uri, and follows it unless renamed", async () => {
    const { registry, discover, entries } = await withForward();
    const found = (name: string) => ({
      resources: [
        { key: 'x:1', json: `{"uri":"x:1","name":${name}}` },
        { key: 'x:2', json: `{"uri":"x:2","name":${name}}` },
      ],
    });
    const names = () =>
      entries('resource').map(({ name, rendered: served }) => [name, JSON.parse(served[0]?.json ?? '').name]);
    await discover(found('"one"'));
    await commit(registry, (draft) =>
      updateEntry(
        draft,
        'resource',
        { name: 'one', uri: 'x:2' },
        { name: 'ours', location: 'x:2', type: 'mcp-forward' },
      ),
    );
    expect(names()).toEqual([
      ['one', 'one'],
      ['ours', 'ours'],
    ]);
    await discover(found('"two"'));
    expect(names()).toEqual([
      ['two', 'two'],
      ['ours', 'ours'],
    ]);
    await discover(found('""'));
    expect(names()).toEqual([
      ['x:1', ''],
      ['ours', 'ours'],
    ]);
  });
});

/** Renames, moves, labels and overrides tool `a`. */
function change(registry: Registry): Promise<Entry> {
  return commit(registry, (draft) => {
    const wanted = {
      ...TOOL,
      name: 'z',
      namespace: 'ops',
      labels: { mine: '1' },
      id: 'i',
      title: 'Ours',
      n: JSON.rawJSON('1.0'),
    };
    return updateEntry(draft, 'tool', { name: 'a' }, wanted);
  });
}

describe('overrides', () => {
  const CHANGED = { key: 'z', name: 'z', namespace: 'ops', labels: { mine: '1' }, members: { id: 'i' } };

  test('persist over refreshes that change the entry below', async () => {
    const { registry, discover, entries, served } = await withForward();
    await discover({ tools: items('name', ['a']) });
    await change(registry);
    await discover({ tools: items('name', ['a'], ',"new":2.0,"title":"Theirs"') });
    expect(entries()).toMatchObject([CHANGED]);
    expect(served()).toEqual([['{"name":"z","n":1.0,"new":2.0,"title":"Ours"}']]);
  });

  test('apply again when the upstream lists the entry again after a while, also over restarts', async () => {
    const { registry, discover } = await withForward();
    await discover({ tools: items('name', ['a', 'b']) });
    await change(registry);
    await discover({ tools: items('name', ['b']) });
    expect(keys(registry.current.entries('tool'))).toEqual(['b']);
    await discover({ tools: [] });

    const again = new Registry(new PausableStore({ entries: entryTexts(registry.current) }));
    expect(await again.load()).toEqual([]);
    expect(stateOf(again.current)).toEqual(stateOf(registry.current));
    for (const each of [registry, again]) {
      await commit(each, (draft) => {
        const forward = draft.forwards.get('up');
        if (forward) applyCatalogs(draft, forward, [catalog({ tools: items('name', ['a', 'b'], ',"new":2.0') })]);
      });
      expect(each.current.entries('tool')).toMatchObject([CHANGED, { key: 'b' }]);
      expect(each.current.entries('tool')[0]?.rendered[0]?.json).toBe('{"name":"z","n":1.0,"new":2.0,"title":"Ours"}');
      expect(each.current.forwards.get('up')?.detachedOverrides).toEqual([]);
    }
  });

  test('are stored only for changed entries, and not written again while the entry is missing', async () => {
    const { registry, discover, written } = await withForward();
    await discover({
      tools: items('name', ['a', 'b']),
      resources: items('uri', ['x:1']),
      templates: items('uriTemplate', ['t:{x}']),
    });
    await change(registry);
    await discover({});
    expect(registry.current.forwards.get('up')?.detachedOverrides).toMatchObject([CHANGED]);
    written();
    await discover({});
    expect(written()).toEqual([]);
  });

  test("apply in the forward's namespace when the target namespace was deleted, where the entry is disabled", async () => {
    const { registry, discover, entries } = await withForward();
    await discover({ tools: items('name', ['a']) });
    await change(registry);
    await discover({});
    await commit(registry, (draft) => removeNamespace(draft, 'ops', false));
    await discover({ tools: items('name', ['a']) });
    expect(entries()).toMatchObject([{ ...CHANGED, namespace: 'default', disabledBy: 'operator' }]);
    expect(registry.current.namespace('ops')).toBeUndefined();
  });

  test('remain when the entry is deleted, and apply when it returns', async () => {
    const { registry, discover, entries } = await withForward();
    await discover({ tools: items('name', ['a']) });
    await change(registry);
    await commit(registry, (draft) => removeEntry(draft, 'tool', { name: 'z' }));
    expect(entries()).toEqual([]);
    await discover({ tools: items('name', ['a']) });
    expect(entries()).toMatchObject([CHANGED]);
  });

  test('are removed with the forward', async () => {
    const { registry, discover, entries } = await withForward();
    await discover({ tools: items('name', ['a']) });
    await change(registry);
    await discover({});
    await commit(registry, (draft) => {
      runSteps(draft.removeForwardInSteps('up'));
      addForward(draft, 'up');
    });
    await discover({ tools: items('name', ['a']) });
    expect(entries()).toMatchObject([{ key: 'a', namespace: 'default', labels: {} }]);
  });
});

describe('a key conflict', () => {
  test('a manual entry shadows a discovered one until it is deleted', async () => {
    const { registry, discover, entries } = await withForward();
    await commit(registry, (draft) => createEntry(draft, 'tool', { ...TOOL, toolType: 'custom', name: 'a' }));
    await discover({ tools: items('name', ['a']) });
    expect(entries()[0]?.discovered).toBeUndefined();
    expect(keys(registry.current.shadowed('up'))).toEqual(['a']);
    await commit(registry, (draft) => removeEntry(draft, 'tool', { name: 'a' }));
    expect(entries()[0]?.discovered?.forward).toBe('up');
    expect(registry.current.shadowed('up')).toEqual([]);
  });

  test('a renamed entry stays first when its upstream lists that name, and is transferred with it', async () => {
    const { registry, discover } = await withForward();
    const origins = () =>
      registry.current
        .namespace('default')
        ?.indexes.tool.candidates('b')
        .map(({ discovered }) => discovered?.upstreamKey);
    await discover({ tools: items('name', ['a']) });
    await commit(registry, (draft) => updateEntry(draft, 'tool', { name: 'a' }, { ...TOOL, name: 'b' }));
    await discover({ tools: items('name', ['b', 'a']) });
    expect(origins()).toEqual(['a', 'b']);
    await discover({ tools: items('name', ['b', 'a']) });
    expect(origins()).toEqual(['a', 'b']);
    // In one commit: the first entry is no longer discovered, the other still is.
    await discover({ tools: items('name', ['b']) });
    expect(origins()).toEqual(['b']);
  });

  test('a renamed entry is not lost when it is removed in the commit that adds the name', async () => {
    const { registry, discover, entries } = await withForward();
    await discover({ tools: items('name', ['a']) });
    await commit(registry, (draft) => updateEntry(draft, 'tool', { name: 'a' }, { ...TOOL, name: 'b' }));
    await discover({ tools: items('name', ['b']) });
    expect(entries().map(({ key, discovered }) => [key, discovered?.upstreamKey])).toEqual([['b', 'b']]);
  });
});

test('other members of a catalog are stored with the forward', async () => {
  const { registry, discover } = await withForward();
  const cache = { 'tools/list': { ttlMs: 5, cacheScope: 'private' } } as const;
  const { tools, resources, templates, prompts, ...known } = catalog({
    key: 'modern:{}',
    era: 'modern',
    capabilities: { sampling: {} },
    identity: '{ "serverInfo":{"name":"s","version":"1"},"n":1.0 }',
    cache,
  });
  await discover([{ ...known, tools, resources, templates, prompts }]);
  expect(registry.current.forwards.get('up')?.catalogs).toEqual([known]);
});
