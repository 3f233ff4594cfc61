import { expect, it } from 'vitest';
import { sanitizeJson, sanitizeLine, sanitizeText } from './harmless.ts';

const HOSTILE = 'a\u001b[2Jb\u009b31mc\u202ed\u0007\u007f';

it('spells out in a line what would move the cursor, change colours or turn the writing around', () => {
  expect(sanitizeLine(HOSTILE)).toBe('a\\u001b[2Jb\\u009b31mc\\u202ed\\u0007\\u007f');
  expect(sanitizeLine('first\r\n\tsecond\u2028third')).toBe('first second\\u2028third');
  expect(sanitizeLine('Zürich 東京 👩‍👩‍👧 "quoted"')).toBe('Zürich 東京 👩‍👩‍👧 "quoted"');
});

it('spells out what cannot be seen, but lets emoji be joined', () => {
  const unseen = [
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
  for (const character of unseen) {
    const spelled = character.split('').map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
    expect(sanitizeLine(`pay${character}pal`)).toBe(`pay${spelled.join('')}pal`);
    expect(JSON.parse(sanitizeJson(JSON.stringify(character)))).toBe(character);
    expect(sanitizeJson(JSON.stringify(character))).not.toContain(character);
  }
  for (const emoji of ['👩‍👩‍👧', '❤️‍🔥', '🧑🏽‍🚀', '☺️']) expect(sanitizeText(emoji)).toBe(emoji);
  expect(sanitizeLine('👩\u200dx')).toBe('👩\\u200dx');
});

it('leaves line breaks and tabs in a text, but not what overwrites a line', () => {
  expect(sanitizeText(`one\r\n\ttwo\rthree ${HOSTILE}`)).toBe(`one\n\ttwo\\u000dthree ${sanitizeLine(HOSTILE)}`);
});

it('makes JSON harmless without changing what it means', () => {
  const value = { [HOSTILE]: [HOSTILE, 'line\nbreak'] };
  const json = sanitizeJson(JSON.stringify(value));
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what must not be there
  expect(json).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202e]/);
  expect(JSON.parse(json)).toEqual(value);
});
