import { expect, it } from 'vitest';
import { SessionTable, type StoredSession } from './session-state.ts';

const subscribed = (characters: number): StoredSession => ({
  kind: 'changed',
  expires: 1_000,
  state: { subscriptions: [{ uri: 'x'.repeat(characters - 1), forward: 'f' }] },
});

it('limits the total size, and frees it when a session ends or expires', () => {
  const table = new SessionTable(new Map([['old', subscribed(40)]]), 100);
  table.checkLimit(undefined, subscribed(60));
  table.set('a', subscribed(60));
  expect(() => table.checkLimit(undefined, subscribed(1))).toThrow('try again later');
  // Changes that do not grow the state are always accepted.
  table.checkLimit(subscribed(60), subscribed(60));
  table.checkLimit(subscribed(60), undefined);
  table.set('a', { kind: 'ended', expires: 2_000 });
  table.checkLimit(undefined, subscribed(60));
  expect(() => table.checkLimit(undefined, subscribed(61))).toThrow('try again later');
  table.removeExpired(1_500);
  table.checkLimit(undefined, subscribed(100));
});
