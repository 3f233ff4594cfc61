import { expect, test } from 'vitest';
import { leasesToTake } from './shared-discovery.ts';

const forwards = Array.from({ length: 10 }, (_, at) => `f${at}`);
/** Leases by forward: `counts` forwards per replica, in this order. */
const leases = (counts: Readonly<Record<string, number>>) => {
  const holders = Object.entries(counts).flatMap(([id, count]) => Array<string>(count).fill(id));
  return new Map(holders.map((id, at) => [`f${at}`, id]));
};

test('replicas divide what no live one has, in whatever order they take it', () => {
  const held = leases({ a: 2, dead: 6, b: 2 });
  const live = ['a', 'b', 'c'];
  for (const id of ['c', 'a', 'b']) {
    for (const name of leasesToTake(id, live, forwards, held, false)) held.set(name, id);
  }
  const counts = live.map((id) => [...held.values()].filter((holder) => holder === id).length);
  expect(counts.toSorted()).toEqual([2, 4, 4]);
});

test('a new replica takes its share from those that have the most, once', () => {
  const held = leases({ a: 6, b: 4 });
  const live = ['a', 'b', 'c'];
  expect(leasesToTake('c', live, forwards, held, false)).toEqual([]);
  const taken = leasesToTake('c', live, forwards, held, true);
  expect(taken.map((name) => held.get(name)).toSorted()).toEqual(['a', 'a', 'a']);
  for (const name of taken) held.set(name, 'c');
  for (const id of live) expect(leasesToTake(id, live, forwards, held, true)).toEqual([]);
});

test('a replica that is alone takes everything', () => {
  expect(leasesToTake('a', ['a'], forwards, leases({ dead: 5 }), false)).toEqual(forwards);
});
