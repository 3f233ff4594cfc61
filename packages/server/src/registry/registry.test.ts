import { describe, expect, test, vi } from 'vitest';
import { commit } from './fixtures/commit.ts';
import { PausableStore, stored } from './fixtures/pausable-store.ts';
import { addForward } from './fixtures/upstreams.ts';
import { createEntry, removeEntry } from './operations.ts';
import { Registry } from './registry.ts';
import { StoreError } from './store/store.ts';

const TOOL = { description: '', uri: 'u', toolType: 'custom', input_schema: {} };

async function loaded(store: PausableStore): Promise<Registry> {
  const registry = new Registry(store);
  expect(await registry.load()).toEqual([]);
  store.journal.length = 0;
  return registry;
}

function add(registry: Registry, name: string): Promise<unknown> {
  return commit(registry, (draft) => createEntry(draft, 'tool', { ...TOOL, name }));
}

const names = (registry: Registry): string[] => registry.current.entries('tool').map(({ name }) => name);

describe('loading', () => {
  test('without records there is the default namespace, and nothing is written', async () => {
    const store = new PausableStore();
    const registry = new Registry(store);
    await registry.load();
    expect([...registry.current.namespaces.keys()]).toEqual(['default']);
    expect(store.journal).toEqual([]);
  });

  test('the default namespace precedes others, with its stored labels', async () => {
    const namespaces = [{ name: 'a' }, { name: 'default', labels: { b: 'c' } }];
    const registry = new Registry(new PausableStore({ entries: stored({ namespaces }) }));
    await registry.load();
    const known = [...registry.current.namespaces.values()].map(({ name, labels }) => ({ name, labels }));
    expect(known).toEqual([
      { name: 'default', labels: { b: 'c' } },
      { name: 'a', labels: {} },
    ]);
  });

  test('fails with the store', async () => {
    const store = new PausableStore();
    store.add = () => Promise.reject(new StoreError('registry.json is damaged'));
    await expect(new Registry(store).load()).rejects.toThrow('registry.json is damaged');
  });
});

describe('writers', () => {
  test('during a commit share the next one', async () => {
    const store = new PausableStore();
    const registry = await loaded(store);
    store.hold = true;
    const writes = Array.from({ length: 200 }, (_, at) => add(registry, `t${at}`));
    store.commitAll();
    await writes[0];
    store.commitAll();
    await Promise.all(writes);
    expect(store.journal.map((changes) => changes.length)).toEqual([1, 199]);
    expect(names(registry)).toEqual(writes.map((_, at) => `t${at}`));
  });

  test('of one commit see the effects of earlier ones, which are invisible to others until they are durable', async () => {
    const store = new PausableStore();
    const registry = await loaded(store);
    store.hold = true;
    const responded: string[] = [];
    const before = registry.current;
    const received: unknown[] = [];
    registry.committed.subscribe(({ lists }) => received.push(lists));
    const first = add(registry, 'a').then(() => responded.push('a'));
    const second = commit(registry, (draft) => removeEntry(draft, 'tool', { name: 'a' }).name).then((name) =>
      responded.push(`${name} removed`),
    );
    // Regardless of event loop turns.
    for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate);
    expect(registry.current).toBe(before);
    expect([responded, received]).toEqual([[], []]);

    store.commitAll();
    expect(names(registry)).toEqual(['a']);
    await first;
    expect(received).toEqual([[{ namespace: 'default', kind: 'tool' }]]);
    expect(responded).toEqual(['a']);
    store.commitAll();
    await second;
    expect(names(registry)).toEqual([]);
    expect(responded).toEqual(['a', 'a removed']);
  });

  test('of a failed commit are rejected and have no effect, and later ones succeed', async () => {
    const store = new PausableStore();
    const registry = await loaded(store);
    await add(registry, 'before');
    store.hold = true;
    const first = add(registry, 'first');
    const rest = Promise.allSettled([
      first,
      add(registry, 'second'),
      add(registry, 'before'),
      // Possible only because of the second one, so its rejection is no evidence once that one is removed.
      add(registry, 'second'),
    ]);
    store.rejectAll();
    await expect(first).rejects.toThrow('the disk is full');
    store.rejectAll();
    const outcomes = (await rest).map((outcome) => (outcome.status === 'rejected' ? String(outcome.reason) : 'kept'));
    expect(outcomes).toEqual([
      'StoreError: the disk is full',
      'StoreError: the disk is full',
      'StoreError: the disk is full',
      'StoreError: the disk is full',
    ]);
    expect(names(registry)).toEqual(['before']);

    store.hold = false;
    await add(registry, 'second');
    expect(names(registry)).toEqual(['before', 'second']);
    expect(store.journal.map((changes) => changes.length)).toEqual([1, 1]);
  });

  test('are rejected with their own error also when the disk is full', async () => {
    const store = new PausableStore();
    const registry = await loaded(store);
    await add(registry, 'a');
    store.hold = true;
    const writes = Promise.allSettled([add(registry, 'b'), add(registry, 'a'), add(registry, 'c')]);
    store.rejectAll();
    await vi.waitFor(() => expect(store.waiting).toBe(1));
    store.rejectAll();
    const [, mistaken, rejected] = await writes;
    expect(mistaken).toMatchObject({ reason: { code: 'CONFLICT' } });
    expect(rejected).toMatchObject({ reason: { message: 'the disk is full' } });
  });

  test('that fail half-way leave nothing in the commit that they share', async () => {
    const store = new PausableStore();
    const registry = await loaded(store);
    const failing = commit(registry, (draft) => {
      addForward(draft, 'half');
      createEntry(draft, 'tool', { ...TOOL, name: 'half', namespace: 'half' });
      throw new Error('changed my mind');
    });
    const [stored, failed, after] = await Promise.allSettled([add(registry, 'a'), failing, add(registry, 'b')]);
    expect([stored.status, failed.status, after.status]).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect(names(registry)).toEqual(['a', 'b']);
    expect(registry.current.forwards.size).toBe(0);
    expect([...registry.current.namespaces.keys()]).toEqual(['default']);
    expect(JSON.stringify(store.journal)).not.toContain('half');
  });

  test('without changes do not wait for the disk', async () => {
    const store = new PausableStore();
    const registry = await loaded(store);
    store.hold = true;
    await expect(commit(registry, (draft) => draft.namespaces.size)).resolves.toBe(1);
    expect(store.waiting).toBe(0);
  });

  test('are completed before the registry closes', async () => {
    const store = new PausableStore();
    const registry = await loaded(store);
    store.hold = true;
    const write = add(registry, 'a');
    let closed = false;
    const closing = registry.close().then(() => {
      closed = true;
    });
    await new Promise(setImmediate);
    expect(closed).toBe(false);
    store.commitAll();
    await Promise.all([write, closing]);
  });
});

test('forwards that are hidden, or not any more, during a commit are so after it', async () => {
  const store = new PausableStore();
  const registry = await loaded(store);
  for (const forwards of [new Set(['crm']), new Set<string>()]) {
    store.hold = true;
    const write = add(registry, `t${forwards.size}`);
    await vi.waitFor(() => expect(store.waiting).toBe(1));
    registry.hide(forwards);
    store.commitAll();
    await write;
    expect(registry.current.hidden).toEqual(forwards);
    expect(registry.current.namespace('default')?.hidden).toBe(registry.current.hidden);
  }
  expect(names(registry)).toEqual(['t1', 't0']);
});
