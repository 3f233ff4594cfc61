import { expect, it } from 'vitest';
import { EndedSessions } from './ended-sessions.ts';

const ann = { namespace: 'a', name: 'ann' };
const bob = { namespace: 'a', name: 'bob' };
const eve = { namespace: 'b', name: 'eve' };

it('the oldest ends of an owner are forgotten, with which its older sessions are over, and no other', () => {
  const ended = new EndedSessions(5);
  for (let n = 1; n <= 3; n++) expect(ended.add(`a${n}`, ann, n * 10)).toEqual([]);
  expect(ended.add('a4', ann, 40)).toEqual(['a1']);
  expect(ended.add('b1', eve, 5)).toEqual([]);
  expect(ended.add('a5', ann, 50)).toEqual(['a2', 'a3']);
  expect([29, 30, 31].map((expires) => ended.covers(ann, expires))).toEqual([true, true, false]);
  for (const other of [bob, eve]) expect(ended.covers(other, 1)).toBe(false);
  expect(ended.add('b2', eve, 6)).toEqual([]);
  expect(ended.add('b3', eve, 7)).toEqual(['b1']);
  expect([ended.covers(eve, 5), ended.covers(eve, 6)]).toEqual([true, false]);
  expect(ended.forgotten()).toEqual([
    { ...ann, expires: 30 },
    { ...eve, expires: 5 },
  ]);
  const again = new EndedSessions(5);
  for (const forgotten of ended.forgotten()) again.addForgotten(forgotten);
  expect([again.covers(ann, 30), again.covers(ann, 31), again.covers(eve, 5)]).toEqual([true, false, true]);
  again.removeExpired(10);
  expect(again.forgotten()).toEqual([{ ...ann, expires: 30 }]);
});

it('the end of a session for which there is no place is forgotten at once', () => {
  const ended = new EndedSessions(2);
  for (const owner of [ann, eve]) expect(ended.add(owner.name, owner, 10)).toEqual([]);
  expect(ended.add('bob', bob, 10)).toEqual(['bob']);
  expect([ended.covers(bob, 10), ended.covers(bob, 11), ended.covers(ann, 1)]).toEqual([true, false, false]);
});

it('memory is limited even if each end has another user', () => {
  const ended = new EndedSessions(100);
  const ids = new Set<string>();
  for (let n = 1; n <= 5_000; n++) {
    const user = `user ${n}`;
    ids.add(user);
    for (const forgotten of ended.add(user, { namespace: 'a', name: user }, n)) ids.delete(forgotten);
  }
  ended.add('b', eve, 1);
  expect(ids.size).toBe(100);
  expect(ended.forgotten().length).toBeLessThanOrEqual(101);
  // No ended session is valid again.
  for (let n = 1; n <= 5_000; n++) {
    const user = `user ${n}`;
    expect(ids.has(user) || ended.covers({ namespace: 'a', name: user }, n)).toBe(true);
  }
  expect([ended.covers(eve, 1), ended.covers(eve, 2)]).toEqual([true, false]);
});
