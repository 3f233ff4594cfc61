import fc from 'fast-check';
import { expect, test } from 'vitest';
import { applyMergePatch, mergePatch } from './merge-patch.ts';

test('the patch of two objects turns one into the other, if there is one', () => {
  const value = fc.dictionary(
    fc.string({ maxLength: 2 }),
    fc.jsonValue({ maxDepth: 2 }).map((json) => JSON.parse(JSON.stringify(json))),
    { maxKeys: 4, noNullPrototype: true },
  );
  let patched = 0;
  fc.assert(
    fc.property(value, value, (before, after) => {
      const patch = mergePatch(before, after);
      if (!patch) return;
      patched++;
      expect(applyMergePatch(before, JSON.parse(JSON.stringify(patch)))).toEqual(after);
    }),
    { numRuns: 500 },
  );
  expect(patched).toBeGreaterThan(20);
});

test.each([
  [{ a: 1 }, { a: null }],
  [{}, { a: { b: null } }],
  [{ a: { b: 1 } }, { a: { b: null } }],
])('there is none from %j to %j: it would remove what is null', (before, after) => {
  expect(mergePatch(before, after)).toBeUndefined();
});

test('a patch has what differs alone', () => {
  const patch = mergePatch({ a: 1, b: { c: 1, d: [1] }, e: 1, f: undefined }, { a: 1, b: { c: 2, d: [1] } });
  expect(patch).toEqual({ b: { c: 2 }, e: null });
});
