import { expect, test } from 'vitest';
import { ReadingTurns } from './history.ts';

const MIB = 1024 * 1024;

test.each<[string, number[], boolean[]]>([
  ['small bodies share a turn', [MIB / 2, MIB / 2, 0], [false, false, false]],
  ['what is too much for a turn gets the next one', [MIB / 2, MIB / 2, 1, 1], [false, false, true, false]],
  ['every large body gets a turn of its own', [5 * MIB, 5 * MIB, 1, 1], [true, true, true, false]],
])('%s', async (_what, bodies, expected) => {
  const turns = new ReadingTurns();
  const others: boolean[] = [];
  for (const bytes of bodies) {
    let had = false;
    const other = setImmediate(() => {
      had = true;
    });
    await turns.before(bytes);
    others.push(had);
    clearImmediate(other);
  }
  expect(others).toEqual(expected);
});
