import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../testing/postgres.ts';
import { Database } from '../../registry/store/postgres/database.ts';
import { ReplicatedLog } from '../../registry/store/postgres/replicated-log.ts';
import { SessionStore } from './session-store.ts';
import { SubscriptionQuota } from './subscription-quota.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres[Symbol.asyncDispose]());

const LATER = Date.now() + 3_600_000;
const ann = { namespace: 'a', name: 'ann' };
const eve = { namespace: 'b', name: 'eve' };

interface Replica extends AsyncDisposable {
  readonly store: SessionStore;
  readonly log: ReplicatedLog;
  readonly database: Database;
  readonly subscriptions: SubscriptionQuota;
  /** Ids of sessions that others have ended. */
  readonly ended: string[];
}

async function startReplica(url: string): Promise<Replica> {
  const messages = { warn: () => undefined, error: () => undefined };
  const database = new Database({ url, log: messages });
  const log = new ReplicatedLog({ database, log: messages, version: '1' });
  await log.open();
  const subscriptions = new SubscriptionQuota();
  const store = new SessionStore({ maxEnded: 3, subscriptions });
  await store.open(log);
  const ended: string[] = [];
  store.ended.subscribe((id) => ended.push(id));
  return { store, log, database, subscriptions, ended, [Symbol.asyncDispose]: () => log.close() };
}

const storedIds = async ({ database }: Replica, section: string) =>
  (await database.query<{ id: string }>('SELECT id FROM sluice.records WHERE section = $1 ORDER BY id', [section])).map(
    ({ id }) => id,
  );

test('the ends and log levels that are too many are forgotten in the database too, for all replicas', async () => {
  const url = await postgres.createDatabase();
  await using a = await startReplica(url);
  await using b = await startReplica(url);
  for (let n = 1; n <= 5; n++) await a.store.change(`a${n}`, LATER + n, 'end', ann);
  await b.log.refresh();
  await b.store.change('b1', LATER, 'end', eve);
  await expect.poll(() => storedIds(a, 'sessions')).toEqual(['a4', 'a5', 'b1']);
  expect(await storedIds(a, 'forgotten_sessions')).toEqual(['["a","ann"]']);
  await using c = await startReplica(url);
  for (const { log, store } of [a, b, c]) {
    await log.refresh();
    const over = [1, 2, 3, 4, 5].filter((n) => store.sessions.hasEnded(`a${n}`, { holder: ann, expires: LATER + n }));
    expect(over).toEqual([1, 2, 3, 4, 5]);
    expect(store.sessions.hasEnded('new', { holder: ann, expires: LATER + 9 })).toBe(false);
    expect(store.sessions.hasEnded('old', { holder: eve, expires: LATER })).toBe(false);
  }
  for (let n = 1; n <= 5; n++) {
    await c.store.change(`l${n}`, LATER, (state) => ({ ...state, logLevel: 'error' }), eve);
  }
  await expect.poll(async () => (await storedIds(a, 'sessions')).filter((id) => id.startsWith('l'))).toHaveLength(2);
});

test('a replica that loads all sessions again ends those that have ended, and counts subscriptions once', async () => {
  const url = await postgres.createDatabase();
  await using a = await startReplica(url);
  await using b = await startReplica(url);
  const subscription = { uri: 'u', forward: 'f' };
  await a.store.change('kept', LATER, () => ({ subscriptions: [subscription] }), ann);
  await a.store.change('dropped', LATER, () => ({ subscriptions: [subscription] }), ann);
  await b.log.refresh();
  await a.store.change('ended', LATER, 'end', eve);
  await a.store.change('dropped', LATER, () => ({ subscriptions: [] }), ann);
  await a.database.query('UPDATE sluice.state SET pruned = revision');
  await b.log.refresh();
  expect(b.ended).toEqual(['ended']);
  expect([...b.store.sessions.entries()]).toEqual([...a.store.sessions.entries()]);
  expect(b.subscriptions.size).toBe(1);
});

test('expired sessions take no memory', async () => {
  const url = await postgres.createDatabase();
  await using a = await startReplica(url);
  await using b = await startReplica(url);
  for (let n = 1; n <= 4; n++) {
    const expires = Date.now() - 1;
    await a.store.change(`s${n}`, expires, () => ({ subscriptions: [{ uri: 'u', forward: 'f' }] }), ann);
  }
  await b.log.refresh();
  for (const { store } of [a, b]) expect(store.sessions.entries().length).toBeLessThan(4);
});
