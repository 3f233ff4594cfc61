import { describe, expect, it } from 'vitest';
import { DEFAULT_LOG_FILTER } from '../app/config/environment.ts';
import { ListChangeNotifier } from '../mcp/list-changes.ts';
import { DEFAULT_NAMESPACE, parseNamespace } from '../registry/entries.ts';
import { commit } from '../registry/fixtures/commit.ts';
import { applyCatalogs, removeForward } from '../registry/fixtures/operations.ts';
import { PausableStore } from '../registry/fixtures/pausable-store.ts';
import { addForward, catalog, items } from '../registry/fixtures/upstreams.ts';
import { createEntry, removeEntry, updateEntry } from '../registry/operations.ts';
import { Registry } from '../registry/registry.ts';
import { createLogger } from '../telemetry/log.ts';
import { RegistryView, ToolListCache } from './registry-view.ts';
import { ActionFailure } from './sandbox/action.ts';

const TOOL = { description: 'd', uri: 'http://own.test/', toolType: 'own', input_schema: {} };
const FOUND = { description: '', uri: 'http://up.test/mcp', toolType: 'mcp-forward', input_schema: {} };
const CRM = parseNamespace('crm') ?? DEFAULT_NAMESPACE;

/** A registry with the tool `mine` in `default`, and `a`, `b` of the forward `up` in `crm`. */
async function setUp() {
  const store = new PausableStore();
  const registry = new Registry(store);
  await registry.load();
  const add = (name: string, namespace: string, more = {}) =>
    commit(registry, (draft) => createEntry(draft, 'tool', { ...TOOL, ...more, name, namespace }));
  await add('mine', 'default');
  await commit(registry, (draft) => {
    const forward = addForward(draft, 'up', { namespace: CRM });
    const tools = [...items('name', ['a'], ',"description":"as \\u0061 \\"text\\""'), ...items('name', ['b'])];
    applyCatalogs(draft, forward, [catalog({ tools })]);
  });
  const lines: string[] = [];
  const log = createLogger(DEFAULT_LOG_FILTER, (line) => lines.push(line)).target('service::evaluator');
  const toolLists = new ToolListCache();
  const view = (namespace = 'default') => new RegistryView({ registry, toolLists, log, namespace });
  store.journal.length = 0;
  return { store, registry, add, view, lines };
}

const names = (text: string): string[] =>
  JSON.parse(text).map((tool: { namespace: string; name: string }) => `${tool.namespace}/${tool.name}`);

const MINE = { name: 'mine', description: 'd', uri: 'http://own.test/', toolType: 'own', namespace: 'default' };
const A = {
  name: 'a',
  description: 'as a "text"',
  uri: 'http://up.test/mcp',
  toolType: 'mcp-forward',
  namespace: 'crm',
};

