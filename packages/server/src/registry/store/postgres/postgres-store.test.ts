import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../testing/postgres.ts';
import { createEntry, removeEntry } from '../../operations.ts';
import { createNamespace } from '../../operations-topology.ts';
import { Registry, snapshotEntries } from '../../registry.ts';
import { Database } from './database.ts';
import { PostgresStore } from './postgres-store.ts';
import type { SharedLog as Log } from './shared-log.ts';
import { SharedLog } from './shared-log.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres[Symbol.asyncDispose]());

const TOOL = { description: '', uri: 'u', toolType: 'custom', input_schema: {} };

interface Replica extends AsyncDisposable {
  readonly registry: Registry;
  readonly log: Log;
}

async function startReplica(url: string): Promise<Replica> {
  const messages = { warn: () => undefined, error: () => undefined };
  const log = new SharedLog({ database: new Database({ url, log: messages }), log: messages, version: '1' });
  await log.open();
  const registry = new Registry(new PostgresStore(log));
  expect(await registry.load()).toEqual([]);
  return { registry, log, [Symbol.asyncDispose]: () => log.close() };
}

const add = (registry: Registry, name: string, extra = {}) =>
  registry.commit((draft) => createEntry(draft, 'tool', { ...TOOL, name, ...extra }));
const names = (registry: Registry) => registry.current.entries('tool').map(({ name }) => name);
const state = (registry: Registry) =>
  Object.fromEntries(
    Object.entries(snapshotEntries(registry.current)).map(([section, texts]) => [section, [...texts].sort()]),
  );

test('a replica sees what another one has committed, and both may commit at the same time', async () => {
  const url = await postgres.createDatabase();
  await using a = await startReplica(url);
  await using b = await startReplica(url);
  await add(a.registry, 'a1');
  await b.registry.refresh();
  expect(names(b.registry)).toEqual(['a1']);
  const both = [a, b].flatMap(({ registry }, at) => Array.from({ length: 50 }, (_, n) => add(registry, `r${at}-${n}`)));
  await Promise.all(both);
  await Promise.all([a.registry.refresh(), b.registry.refresh()]);
  expect(names(a.registry)).toHaveLength(101);
  expect(state(a.registry)).toEqual(state(b.registry));
  await using c = await startReplica(url);
  expect(state(c.registry)).toEqual(state(a.registry));
});

test('an operation on an outdated state is made again on the current one', async () => {
  const url = await postgres.createDatabase();
  await using a = await startReplica(url);
  await using b = await startReplica(url);
  await a.registry.commit((draft) => createNamespace(draft, 'team', {}));
  await add(a.registry, 't', { namespace: 'team' });
  // b has seen neither.
  await expect(add(b.registry, 't', { namespace: 'team' })).rejects.toThrow('already');
  expect(state(b.registry)).toEqual(state(a.registry));
  await b.registry.commit((draft) => removeEntry(draft, 'tool', { name: 't', namespace: 'team' }));
  await a.registry.refresh();
  expect(names(a.registry)).toEqual([]);
});

test('notifications tell replicas of commits', async () => {
  const url = await postgres.createDatabase();
  await using a = await startReplica(url);
  await using b = await startReplica(url);
  const changed = Promise.withResolvers<boolean>();
  b.registry.onChange((_lists, isForeign) => changed.resolve(isForeign));
  b.log.start();
  await add(a.registry, 'a1');
  expect(await changed.promise).toBe(true);
  expect(names(b.registry)).toEqual(['a1']);
});
