import { expect, it } from 'vitest';
import type { StoredSession } from './session-state.ts';
import { SessionTable } from './session-table.ts';
import { SubscriptionQuota } from './subscription-quota.ts';

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
  const quota = new SubscriptionQuota({ count: 1_000, bytes: 100 });
  const x = (characters: number) => 'x'.repeat(characters);
  const table = new SessionTable({ subscriptions: quota });
  table.set('old', subscribed(x(10)));
  table.admit('a', subscribed(x(56)));
  table.set('a', subscribed(x(56)));
  expect(() => table.admit('b', subscribed('y'))).toThrow('try again later');
  table.restore('b', undefined);
  // Changes that do not grow the state are always accepted.
  table.admit('a', subscribed(x(56)));
  table.admit('a', undefined);
  table.set('a', { kind: 'ended', expires: 2_000, holder: { namespace: 'n', name: 'ann' } });
  table.admit('b', subscribed(x(56)));
  table.restore('b', undefined);
  expect(() => table.admit('b', subscribed(x(57)))).toThrow('try again later');
  table.restore('b', undefined);
  table.removeExpired(1_500);
  table.admit('b', subscribed(x(66)));
  expect(quota.size).toBe(1);
});

it('rejects the newest subscription of an owner beyond its quota, and none of others', () => {
  const table = new SessionTable({ subscriptions: new SubscriptionQuota({ count: 5, bytes: 1_000 }) });
  for (const [id, stored] of [
    ['one', subscribed('a', 'b')],
    ['two', subscribed('c')],
  ] as const) {
    table.admit(id, stored);
    table.set(id, stored);
  }
  expect(() => table.admit('two', subscribed('c', 'e'))).toThrow('too many resource subscriptions');
  table.restore('two', subscribed('c'));
  table.admit('three', ofBob('d'));
  table.set('three', ofBob('d'));
  expect(() => table.admit('three', ofBob('d', 'e'))).toThrow('too many resource subscriptions');
  table.restore('three', ofBob('d'));
  table.set('one', undefined);
  table.admit('three', ofBob('d', 'e'));
});

it('forgets the oldest log levels of an owner that has too many, and of nobody else', () => {
  const table = new SessionTable({ maxEnded: 3 });
  const level = (name: string): StoredSession => ({
    kind: 'changed',
    expires: 1_000,
    holder: { namespace: 'n', name },
    state: { logLevel: 'error', subscriptions: [] },
  });
  for (let n = 1; n <= 100; n++) table.set(`ann ${n}`, level('ann'));
  expect(table.entries().length).toBe(2);
  table.set('bob', level('bob'));
  // Without one that could be forgotten.
  table.set('eve', level('eve'));
  expect(['ann 98', 'ann 99', 'ann 100', 'bob', 'eve'].map((id) => table.state(id)?.logLevel)).toEqual([
    undefined,
    'error',
    'error',
    'error',
    undefined,
  ]);
});
