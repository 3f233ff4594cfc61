import { expect, it } from 'vitest';
import { harmlessJson, harmlessLine, harmlessText } from './harmless.ts';

const HOSTILE = 'a\u001b[2Jb\u009b31mc\u202ed\u0007\u007f';

it('spells out in a line what would move the cursor, change colours or turn the writing around', () => {
  expect(harmlessLine(HOSTILE)).toBe('a\\u001b[2Jb\\u009b31mc\\u202ed\\u0007\\u007f');
  expect(harmlessLine('first\r\n\tsecond\u2028third')).toBe('first second\\u2028third');
  expect(harmlessLine('Zürich 東京 👩‍👩‍👧 "quoted"')).toBe('Zürich 東京 👩‍👩‍👧 "quoted"');
});

it('leaves line breaks and tabs in a text, but not what overwrites a line', () => {
  expect(harmlessText(`one\r\n\ttwo\rthree ${HOSTILE}`)).toBe(`one\n\ttwo\\u000dthree ${harmlessLine(HOSTILE)}`);
});

it('makes JSON harmless without changing what it means', () => {
  const value = { [HOSTILE]: [HOSTILE, 'line\nbreak'] };
  const json = harmlessJson(JSON.stringify(value));
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what must not be there
  expect(json).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202e]/);
  expect(JSON.parse(json)).toEqual(value);
});
