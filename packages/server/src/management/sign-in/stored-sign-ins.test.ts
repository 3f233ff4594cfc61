import { randomBytes } from 'node:crypto';
import { TokenSealer } from '@sluice/protocol/seal';
import { beforeEach, describe, expect, it } from 'vitest';
import { storedChanges } from '../../registry/store/fixtures/changes.ts';
import { type LogConsumer, memoryLog, type RecordLog } from '../../registry/store/record-log.ts';
import type { StoredChange } from '../../registry/store/store.ts';
import { type Refreshed, StoredSignIns } from './stored-sign-ins.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const sealer = new TokenSealer(randomBytes(32));

let now: number;
let log: () => RecordLog;
let asked: string[];
let answer: (token: string) => Promise<Refreshed>;
let signIns: StoredSignIns;

beforeEach(async () => {
  now = Date.UTC(2026, 0);
  log = sharedLog();
  asked = [];
  answer = async () => proven(['second'], 'token-2');
  signIns = await open();
});

/** Returns a function that opens the log of another process. All have the same records, and commit one after another. */
function sharedLog(): () => RecordLog {
  const consumers: LogConsumer[] = [];
  const commits: StoredChange[][] = [];
  let last: Promise<unknown> = Promise.resolve();
  return () => {
    let own: LogConsumer | undefined;
    return {
      ...memoryLog(),
      isShared: true,
      async add(consumer) {
        own = consumer;
        consumers.push(consumer);
        await consumer.reload(new Map());
        for (const changes of commits) await consumer.apply(changes);
      },
      async commit(made, conflict) {
        const turn = last.then(async () => {
          const commit = conflict?.isOutdated() ? await conflict.remake() : made;
          const changes = storedChanges(commit.changes);
          commits.push(changes);
          commit.publish();
          for (const consumer of consumers) if (consumer !== own) await consumer.apply(changes);
        });
        last = turn.catch(() => undefined);
        await turn;
      },
    };
  };
}

async function open(): Promise<StoredSignIns> {
  const opened = new StoredSignIns({
    cookie: 'sluice',
    sealer,
    refresh: (_signIn, token) => {
      asked.push(token);
      return answer(token);
    },
    now: () => now,
  });
  await opened.open(log());
  return opened;
}

const proven = (groups: string[], refreshToken?: string, sub = 'ann') => {
  return { claims: { sub, groups }, refreshToken, expiresIn: 60 };
};
const cookies = (value: string) => [`sluice=${value}`];
describe('a sign-in', () => {
  it('counts until it expires', async () => {
    const value = await signIns.add('corp', proven(['first']), HOUR);
    expect(signIns.find(cookies(value))).toMatchObject({ issuer: 'corp', claims: { groups: ['first'] } });
    now += HOUR - 1;
    expect(signIns.find(cookies(value))).not.toBeNull();
    now++;
    expect(signIns.find(cookies(value))).toBeNull();
    expect(signIns.list()).toEqual([]);
  });

  it('is proven by its cookie only', async () => {
    await signIns.add('corp', proven([]), HOUR);
    const [{ id } = { id: '' }] = signIns.list();
    expect(signIns.find(cookies(id))).toBeNull();
    expect(signIns.find([`sluice-login=${id}`])).toBeUndefined();
    expect(signIns.find([])).toBeUndefined();
  });

  it('has ended once it was ended, which returns its refresh token', async () => {
    const value = await signIns.add('corp', proven([], 'token-1'), HOUR);
    const id = signIns.idIn(cookies(value)) ?? '';
    expect(await signIns.end(id)).toMatchObject({ signIn: { issuer: 'corp' }, refreshToken: 'token-1' });
    expect(signIns.find(cookies(value))).toBeNull();
    expect(await signIns.end(id)).toBeUndefined();
  });

  it('ends the oldest one of the same person beyond 20', async () => {
    const values: string[] = [];
    for (let n = 0; n < 21; n++) {
      now += SECOND;
      values.push(await signIns.add('corp', proven([], undefined, n === 0 ? 'bob' : 'ann'), HOUR));
    }
    const [bob = '', oldest = '', next = ''] = values;
    now += SECOND;
    await signIns.add('corp', proven([]), HOUR);
    expect([bob, oldest, next].map((value) => signIns.find(cookies(value)) === null)).toEqual([false, true, false]);
  });
});

