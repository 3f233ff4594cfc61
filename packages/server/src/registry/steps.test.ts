import { TimeSlicer } from '@sluice/protocol/time-slicer';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { runSteps, sortInSteps } from './steps.ts';

test('sorting in steps is stable and equals sorting at once', () => {
  const items = fc.array(fc.record({ key: fc.nat(50), id: fc.nat() }), { minLength: 4_000, maxLength: 9_000 });
  const compare = (a: { key: number }, b: { key: number }) => a.key - b.key;
  fc.assert(
    fc.property(items, (unsorted) => {
      expect(runSteps(sortInSteps(unsorted, compare))).toEqual(unsorted.toSorted(compare));
    }),
    { numRuns: 5 },
  );
});

test('long works take turns, one slice of one work in each turn of the event loop', async () => {
  const slicer = new TimeSlicer();
  const slices: string[] = [];
  function* work(name: string) {
    for (let step = 0; step < 3; step++) {
      slices.push(name);
      // As long as a slice may last.
      const end = performance.now() + 8;
      while (performance.now() < end);
      yield;
    }
    return name;
  }
  const all = [slicer.run(work('a')), slicer.run(work('b'))];
  let loopTurns = 0;
  const count = () => {
    loopTurns++;
    if (slices.length < 6) setImmediate(count);
  };
  setImmediate(count);
  expect(await Promise.all(all)).toEqual(['a', 'b']);
  expect(slices).toEqual(['a', 'a', 'b', 'a', 'b', 'b']);
  expect(loopTurns).toBeGreaterThanOrEqual(5);
});