describe('tools', () => {
  it('are those of all namespaces in order of registration, or those of one', async () => {
    const { add, view } = await setUp();
    await add('later', 'default', { description: '' });
    const run = view();
    const b = { ...A, name: 'b', description: '' };
    const later = { ...MINE, name: 'later', description: '' };
    expect(JSON.parse(run.tools())).toEqual([MINE, A, b, later]);
    expect(JSON.parse(run.tools('crm'))).toEqual([A, b]);
    expect(JSON.parse(run.tools('default'))).toEqual([MINE, later]);
    expect([run.tools('no-such'), run.tools('No Such')]).toEqual(['[]', '[]']);
  });

  it('do not include shadowed ones, and have the names that clients see', async () => {
    const { registry, view } = await setUp();
    await commit(registry, (draft) => {
      const late = addForward(draft, 'late', { namespace: CRM, prefix: 'p.' });
      applyCatalogs(draft, late, [catalog({ tools: items('name', ['c']) })]);
      const rival = addForward(draft, 'rival', { namespace: CRM });
      applyCatalogs(draft, rival, [catalog({ tools: items('name', ['a', 'b', 'new'], ',"description":"not I"') })]);
      const change = { ...FOUND, name: 'z', description: 'Ours', n: 1 };
      updateEntry(draft, 'tool', { name: 'b' }, { ...change, namespace: 'crm' });
    });
    const run = view();
    // The `b` of the rival is served because the other one is renamed.
    expect(names(run.tools('crm'))).toEqual(['crm/a', 'crm/z', 'crm/p.c', 'crm/b', 'crm/new']);
    expect(run.tool('z')).toMatchObject({ name: 'z', description: 'Ours' });
    expect(run.tool('a')).toEqual(A);
  });

  it('of one forward are in its order, wherever they were moved', async () => {
    const { registry, add, view } = await setUp();
    await commit(registry, (draft) =>
      updateEntry(draft, 'tool', { name: 'a' }, { ...FOUND, description: 'as a "text"', namespace: 'zoo', n: 1 }),
    );
    await add('later', 'crm');
    expect(names(view().tools())).toEqual(['default/mine', 'zoo/a', 'crm/b', 'crm/later']);
  });

  it('have empty strings for missing or invalid members', async () => {
    const { registry, view } = await setUp();
    await commit(registry, (draft) => {
      createEntry(draft, 'tool', { name: 'bare' });
      createEntry(draft, 'tool', { name: 'odd"', description: 1, uri: ['u'], toolType: null });
    });
    const bare = { name: 'bare', description: '', uri: '', toolType: '', namespace: 'default' };
    const run = view();
    expect(JSON.parse(run.tools('default')).slice(1)).toEqual([bare, { ...bare, name: 'odd"' }]);
    expect([run.tool('bare'), run.tool('odd"')]).toEqual([bare, { ...bare, name: 'odd"' }]);
  });

  it('do not change during the run', async () => {
    const { add, view } = await setUp();
    const run = view();
    await add('late', 'default');
    expect([names(run.tools()), names(run.tools('default')), run.tool('late')]).toEqual([
      ['default/mine', 'crm/a', 'crm/b'],
      ['default/mine'],
      undefined,
    ]);
    expect(view().tool('late')).toBeDefined();
  });
});

describe('a tool', () => {
  it('is that of the namespace of the request, else of default, else the first registered one', async () => {
    const { add, view } = await setUp();
    for (const namespace of ['zoo', 'ops']) await add('t', namespace);
    expect(view().tool('t')?.namespace).toBe('zoo');
    expect(view('crm').tool('t')?.namespace).toBe('zoo');
    expect(view('ops').tool('t')?.namespace).toBe('ops');
    await add('t', 'default');
    expect(view('crm').tool('t')?.namespace).toBe('default');
    expect(view('zoo').tool('t')?.namespace).toBe('zoo');
    expect([view().tool('none'), view('nowhere').tool('a')?.namespace]).toEqual([undefined, 'crm']);
  });
});

