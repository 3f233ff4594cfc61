import { describe, expect, test, vi } from 'vitest';
import { HeldStore, stored } from './fixtures/held-store.ts';
import { addForward } from './fixtures/upstreams.ts';
import { createEntry, removeEntry } from './operations.ts';
import { Registry } from './registry.ts';
import { StoreError } from './store/store.ts';

const TOOL = { description: '', uri: 'u', toolType: 'custom', input_schema: {} };

async function loaded(store: HeldStore): Promise<Registry> {
  const registry = new Registry(store);
  expect(await registry.load()).toEqual([]);
  store.journal.length = 0;
  return registry;
}

function add(registry: Registry, name: string): Promise<unknown> {
  return registry.commit((draft) => createEntry(draft, 'tool', { ...TOOL, name }));
}

const names = (registry: Registry): string[] => registry.current.entries('tool').map(({ name }) => name);

describe('loading', () => {
  test('makes the default namespace, durably, and only where it is missing', async () => {
    const store = new HeldStore();
    const registry = new Registry(store);
    await registry.load();
    expect([...registry.current.namespaces.keys()]).toEqual(['default']);
    expect(store.journal.flat().map(({ section }) => section)).toEqual(['namespaces']);

    const again = new HeldStore({ entries: stored({ namespaces: [{ name: 'default' }] }) });
    await new Registry(again).load();
    expect(again.journal).toEqual([]);
  });

  test('fails with the store', async () => {
    const store = new HeldStore();
    store.load = () => Promise.reject(new StoreError('registry.json is damaged'));
    await expect(new Registry(store).load()).rejects.toThrow('registry.json is damaged');
  });
});

describe('writers', () => {
  test('that come while a commit is under way share the next one', async () => {
    const store = new HeldStore();
    const registry = await loaded(store);
    store.hold = true;
    const writes = Array.from({ length: 200 }, (_, at) => add(registry, `t${at}`));
    store.letThrough();
    await writes[0];
    store.letThrough();
    await Promise.all(writes);
    expect(store.journal.map((changes) => changes.length)).toEqual([1, 199]);
    expect(names(registry)).toEqual(writes.map((_, at) => `t${at}`));
  });

  test('of one commit see what those before them did, and nobody else does until it is durable', async () => {
    const store = new HeldStore();
    const registry = await loaded(store);
    store.hold = true;
    const answered: string[] = [];
    const before = registry.current;
    const heard: unknown[] = [];
    registry.onChange((touched) => heard.push(touched));
    const first = add(registry, 'a').then(() => answered.push('a'));
    const second = registry
      .commit((draft) => removeEntry(draft, 'tool', { name: 'a' }).name)
      .then((name) => answered.push(`${name} removed`));
    // However often the event loop turns.
    for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate);
    expect(registry.current).toBe(before);
    expect([answered, heard]).toEqual([[], []]);

    store.letThrough();
    expect(names(registry)).toEqual(['a']);
    await first;
    expect(heard).toEqual([[{ namespace: 'default', kind: 'tool' }]]);
    expect(answered).toEqual(['a']);
    store.letThrough();
    await second;
    expect(names(registry)).toEqual([]);
    expect(answered).toEqual(['a', 'a removed']);
  });

  test('whose commit is refused are told, nothing of theirs is there, and the next go on', async () => {
    const store = new HeldStore();
    const registry = await loaded(store);
    await add(registry, 'before');
    store.hold = true;
    const first = add(registry, 'first');
    const rest = Promise.allSettled([
      first,
      add(registry, 'second'),
      add(registry, 'before'),
      // Only there because of the second, so that its refusal says nothing once that one is gone.
      add(registry, 'second'),
    ]);
    store.refuse();
    await expect(first).rejects.toThrow('the disk is full');
    store.refuse();
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

  test('are told of their own mistake also when the disk is full', async () => {
    const store = new HeldStore();
    const registry = await loaded(store);
    await add(registry, 'a');
    store.hold = true;
    const writes = Promise.allSettled([add(registry, 'b'), add(registry, 'a'), add(registry, 'c')]);
    store.refuse();
    await vi.waitFor(() => expect(store.waiting).toBe(1));
    store.refuse();
    const [, mistaken, refused] = await writes;
    expect(mistaken).toMatchObject({ reason: { code: 'CONFLICT' } });
    expect(refused).toMatchObject({ reason: { message: 'the disk is full' } });
  });

  test('that fail half-way leave nothing behind in the commit that they share', async () => {
    const store = new HeldStore();
    const registry = await loaded(store);
    const failing = registry.commit((draft) => {
      addForward(draft, 'half');
      createEntry(draft, 'tool', { ...TOOL, name: 'half', namespace: 'half' });
      throw new Error('changed my mind');
    });
    const [kept, failed, after] = await Promise.allSettled([add(registry, 'a'), failing, add(registry, 'b')]);
    expect([kept.status, failed.status, after.status]).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect(names(registry)).toEqual(['a', 'b']);
    expect(registry.current.forwards.size).toBe(0);
    expect([...registry.current.namespaces.keys()]).toEqual(['default']);
    expect(JSON.stringify(store.journal)).not.toContain('half');
  });

  test('that change nothing wait for no disk', async () => {
    const store = new HeldStore();
    const registry = await loaded(store);
    store.hold = true;
    await expect(registry.commit((draft) => draft.namespaces.size)).resolves.toBe(1);
    expect(store.waiting).toBe(0);
  });

  test('are waited for when the registry closes', async () => {
    const store = new HeldStore();
    const registry = await loaded(store);
    store.hold = true;
    const write = add(registry, 'a');
    let closed = false;
    const closing = registry.close().then(() => {
      closed = true;
    });
    await new Promise(setImmediate);
    expect(closed).toBe(false);
    store.letThrough();
    await Promise.all([write, closing]);
  });
});

describe('listeners', () => {
  test('stop hearing when they ask to', async () => {
    const registry = await loaded(new HeldStore());
    let heard = 0;
    const stop = registry.onChange(() => heard++);
    await add(registry, 'a');
    stop();
    await add(registry, 'b');
    expect(heard).toBe(1);
  });

  test('that throw hold up neither writers nor each other', async () => {
    const registry = await loaded(new HeldStore());
    const uncaught = new Promise((resolve) => {
      // The test runner's own are put back at the end.
      const others = process.listeners('uncaughtException');
      process.removeAllListeners('uncaughtException');
      process.once('uncaughtException', (error) => {
        for (const other of others) process.on('uncaughtException', other);
        resolve(error);
      });
    });
    let heard = 0;
    registry.onChange(() => {
      throw new Error('a listener failed');
    });
    registry.onChange(() => heard++);
    await add(registry, 'a');
    expect(await uncaught).toMatchObject({ message: 'a listener failed' });
    expect(heard).toBe(1);
    registry.close();
  });
});
