import fc from 'fast-check';
import { expect, test } from 'vitest';
import { LayeredMap } from './layered-map.ts';
import { runSteps } from './steps.ts';

const KEYS = fc.integer({ min: 0, max: 3_000 }).map(String);
const CHANGES = fc.array(fc.tuple(KEYS, fc.option(fc.integer(), { nil: undefined })), { maxLength: 2_000 });

test('drafts and published maps equal a plain map, and older states stay unchanged', () => {
  fc.assert(
    fc.property(fc.array(CHANGES, { maxLength: 5 }), (drafts) => {
      let map = new LayeredMap<{ value: number }>();
      const plain = new Map<string, number>();
      for (const changes of drafts) {
        const before = map;
        const known = new Map(plain);
        const draft = map.copy();
        for (const [key, value] of changes) {
          draft.set(key, value === undefined ? undefined : { value });
          if (value === undefined) plain.delete(key);
          else plain.set(key, value);
          expect(draft.get(key)?.value).toBe(value);
        }
        expect(sorted(draft.values())).toEqual(sorted(wrapped(plain)));
        map = runSteps(draft.publishInSteps());
        expect(sorted(map.values())).toEqual(sorted(wrapped(plain)));
        for (const [key] of changes) {
          expect(map.get(key)?.value).toBe(plain.get(key));
          expect(before.get(key)?.value).toBe(known.get(key));
        }
      }
    }),
    { numRuns: 30 },
  );
});

function wrapped(map: ReadonlyMap<string, number>): { value: number }[] {
  return [...map.values()].map((value) => ({ value }));
}

function sorted(values: Iterable<{ value: number }>): number[] {
  return [...values].map(({ value }) => value).sort((a, b) => a - b);
}
