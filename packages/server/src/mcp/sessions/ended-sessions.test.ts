import { expect, it } from 'vitest';
import { EndedSessions } from './ended-sessions.ts';

const ann = { namespace: 'a', name: 'ann' };
const bob = { namespace: 'a', name: 'bob' };
const eve = { namespace: 'b', name: 'eve' };

it('the oldest ends of the largest holder are forgotten, with which its older sessions are over', () => {
  const ended = new EndedSessions(4);
  for (let n = 1; n <= 4; n++) expect(ended.add(`a${n}`, ann, n * 10)).toEqual([]);
  expect(ended.add('b1', eve, 5)).toEqual(['a1']);
  expect(ended.add('b2', eve, 6)).toEqual(['a2']);
  expect([19, 20, 21].map((expires) => ended.covers(ann, expires))).toEqual([true, true, false]);
  for (const other of [bob, eve]) expect(ended.covers(other, 1)).toBe(false);
  // Neither has less than its share: each forgets its own.
  expect(ended.add('b3', eve, 7)).toEqual(['b1']);
  expect([ended.covers(eve, 5), ended.covers(eve, 6)]).toEqual([true, false]);
  expect(ended.forgotten()).toEqual([
    { ...ann, expires: 20 },
    { ...eve, expires: 5 },
  ]);
  const again = new EndedSessions(4);
  for (const forgotten of ended.forgotten()) again.addForgotten(forgotten);
  expect([again.covers(ann, 20), again.covers(ann, 21), again.covers(eve, 5)]).toEqual([true, false, true]);
  again.removeExpired(10);
  expect(again.forgotten()).toEqual([{ ...ann, expires: 20 }]);
});

it('memory is limited even if each end has another user', () => {
  const ended = new EndedSessions(100);
  const ids = new Set<string>();
  for (let n = 1; n <= 5_000; n++) {
    const user = `user ${n}`;
    for (const forgotten of ended.add(user, { namespace: 'a', name: user }, n)) ids.delete(forgotten);
    ids.add(user);
  }
  ended.add('b', eve, 1);
  expect(ids.size).toBe(100);
  expect(ended.forgotten().length).toBeLessThanOrEqual(101);
  // No ended session is valid again.
  for (let n = 1; n <= 5_000; n++) {
    const user = `user ${n}`;
    expect(ids.has(user) || ended.covers({ namespace: 'a', name: user }, n)).toBe(true);
  }
  expect(ended.covers(eve, 0)).toBe(false);
});