describe('a copy', () => {
  it('is visible at once to its run, and to others after the commit, with the same content', async () => {
    const { store, view } = await setUp();
    const run = view();
    expect([run.copyTool('a', 'default'), run.copyTool('b', 'new'), run.copyTool('mine', 'new')]).toEqual([
      true,
      true,
      true,
    ]);
    const seen = [run.tools(), run.tools('default'), run.tools('new'), run.tools('crm')];
    expect(names(run.tools())).toEqual(['default/mine', 'crm/a', 'crm/b', 'default/a', 'new/b', 'new/mine']);
    expect(names(run.tools('new'))).toEqual(['new/b', 'new/mine']);
    expect(run.tool('a')).toEqual({ ...A, namespace: 'default' });
    expect(names(view().tools())).toHaveLength(3);
    await run.commit();
    expect(store.journal).toHaveLength(1);
    const after = view();
    expect([after.tools(), after.tools('default'), after.tools('new'), after.tools('crm')]).toEqual(seen);
    expect(after.tool('a')).toEqual({ ...A, namespace: 'default' });
  });

  it('does not exist if its run is not committed or not stored', async () => {
    const { store, registry, view } = await setUp();
    view().copyTool('a', 'default');
    expect(registry.current.entries('tool')).toHaveLength(3);
    const run = view();
    run.copyTool('a', 'default');
    store.hold = true;
    const committed = run.commit();
    await Promise.resolve();
    expect(view().tool('a')).toEqual(A);
    store.rejectAll();
    await expect(committed).rejects.toThrow('the disk is full');
    expect(view().tool('a')).toEqual(A);
  });

  it('may be copied itself', async () => {
    const { view } = await setUp();
    const run = view('new');
    expect([run.copyTool('a', 'new'), run.tool('a')?.namespace, run.copyTool('a', 'newer')]).toEqual([
      true,
      'new',
      true,
    ]);
    await run.commit();
    expect(names(view().tools()).slice(3)).toEqual(['new/a', 'newer/a']);
  });

  it('is rejected for unknown tools and invalid namespaces', async () => {
    const { store, registry, view } = await setUp();
    const run = view();
    const { current } = registry;
    expect([run.copyTool('none', 'new'), run.copyTool('a', 'No Such'), run.copyTool('a', '')]).toEqual([
      false,
      false,
      false,
    ]);
    await run.commit();
    expect([store.journal, registry.current === current]).toEqual([[], true]);
  });

  it('does not replace an existing tool, which is logged', async () => {
    const { store, registry, add, view, lines } = await setUp();
    await add('a', 'default');
    const { current } = registry;
    store.journal.length = 0;
    const run = view('crm');
    expect([run.copyTool('a', 'default'), run.copyTool('b', 'crm'), run.copyTool('a', 'default')]).toEqual([
      true,
      true,
      true,
    ]);
    expect(names(run.tools('default'))).toEqual(['default/mine', 'default/a']);
    expect(view().tool('a')?.toolType).toBe('own');
    store.hold = true;
    const other = add('slow', 'default');
    // It does not wait for others.
    await run.commit();
    expect([store.waiting, registry.current === current]).toEqual([1, true]);
    store.commitAll();
    await other;
    const logged = { msg: 'tools not copied: target namespace has tools with these names', level: 'info' };
    expect(lines.map((line) => JSON.parse(line))).toEqual([
      expect.objectContaining({ ...logged, target_namespace: 'default', tools: ['a'] }),
      expect.objectContaining({ ...logged, target_namespace: 'crm', tools: ['b'] }),
    ]);
  });

  it('of a tool that changes before the commit is not made and logged; the others are made', async () => {
    const { registry, add, view, lines } = await setUp();
    const run = view();
    for (const name of ['a', 'b', 'mine']) run.copyTool(name, 'new');
    await add('mine', 'new');
    await commit(registry, (draft) => removeEntry(draft, 'tool', { name: 'a' }));
    await run.commit();
    expect(names(view().tools('new'))).toEqual(['new/mine', 'new/b']);
    expect(lines.map((line) => JSON.parse(line)).map(({ level, tools }) => [level, tools])).toEqual([
      ['info', ['mine']],
      ['warn', ['a']],
    ]);
  });

  it('is limited to ten thousand in a run', async () => {
    const { registry, view, lines } = await setUp();
    await commit(registry, (draft) => {
      for (let at = 0; at < 10_000; at++) createEntry(draft, 'tool', { ...TOOL, name: `t${at}` });
    });
    const run = view();
    const copies = Array.from({ length: 9_970 }, (_, at) => run.copyTool(`t${at}`, 'new'));
    expect(copies).not.toContain(false);
    const existing = Array.from({ length: 30 }, (_, at) => run.copyTool(`t${at}`, 'default'));
    expect(existing).not.toContain(false);
    // These do not count: they exist or fail.
    expect([run.copyTool('t0', 'new'), run.copyTool('t0', 'default'), run.copyTool('none', 'new')]).toEqual([
      true,
      true,
      false,
    ]);
    const error = thrownBy(() => run.copyTool('t9980', 'new'));
    expect(error).toBeInstanceOf(ActionFailure);
    expect(error).toMatchObject({
      fault: 'limit',
      message: 'more than 10000 tool copies in one run',
    });
    await run.commit();
    expect(names(view().tools('new'))).toHaveLength(9_970);
    expect(JSON.parse(lines[0] ?? '{}')).toMatchObject({ tools: expect.objectContaining({ length: 20 }), more: 10 });
  });

  it('is limited to 16 MiB of definitions in a run', async () => {
    const { registry, add, view } = await setUp();
    const large = (name: string) => items('name', [name], `,"description":"${'é'.repeat(512 * 1024)}"`);
    await commit(registry, (draft) => {
      const forward = addForward(draft, 'large', { namespace: CRM });
      applyCatalogs(draft, forward, [catalog({ tools: ['l1', 'l2'].flatMap(large) })]);
    });
    await add('own', 'default', { uri: 'u'.repeat(1024 * 1024) });
    await add('l2', 'ops');
    const run = view();
    for (let at = 0; at < 15; at++) expect(run.copyTool(at < 7 ? 'l1' : 'own', `new-${at}`)).toBe(true);
    // Existing tools are not copied, and a small one fits.
    expect([run.copyTool('l2', 'ops'), run.copyTool('l1', 'new-0'), run.copyTool('mine', 'ops')]).toEqual([
      true,
      true,
      true,
    ]);
    for (const name of ['l1', 'l2', 'own']) {
      expect(thrownBy(() => view().copyTool(name, 'new-15'))).toBeUndefined();
      expect(thrownBy(() => run.copyTool(name, 'new-15'))).toMatchObject({
        fault: 'limit',
        message: 'more than 16 MiB of copied tool definitions in one run',
      });
    }
  });

  it('that is not made in more than twenty namespaces is logged for those, with their number', async () => {
    for (const count of [20, 21]) {
      const { add, view, lines } = await setUp();
      for (let at = 0; at < count; at++) await add('a', `own-${at}`);
      const run = view();
      for (let at = 0; at < count; at++) run.copyTool('a', `own-${at}`);
      await run.commit();
      const namespaces = lines
        .map((line) => JSON.parse(line))
        .map((line) => line.target_namespaces ?? line.target_namespace);
      const named = Array.from({ length: 20 }, (_, at) => `own-${at}`);
      expect(namespaces).toEqual(count === 20 ? named : [21, ...named]);
    }
  });

  it('is limited to a hundred new namespaces in a run', async () => {
    const { view } = await setUp();
    const run = view();
    for (let at = 0; at < 100; at++) expect(run.copyTool('a', `new-${at}`)).toBe(true);
    // One that is requested already, or exists, does not count.
    expect([run.copyTool('b', 'new-99'), run.copyTool('b', 'crm')]).toEqual([true, true]);
    expect(thrownBy(() => run.copyTool('a', 'new-100'))).toMatchObject({ fault: 'limit' });
  });

  it('notifies clients of the namespace, and so does its removal', async () => {
    const { registry, add, view } = await setUp();
    await add('own', 'new');
    const notices = new ListChangeNotifier(registry);
    const notified = { new: 0, crm: 0 };
    const notified1 = Promise.withResolvers<void>();
    const told2 = Promise.withResolvers<void>();
    const quiet = { onEntriesChanged: () => undefined, onDeleted: () => undefined };
    notices.subscribe(parseNamespace('new') ?? DEFAULT_NAMESPACE, {
      ...quiet,
      onChanged: (kinds) => {
        expect([...kinds]).toEqual(['tool']);
        if (++notified.new === 1) notified1.resolve();
        else told2.resolve();
      },
    });
    notices.subscribe(CRM, { ...quiet, onChanged: () => void notified.crm++ });
    const run = view();
    run.copyTool('a', 'new');
    await run.commit();
    await notified1.promise;
    expect(notified).toEqual({ new: 1, crm: 0 });
    await commit(registry, (draft) => removeForward(draft, 'up'));
    await told2.promise;
  });
});

describe('serialized tools', () => {
  it('are created once, whatever else changes', async () => {
    const { registry, add, view } = await setUp();
    let made = 0;
    await commit(registry, (draft) => {
      const mine = draft.get('tool', DEFAULT_NAMESPACE, 'mine');
      if (!mine) throw new Error('no tool');
      const { rendered: served, ...rest } = mine;
      draft.put({
        ...rest,
        get rendered() {
          made++;
          return served;
        },
      });
    });
    made = 0;
    const counted = () => [view().tools(), view().tools('default'), view('crm').tools('crm')].map(names);
    expect(counted()[1]).toEqual(['default/mine']);
    expect(made).toBe(1);
    await add('other', 'crm');
    await add('more', 'default');
    const both = ['default/mine', 'default/more'];
    expect(counted()).toEqual([
      ['default/mine', 'crm/a', 'crm/b', 'crm/other', 'default/more'],
      both,
      ['crm/a', 'crm/b', 'crm/other'],
    ]);
    expect(made).toBe(1);
  });
});

function thrownBy(run: () => unknown): unknown {
  try {
    run();
  } catch (error) {
    return error;
  }
  return undefined;
}
