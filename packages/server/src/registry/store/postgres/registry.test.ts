import { connect } from 'node:net';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { connectingTo, openFaultyProxy } from '../../../../testing/faulty-proxy.ts';
import { startPostgres, type TestPostgres } from '../../../../testing/postgres.ts';
import type { Draft } from '../../draft.ts';
import { commit, TESTER } from '../../fixtures/commit.ts';
import { removeNamespace } from '../../fixtures/operations.ts';
import { entryTexts } from '../../fixtures/state.ts';
import { createEntry, removeEntry } from '../../operations.ts';
import { createNamespace } from '../../operations-topology.ts';
import { Registry } from '../../registry.ts';
import type { StoreLog } from '../store.ts';
import { Database } from './database.ts';
import { Membership } from './membership.ts';
import type { ReplicatedLog as Log } from './replicated-log.ts';
import { ReplicatedLog } from './replicated-log.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres[Symbol.asyncDispose]());

const TOOL = { description: '', uri: 'u', toolType: 'custom', input_schema: {} };

interface Replica extends AsyncDisposable {
  readonly registry: Registry;
  readonly log: Log;
  readonly database: Database;
}

const silent = { warn: () => undefined, error: () => undefined };

/** `unusable`: number of records that it cannot use. */
async function startReplica(url: string, unusable = 0, listenUrl = url, messages: StoreLog = silent): Promise<Replica> {
  const database = new Database({ url, listenUrl, log: messages });
  const log = new ReplicatedLog({ database, log: messages, version: '1' });
  await log.open();
  const registry = new Registry(log);
  expect(await registry.load()).toHaveLength(unusable);
  return { registry, log, database, [Symbol.asyncDispose]: () => log.close() };
}

const add = (registry: Registry, name: string, extra = {}) =>
  commit(registry, (draft) => createEntry(draft, 'tool', { ...TOOL, name, ...extra }));
