import { array, constantFrom, json, property, assert as prove } from 'fast-check';
import { expect, test } from 'vitest';
import { compactJson } from './context.ts';

test.each([
  ['1.50', '1.50'],
  [' { "a" : [ 1.0 , 9223372036854775807,\n-0e+1 ] ,\t"b" : null } ', '{"a":[1.0,9223372036854775807,-0e+1],"b":null}'],
  ['{"a b":" c "}', '{"a b":" c "}'],
  ['{"\\u0072m":"\\u002drf \\/"}', '{"rm":"-rf /"}'],
  ['["\\/"]', '["/"]'],
  ['["\\u0041"]', '["A"]'],
  ['[1,\t2]', '[1,2]'],
  ['[1,\n2]', '[1,2]'],
  ['[1,\r2]', '[1,2]'],
  ['["\\"\\\\", "\\n"]', '["\\"\\\\","\\n"]'],
  ['["\\ud800"]', '["\\ud800"]'],
  ['{"a":1,"a":2, "__proto__":3}', '{"a":1,"a":2,"__proto__":3}'],
])('%s', (text, compact) => {
  expect(compactJson(text)).toBe(compact);
});

test('is what JSON.stringify makes of it, wherever blanks stand', () => {
  const blanks = array(constantFrom(' ', '\n', '\t', '\r'), { maxLength: 3 }).map((each) => each.join(''));
  prove(
    property(json(), blanks, (text, blank) => {
      const spread = JSON.stringify(JSON.parse(text), undefined, 1).replaceAll(/\n */g, `\n${blank}`);
      expect(compactJson(spread)).toBe(JSON.stringify(JSON.parse(text)));
    }),
  );
});

test('is made however deep it is', () => {
  const deep = '[ '.repeat(200_000) + '] '.repeat(200_000);
  expect(compactJson(deep)).toBe('['.repeat(200_000) + ']'.repeat(200_000));
});
