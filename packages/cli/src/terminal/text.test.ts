import { expect, it, test } from 'vitest';
import { abbreviate, displayWidth, sanitizeJson, sanitizeLine, sanitizeText, truncateToWidth } from './text.ts';

const HOSTILE = 'a\u001b[2Jb\u009b31mc\u202ed\u0007\u007f';

it('escapes control characters and direction marks in a line', () => {
  expect(sanitizeLine(HOSTILE)).toBe('a\\u001b[2Jb\\u009b31mc\\u202ed\\u0007\\u007f');
  expect(sanitizeLine('first\r\n\tsecond\u2028third')).toBe('first second\\u2028third');
  expect(sanitizeLine('Zürich 東京 👩‍👩‍👧 "quoted"')).toBe('Zürich 東京 👩‍👩‍👧 "quoted"');
});

it('escapes invisible characters, except joiners of emoji', () => {
  const invisible = [
    '\u061c',
    '\u200b',
    '\u200c',
    '\u200d',
    '\u200f',
    '\u2060',
    '\u2064',
    '\ufeff',
    '\u{e0041}',
    '\u{e007f}',
  ];
  for (const character of invisible) {
    const encoded = character.split('').map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
    expect(sanitizeLine(`pay${character}pal`)).toBe(`pay${encoded.join('')}pal`);
    expect(JSON.parse(sanitizeJson(JSON.stringify(character)))).toBe(character);
    expect(sanitizeJson(JSON.stringify(character))).not.toContain(character);
  }
  for (const emoji of ['👩‍👩‍👧', '❤️‍🔥', '🧑🏽‍🚀', '☺️']) expect(sanitizeText(emoji)).toBe(emoji);
  expect(sanitizeLine('👩\u200dx')).toBe('👩\\u200dx');
});

it('keeps line breaks and tabs in a text, but not carriage returns', () => {
  expect(sanitizeText(`one\r\n\ttwo\rthree ${HOSTILE}`)).toBe(`one\n\ttwo\\u000dthree ${sanitizeLine(HOSTILE)}`);
});

it('sanitizes JSON without changing its value', () => {
  const value = { [HOSTILE]: [HOSTILE, 'line\nbreak'] };
  const json = sanitizeJson(JSON.stringify(value));
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what must not be there
  expect(json).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202e]/);
  expect(JSON.parse(json)).toEqual(value);
});

it('returns a short text unchanged', () => {
  expect(abbreviate('Which one?\n\nThis one.')).toBe('Which one?\n\nThis one.');
});

it('collapses whitespace', () => {
  expect(abbreviate(`Name?${' '.repeat(500)}\u00a0\tpassword`)).toBe('Name? password');
  expect(abbreviate(`Name?${' \n'.repeat(500)}password`)).toBe('Name?\n\npassword');
});

it('truncates long text', () => {
  expect(abbreviate('x'.repeat(1_000_000))).toBe(`${'x'.repeat(1000)} …`);
});

test.each([
  ['what fits', 'weather', 7, 'weather'],
  ['what is too wide', 'weather', 5, 'weat…'],
  ['letters of two columns', '天気予報', 5, '天気…'],
  ['people of many characters', '👩‍👩‍👧‍👦', 2, '👩‍👩‍👧‍👦'],
  ['letters with their marks', 'é̄ß', 2, 'é̄ß'],
])('%s is truncated to columns', (_what, line, columns, cut) => {
  expect(truncateToWidth(line, columns)).toBe(cut);
});

test.each([
  ['on one letter', `a${'\u0301'.repeat(4000)}`],
  ['on each letter', `a${'\u0301'.repeat(40)}`.repeat(9)],
  ['of two halves', `a${'\u{e0100}'.repeat(4000)}`],
])('endless combining marks are truncated: %s', (_what, line) => {
  const cut = truncateToWidth(line, 10);
  expect(cut.length).toBeLessThanOrEqual(81);
  expect(displayWidth(cut)).toBeLessThanOrEqual(10);
  expect(cut.isWellFormed()).toBe(true);
  expect(cut.endsWith('…')).toBe(true);
});