const names = (registry: Registry) => registry.current.entries('tool').map(({ name }) => name);
const state = (registry: Registry) =>
  Object.fromEntries(
    Object.entries(entryTexts(registry.current)).map(([section, texts]) => [section, [...texts].sort()]),
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

test('commits of which the confirmation of one is lost do not wait for each other', async () => {
  const url = new URL(await postgres.createDatabase());
  let losing = false;
  const proxy = await openFaultyProxy((near) => {
    const far = connect(postgres.port, '127.0.0.1');
    let isLost = false;
    far.on('error', () => undefined);
    near.on('data', (bytes) => {
      if (losing && bytes.includes('COMMIT')) [isLost, losing] = [true, false];
      far.write(bytes);
    });
    far.on('data', (bytes) => (isLost ? near.resetAndDestroy() : near.write(bytes)));
    near.once('close', () => far.destroy());
    far.once('close', () => near.destroy());
  });
  url.port = String(proxy.port);
  await using a = await startReplica(url.href);
  for (let round = 0; round < 5; round++) {
    losing = true;
    const put = (id: string) => ({ section: 's', id, json: '1' }) as const;
    const commits = ['one', 'two'].map((name) => a.log.commit({ changes: [put(`${name}-${round}`)], publish() {} }));
    await expect(Promise.all(commits)).resolves.toBeDefined();
    expect(losing).toBe(false);
  }
  proxy.close();
});

test('a replica whose commits wait for others reads meanwhile, and stays live', async () => {
  const url = await postgres.createDatabase();
  await using a = await startReplica(url);
  await using b = await startReplica(url);
  let commits: Promise<unknown>[] = [];
  await b.database.transaction('', async (transaction) => {
    await transaction.query('SELECT FROM sluice.state FOR UPDATE');
    const changes = (at: number) => [{ section: 's', id: `${at}`, json: '1' }] as const;
    commits = Array.from({ length: 10 }, (_, at) => a.log.commit({ changes: changes(at), publish: () => undefined }));
    await a.log.refresh();
    await a.log.members.renew();
  });
  await expect(Promise.all(commits)).resolves.toHaveLength(10);
});

test('an operation on an outdated state is made again on the current one', async () => {
  const url = await postgres.createDatabase();
  await using a = await startReplica(url);
  await using b = await startReplica(url);
  await commit(a.registry, (draft) => createNamespace(draft, 'team', {}));
  await add(a.registry, 't', { namespace: 'team' });
  // b has seen neither.
  await expect(add(b.registry, 't', { namespace: 'team' })).rejects.toThrow('already');
  expect(state(b.registry)).toEqual(state(a.registry));
  await commit(b.registry, (draft) => removeEntry(draft, 'tool', { name: 't', namespace: 'team' }));
  await a.registry.refresh();
  expect(names(a.registry)).toEqual([]);
});

test('notifications tell replicas of commits', async () => {
  const url = await postgres.createDatabase();
  await using a = await startReplica(url);
  await using b = await startReplica(url);
  const changed = Promise.withResolvers<boolean>();
  b.registry.committed.subscribe(({ origins }) => changed.resolve(origins.length === 0));
  b.log.start();
  await add(a.registry, 'a1');
  expect(await changed.promise).toBe(true);
  expect(names(b.registry)).toEqual(['a1']);
});

test('a change that all replicas confirm takes two notifications', async () => {
  const url = await postgres.createDatabase();
  await using a = await startReplica(url);
  await using b = await startReplica(url);
  await using c = await startReplica(url);
  const database = new Database({ url, log: silent });
  const messages: string[] = [];
  database.listen((message) => messages.push(message));
  for (const { log } of [a, b, c]) log.start();
  const listening = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%' AND state = 'idle'`;
  await expect.poll(() => database.query(listening)).toHaveLength(4);
  await add(a.registry, 'a1');
  expect(await a.log.confirm()).toEqual([]);
  for (const { registry } of [b, c]) expect(names(registry)).toEqual(['a1']);
  await a.database.query(`SELECT pg_notify('sluice', 'end')`);
  await expect.poll(() => messages).toContain('end');
  // Without the second one if the others have renewed their leases between.
  expect(messages.join()).toMatch(/^,committed,(?:confirm \d+,)?end$/);
  await database.close();
});

test('a confirmation that fails is logged, and rejects no commit', async () => {
  const url = await postgres.createDatabase();
  const warnings: string[] = [];
  const log = { ...silent, warn: (message: string) => void warnings.push(message) };
  await using a = await startReplica(url, 0, url, log);
  await add(a.registry, 'a1');
  vi.spyOn(a.log.members, 'confirm').mockRejectedValueOnce(new Error('no such table'));
  const remove = (draft: Draft) => removeEntry(draft, 'tool', { name: 'a1' });
  expect(await a.registry.commit(remove, TESTER)).toMatchObject({ unconfirmed: [] });
  expect(warnings).toEqual(['a change was not confirmed by the other replicas']);
  expect(names(a.registry)).toEqual([]);
});

test('a commit that takes access away names the replicas that have not applied it', async () => {
  const url = await postgres.createDatabase();
  await using a = await startReplica(url);
  await using b = await startReplica(url);
  await add(a.registry, 'a1');
  const remove = (draft: Draft) => removeEntry(draft, 'tool', { name: 'a1' });
  await a.database.query('UPDATE sluice.replicas SET expires = now() WHERE id = $1', [b.log.members.id]);
  const { unconfirmed } = await a.registry.commit(remove, TESTER);
  expect(unconfirmed).toEqual([b.log.members.id]);
  b.log.start();
  await b.log.members.renew();
  await add(a.registry, 'a2');
  expect(await a.registry.commit((draft) => removeEntry(draft, 'tool', { name: 'a2' }), TESTER)).toMatchObject({
    unconfirmed: [],
  });
  expect(names(b.registry)).toEqual([]);
});

test('a replica without notifications finds changes by itself, and confirms them', async () => {
  const url = await postgres.createDatabase();
  await using a = await startReplica(url);
  await using b = await startReplica(url, 0, 'postgres://postgres@127.0.0.1:1/none');
  for (const { log } of [a, b]) log.start();
  await add(a.registry, 'a1');
  expect(await a.log.confirm()).toEqual([]);
  expect(names(b.registry)).toEqual(['a1']);
});

test('notifications come again after the connection was broken', async () => {
  const proxy = await openFaultyProxy(connectingTo(postgres.port));
  const url = await postgres.createDatabase();
  await using a = await startReplica(url);
  const messages: string[] = [];
  const listenUrl = url.replace(`:${postgres.port}/`, `:${proxy.port}/`);
  const database = new Database({ url, listenUrl, log: silent });
  database.listen((message) => messages.push(message));
  for (let round = 1; round <= 3; round++) {
    messages.length = 0;
    await expect
      .poll(async () => {
        await a.database.query(`SELECT pg_notify('sluice', 'round ${round}')`);
        return messages;
      })
      .toContain(`round ${round}`);
    proxy.cut();
  }
  expect(proxy.accepted).toBeLessThanOrEqual(4);
  await database.close();
  proxy.close();
});

/** Makes the other replicas load the whole state. */
const forget = ({ database }: Replica) => database.query('UPDATE sluice.state SET pruned = revision');

test('a replica that loads the whole state again changes only what differs', async () => {
  const url = await postgres.createDatabase();
  await using a = await startReplica(url);
  await using b = await startReplica(url);
  await commit(a.registry, (draft) => {
    for (const name of ['kept', 'left']) createNamespace(draft, name, {});
  });
  for (const name of ['t1', 't2', 't3']) await add(a.registry, name, { namespace: 'kept' });
  await b.registry.refresh();
  const before = b.registry.current;
  const changes: unknown[] = [];
  b.registry.committed.subscribe(({ lists }) => changes.push(...lists));

  await commit(a.registry, (draft) => removeEntry(draft, 'tool', { name: 't1', namespace: 'kept' }));
  await add(a.registry, 't1', { namespace: 'kept', description: 'again' });
  await commit(a.registry, (draft) => removeNamespace(draft, 'left', false));
  await add(a.registry, 'd');
  await forget(a);
  await b.registry.refresh();
  expect(state(b.registry)).toEqual(state(a.registry));
  const [kept, keptBefore] = [b.registry.current, before].map((snapshot) => snapshot.namespace('kept'));
  expect(kept?.identity).toBe(keptBefore?.identity);
  expect(kept?.indexes.prompt).toBe(keptBefore?.indexes.prompt);
  expect(kept?.indexes.tool.served('t2')).toBe(keptBefore?.indexes.tool.served('t2'));
  expect(changes).toEqual(['kept', 'default'].map((namespace) => ({ namespace, kind: 'tool' })));
});

test('records of a later release are kept under their ids, and no longer once that replaces or removes them', async () => {
  const url = await postgres.createDatabase();
  await using a = await startReplica(url);
  await add(a.registry, 't');
  const write = (id: string, json: string | null) =>
    a.log.commit({
      changes: [json === null ? { section: 'tools', id, json: null } : { section: 'tools', id, json }],
      publish: () => undefined,
    });
  await using b = await startReplica(url);
  const unusable = () => [...(b.registry.current.unusable.get('tools') ?? [])];
  const [stored] = await a.database.query<{ id: string; json: string }>(
    `SELECT id, json FROM sluice.records WHERE section = 'tools'`,
  );
  await write('new', '{"form":1}');
  await write('new', '{"form":2}');
  await write(stored?.id ?? '', '{"form":3}');
  await b.registry.refresh();
  expect(unusable()).toEqual([
    ['new', '{"form":2}'],
    [stored?.id, '{"form":3}'],
  ]);
  expect(names(b.registry)).toEqual([]);
  await using c = await startReplica(url, 2);
  expect(c.registry.current.unusable).toEqual(b.registry.current.unusable);
  await write(stored?.id ?? '', stored?.json ?? '');
  await write('new', null);
  for (const { registry } of [b, c]) {
    await registry.refresh();
    expect(names(registry)).toEqual(['t']);
    expect([...(registry.current.unusable.get('tools') ?? [])]).toEqual([]);
  }
});

test('a replica whose lease had expired is live again once it has caught up', async () => {
  const url = await postgres.createDatabase();
  await using a = await startReplica(url);
  const catchingUp = Promise.withResolvers<void>();
  let calls = 0;
  const catchUp = () => (++calls === 1 ? catchingUp.promise : Promise.resolve());
  const members = new Membership({ database: a.database, version: '1', applied: () => 0, catchUp });
  const renewed = members.renew();
  await expect.poll(() => calls).toBe(1);
  expect(members.isLive).toBe(false);
  expect((await members.list()).find(({ id }) => id === members.id)?.isLive).toBe(true);
  catchingUp.resolve();
  await renewed;
  expect(members.isLive).toBe(true);
  await members.renew();
  expect(calls).toBe(1);
});

test('a replica that leaves while it renews its lease is not listed afterwards', async () => {
  const url = await postgres.createDatabase();
  await using a = await startReplica(url);
  const database = new Database({ url, listenUrl: url, log: silent });
  const done: string[] = [];
  const query = async (...[sql, ...rest]: Parameters<Database['query']>) => {
    const kind = sql.includes('DELETE') ? 'removal' : 'renewal';
    done.push(`${kind} sent`);
    const rows = await database.query(sql, ...rest);
    done.push(`${kind} done`);
    return rows;
  };
  const recorded = new Proxy(database, { get: (on, name) => (name === 'query' ? query : Reflect.get(on, name)) });
  const member = new Membership({ database: recorded, version: '1', applied: () => 0, catchUp: async () => undefined });
  await Promise.all([member.renew(), member.leave()]);
  // Sent together, they may arrive in the other order: each has a connection of its own.
  expect(done).toEqual(['renewal sent', 'renewal done', 'removal sent', 'removal done']);
  expect((await a.log.members.list()).map(({ id }) => id)).toEqual([a.log.members.id]);
  await expect(member.renew()).rejects.toThrow('this replica is stopping');
  expect(member.isLive).toBe(false);
  await database.close();
});

test('statements are sent again on a new connection if all that are open have been broken', async () => {
  const proxy = await openFaultyProxy(connectingTo(postgres.port));
  const url = (await postgres.createDatabase()).replace(`:${postgres.port}/`, `:${proxy.port}/`);
  const database = new Database({ url, log: silent });
  for (let round = 0; round < 5; round++) {
    await Promise.all(Array.from({ length: 4 }, () => database.query('SELECT pg_sleep(0.01)')));
    proxy.cut();
    const [row] = await database.transaction('', (transaction) => transaction.query('SELECT 1 AS one'));
    expect(row).toEqual({ one: 1 });
  }
  await database.close();
  proxy.close();
});

test('a replica of an earlier release follows the later ones, and changes nothing', async () => {
  const url = await postgres.createDatabase();
  await using later = await startReplica(url);
  await add(later.registry, 't1');
  await later.database.query('INSERT INTO sluice.migrations (step) VALUES (99)');
  await using earlier = await startReplica(url);
  for (const { registry } of [later, earlier]) {
    await expect(add(registry, 't2')).rejects.toThrow(
      /schema 99 is newer than this release supports \(\d+\).*start the later release/,
    );
  }
  await later.database.query('DELETE FROM sluice.migrations WHERE step = 99');
  await add(later.registry, 't3');
  await earlier.registry.refresh();
  expect(names(earlier.registry)).toEqual(['t1', 't3']);
});

test('a database that was restored from a backup is not changed by a replica that knows a later state', async () => {
  const url = await postgres.createDatabase();
  await using a = await startReplica(url);
  await add(a.registry, 't1');
  await a.database.query('UPDATE sluice.state SET revision = revision - 1');
  await expect(add(a.registry, 't2')).rejects.toThrow('it was restored from a backup; restart all replicas');
  await expect(a.registry.refresh()).rejects.toThrow('it was restored from a backup; restart all replicas');
  expect(a.log.isConnected).toBe(false);
  await expect(add(a.registry, 't2')).rejects.toThrow('it was restored from a backup; restart all replicas');
  expect(names(a.registry)).toEqual(['t1']);
});
