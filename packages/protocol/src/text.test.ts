import { integer, property, assert as prove, string } from 'fast-check';
import { expect, it } from 'vitest';
import { anyCharacter } from '../../../test/fixtures/any-character.ts';
import {
  counted,
  detach,
  ellipsize,
  escapeInvisible,
  printable,
  quoteText,
  singleLine,
  truncate,
  truncateBytes,
  truncateCharacters,
} from './text.ts';

const SMILE = '\u{1f600}';

it('truncates without splitting a surrogate pair', () => {
  expect(truncate('abc', 3)).toBe('abc');
  expect(truncate('abcd', 3)).toBe('abc');
  expect(truncate(`ab${SMILE}`, 3)).toBe('ab');
  expect(truncate(`a${SMILE}b`, 3)).toBe(`a${SMILE}`);
});

it('truncates by characters', () => {
  expect(truncateCharacters(`a${SMILE}${SMILE}b`, 3)).toBe(`a${SMILE}${SMILE}`);
  expect(truncateCharacters('abc', 3)).toBe('abc');
});

it.each([
  ['abc', 3, 'abc'],
  ['abcd', 3, 'abc'],
  ['aé', 2, 'a'],
  ['aé', 3, 'aé'],
  [`a${SMILE}`, 4, 'a'],
  [`a${SMILE}`, 5, `a${SMILE}`],
  ['a\ud800b', 4, 'a\ufffd'],
  ['\ud83dx\ude00', 10, '\ufffdx\ufffd'],
  ['a\ufffdb', 4, 'a\ufffd'],
  ['\u20ac\u20ac', 5, '\u20ac'],
  [SMILE, 1, ''],
  ['ab', 0, ''],
])('truncates %j to at most %d bytes of UTF-8', (text, maxBytes, expected) => {
  expect(truncateBytes(text, maxBytes)).toBe(expected);
});

it('marks truncated text', () => {
  expect(ellipsize('abc', 3)).toBe('abc');
  expect(ellipsize('abcd', 3)).toBe('abc...');
  expect(quoteText('a"b', 2)).toBe('"a\\"..."');
  expect(singleLine(' a\r\n\u0085b ', 10)).toBe('a b');
  expect(singleLine('abcd', 3)).toBe('abc…');
});

it('escapes characters that a terminal does not show, without changing JSON', () => {
  const hidden = '\u007f\u0080\u009b\u009f\u00ad\u061c\u200b\u200d\u200f\u2028\u202e\u2060\u2066\u2069\ufeff\u{e0041}';
  const escaped = escapeInvisible(JSON.stringify({ hidden }));
  expect(escaped).toMatch(/^[ -~]+$/);
  expect(JSON.parse(escaped)).toEqual({ hidden });
  expect(escapeInvisible('é 漢 😀 a\tb')).toBe('é 漢 😀 a\tb');
  expect(printable('a\u001b[31m\r\nb\u202e')).toBe('a\\u001b[31m\\u000d\\u000ab\\u202e');
});

it('copies well-formed text', () => {
  expect(detach('a\ud800')).toBe('a\ufffd');
});

it('truncates to the longest beginning that fits', () => {
  prove(
    property(string({ unit: anyCharacter }), integer({ min: 0, max: 40 }), (text, maxBytes) => {
      const truncated = truncateBytes(text, maxBytes);
      expect(text.startsWith(truncated)).toBe(true);
      expect(Buffer.byteLength(truncated)).toBeLessThanOrEqual(maxBytes);
      const [next = ''] = text.slice(truncated.length);
      if (next !== '') expect(Buffer.byteLength(truncated + next)).toBeGreaterThan(maxBytes);
    }),
  );
});

it.each([
  [0, 'tool', '0 tools'],
  [1, 'tool', '1 tool'],
  [2, 'tool', '2 tools'],
  [1, 'entry', '1 entry'],
  [3, 'entry', '3 entries'],
])('counts %i %s as %s', (count, noun, text) => expect(counted(count, noun)).toBe(text));