describe('a refresh', () => {
  it('is asked for once when it is due, whoever waits for it; changed groups count then', async () => {
    const value = await signIns.add('corp', proven(['first'], 'token-1'), HOUR);
    const changed: string[] = [];
    signIns.changed.subscribe((id) => changed.push(id));
    now += MINUTE - 1;
    expect(signIns.find(cookies(value))).toMatchObject({ claims: { groups: ['first'] } });
    now++;
    const found = await Promise.all([1, 2, 3].map(() => signIns.find(cookies(value))));
    for (const each of found) expect(each).toMatchObject({ claims: { groups: ['second'] } });
    expect([asked, changed]).toEqual([['token-1'], [signIns.idIn(cookies(value))]]);
    now += MINUTE;
    await signIns.find(cookies(value));
    expect(asked).toEqual(['token-1', 'token-2']);
  });

  it('is at least one in five minutes, and none without a refresh token', async () => {
    const long = { ...proven([], 'token-1'), expiresIn: 24 * 60 * 60 };
    const [value, other] = [await signIns.add('corp', long, HOUR), await signIns.add('corp', proven([]), HOUR)];
    now += 5 * MINUTE;
    expect(signIns.find(cookies(other))).not.toBeInstanceOf(Promise);
    await signIns.find(cookies(value));
    expect(asked).toEqual(['token-1']);
  });

  it('of two processes at once uses the refresh token once', async () => {
    const value = await signIns.add('corp', proven(['first'], 'token-1'), HOUR);
    const other = await open();
    now += MINUTE;
    const { promise, resolve } = Promise.withResolvers<Refreshed>();
    answer = () => promise;
    const both = [signIns.find(cookies(value)), other.find(cookies(value))];
    await expect.poll(() => asked.length).toBe(1);
    // The other one does not wait for the issuer.
    expect(await Promise.race(both)).toMatchObject({ claims: { groups: ['first'] } });
    resolve(proven(['second'], 'token-2'));
    await Promise.all(both);
    for (const each of [signIns, other])
      expect(each.find(cookies(value))).toMatchObject({ claims: { groups: ['second'] } });
    expect(asked).toEqual(['token-1']);
  });

  it('and the end of a sign-in reach the other process', async () => {
    const value = await signIns.add('corp', proven(['first'], 'token-1'), HOUR);
    const other = await open();
    const changed: string[] = [];
    other.changed.subscribe((id) => changed.push(id));
    now += MINUTE;
    await signIns.find(cookies(value));
    const id = signIns.idIn(cookies(value)) ?? '';
    expect([other.get(id)?.claims.groups, changed]).toEqual([['second'], [id]]);
    await other.end(id);
    expect([signIns.find(cookies(value)), changed]).toEqual([null, [id, id]]);
  });

  it('that the issuer rejects ends the sign-in', async () => {
    const value = await signIns.add('corp', proven([], 'token-1'), HOUR);
    answer = async () => 'ended';
    now += MINUTE;
    expect(await signIns.find(cookies(value))).toBeNull();
    expect(signIns.list()).toEqual([]);
  });

  it('that fails is tried again after 30 s, with the latest refresh token; the last claims count meanwhile', async () => {
    const value = await signIns.add('corp', proven(['first'], 'token-1'), HOUR);
    answer = async () => Promise.reject(new Error('unreachable'));
    now += MINUTE;
    expect(await signIns.find(cookies(value))).toMatchObject({ claims: { groups: ['first'] } });
    expect(signIns.find(cookies(value))).not.toBeInstanceOf(Promise);
    answer = async () => ({ refreshToken: 'token-2' });
    now += 30 * SECOND;
    await signIns.find(cookies(value));
    now += 30 * SECOND;
    await signIns.find(cookies(value));
    expect(asked).toEqual(['token-1', 'token-1', 'token-2']);
  });

  it('of a process that was killed meanwhile is tried again a minute later', async () => {
    const value = await signIns.add('corp', proven(['first'], 'token-1'), HOUR);
    now += MINUTE;
    answer = () => new Promise(() => undefined);
    void signIns.find(cookies(value));
    await expect.poll(() => asked.length).toBe(1);
    const other = await open();
    now += MINUTE - 1;
    await other.find(cookies(value));
    expect(asked).toHaveLength(1);
    now++;
    answer = async () => proven(['second'], 'token-2');
    expect(await other.find(cookies(value))).toMatchObject({ claims: { groups: ['second'] } });
  });
});
