import { expect, test } from 'vitest';
import { parseIfMatch } from './revisions.ts';

test.each([
  ['*', '*'],
  [' * ', '*'],
  ['"1"', [1]],
  ['"0"', [0]],
  [' "1" ,, "22"\t,', [1, 22]],
  // No revision has such a tag, and a weak one matches nothing.
  ['"01", "x", "", "1,2", "-1", W/"1", "9999999999999999"', []],
])('%j names %j', (header, named) => {
  expect(parseIfMatch(header)).toEqual(named);
});

test.each(['', ' ', ',', '1', '"1', '1"', '"1" "2"', '"1", 2', '*, "1"', '"1", *', 'w/"1"', 'W/1', '"a b"', "'1'"])(
  '%j is none',
  (header) => {
    expect(parseIfMatch(header)).toBeUndefined();
  },
);

test('a long one is read in a moment', () => {
  const started = performance.now();
  for (const part of [' ', ',', ' ,', '"', '"",', 'W/']) {
    parseIfMatch(part.repeat(16_384 / part.length));
    parseIfMatch(`${part.repeat(16_384 / part.length)}x`);
  }
  expect(performance.now() - started).toBeLessThan(1_000);
});
