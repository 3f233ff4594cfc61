import { integer, property, assert as prove, string } from 'fast-check';
import { expect, test } from 'vitest';
import { cutBytes } from './verdict.ts';

test.each([
  ['aaa', 3, 'aaa'],
  ['aaaa', 3, 'aaa'],
  ['aaé', 3, 'aa'],
  ['€€', 5, '€'],
  ['a😀b', 5, 'a😀'],
  ['a😀', 4, 'a'],
  ['😀', 1, ''],
  ['', 3, ''],
  ['ab', 0, ''],
])('of %j, %i bytes have room for %j', (text, bytes, expected) => {
  expect(cutBytes(text, bytes)).toBe(expected);
});

test.each([
  ['a\ufffd', 4],
  ['a\ufffdb', 4],
  ['a\ufffd\ufffd', 6],
])('a replacement character that a text has itself stays: %j to %i bytes', (text, bytes) => {
  expect(cutBytes(text, bytes)).toBe('a\ufffd');
});

test('halves of surrogates are replaced', () => {
  expect(cutBytes('\ud83dx\ude00', 10)).toBe('\ufffdx\ufffd');
});

test('what is cut off has no room', () => {
  prove(
    property(string({ unit: 'binary' }), integer({ min: 0, max: 40 }), (text, bytes) => {
      const cut = cutBytes(text, bytes);
      expect(text.startsWith(cut)).toBe(true);
      expect(Buffer.byteLength(cut)).toBeLessThanOrEqual(bytes);
      const [next = ''] = text.slice(cut.length);
      if (next !== '') expect(Buffer.byteLength(cut + next)).toBeGreaterThan(bytes);
    }),
  );
});
