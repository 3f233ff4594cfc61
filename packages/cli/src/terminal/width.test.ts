import { expect, test } from 'vitest';
import { displayWidth, truncateToWidth } from './width.ts';

test.each([
  ['what fits', 'weather', 7, 'weather'],
  ['what is too wide', 'weather', 5, 'weat…'],
  ['letters of two columns', '天気予報', 5, '天気…'],
  ['people of many characters', '👩‍👩‍👧‍👦', 2, '👩‍👩‍👧‍👦'],
  ['letters with their marks', 'é̄ß', 2, 'é̄ß'],
])('%s is cut to columns', (_what, line, columns, cut) => {
  expect(truncateToWidth(line, columns)).toBe(cut);
});

test.each([
  ['on one letter', `a${'\u0301'.repeat(4000)}`],
  ['on each letter', `a${'\u0301'.repeat(40)}`.repeat(9)],
  ['of two halves', `a${'\u{e0100}'.repeat(4000)}`],
])('marks without end are cut: %s', (_what, line) => {
  const cut = truncateToWidth(line, 10);
  expect(cut.length).toBeLessThanOrEqual(81);
  expect(displayWidth(cut)).toBeLessThanOrEqual(10);
  expect(cut.isWellFormed()).toBe(true);
  expect(cut.endsWith('…')).toBe(true);
});
