import { expect, it } from 'vitest';
import type { StoredSession } from './session-state.ts';
import { SessionTable } from './session-table.ts';
import { SubscriptionShares } from './subscription-shares.ts';

const subscribed = (...uris: string[]): StoredSession => ({
  kind: 'changed',
  expires: 1_000,
  holder: { namespace: 'n', name: 'ann' },
  state: { subscriptions: uris.map((uri) => ({ uri, forward: 'f' })) },
});
const ofBob = (...uris: string[]): StoredSession => ({
  ...subscribed(...uris),
  holder: { namespace: 'n', name: 'bob' },
});

it('limits the total size, and frees it when a session ends or expires', () => {
  const shares = new SubscriptionShares({ count: 1_000, bytes: 100 });
  const x = (characters: number) => 'x'.repeat(characters);
  const table = new SessionTable({ subscriptions: shares });
  table.set('old', subscribed(x(40)));
  table.admit('a', subscribed(x(60)));
  table.set('a', subscribed(x(60)));
  expect(() => table.admit('b', subscribed('y'))).toThrow('try again later');
  table.restore('b', undefined);
  // Changes that do not grow the state are always accepted.
  table.admit('a', subscribed(x(60)));
  table.admit('a', undefined);
  table.set('a', { kind: 'ended', expires: 2_000, holder: { namespace: 'n', name: 'ann' } });
  table.admit('b', subscribed(x(60)));
  table.restore('b', undefined);
  expect(() => table.admit('b', subscribed(x(61)))).toThrow('try again later');
  table.restore('b', undefined);
  table.removeExpired(1_500);
  table.admit('b', subscribed(x(100)));
  expect(shares.size).toBe(1);
});

it('ends the oldest subscription of the largest holder for one with less than its share', () => {
  const table = new SessionTable({ subscriptions: new SubscriptionShares({ count: 4, bytes: 1_000 }) });
  const displaced: string[] = [];
  table.subscriptionEvicted.subscribe(({ id, uri }) => displaced.push(`${id} ${uri}`));
  for (const [id, stored] of [
    ['one', subscribed('a', 'b')],
    ['two', subscribed('c')],
    ['three', ofBob('d')],
  ] as const) {
    table.admit(id, stored);
    table.set(id, stored);
  }
  expect(() => table.admit('two', subscribed('c', 'e'))).toThrow('too many resource subscriptions');
  table.restore('two', subscribed('c'));
  expect(displaced).toEqual([]);
  table.admit('three', ofBob('d', 'e'));
  table.set('three', ofBob('d', 'e'));
  expect(displaced).toEqual(['one a']);
  table.set('one', subscribed('b'));
  expect(() => table.admit('three', ofBob('d', 'e', 'f'))).toThrow('too many resource subscriptions');
});

it('forgets the oldest log levels of the largest holder', () => {
  const table = new SessionTable({ maxEnded: 3 });
  const level = (name: string): StoredSession => ({
    kind: 'changed',
    expires: 1_000,
    holder: { namespace: 'n', name },
    state: { logLevel: 'error', subscriptions: [] },
  });
  for (let n = 1; n <= 100; n++) table.set(`ann ${n}`, level('ann'));
  expect(table.entries().length).toBe(3);
  table.set('bob', level('bob'));
  expect(['ann 98', 'ann 99', 'ann 100', 'bob'].map((id) => table.state(id)?.logLevel)).toEqual([
    undefined,
    'error',
    'error',
    'error',
  ]);
});
