import { array, assert, constantFrom, json, property, string } from 'fast-check';
import { expect, test } from 'vitest';
import { compactJson } from './compact.ts';

function compacted(text: string): string {
  const steps = compactJson(text);
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

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
])('compacts %s', (text, compact) => {
  expect(compacted(text)).toBe(compact);
});

test('compact JSON equals that of JSON.stringify, regardless of the whitespace', () => {
  const whitespace = array(constantFrom(' ', '\n', '\t', '\r'), { maxLength: 3 }).map((each) => each.join(''));
  assert(
    property(json(), whitespace, (text, blank) => {
      const spread = JSON.stringify(JSON.parse(text), undefined, 1).replaceAll(/\n */g, `\n${blank}`);
      expect(compacted(spread)).toBe(JSON.stringify(JSON.parse(text)));
    }),
  );
});

test('compacts JSON of any depth', () => {
  const deep = '[ '.repeat(200_000) + '] '.repeat(200_000);
  expect(compacted(deep)).toBe('['.repeat(200_000) + ']'.repeat(200_000));
});

test('writes each code unit as JSON.stringify does, however it was escaped', () => {
  const escaped = (text: string, isUpper: boolean): string =>
    text
      .split('')
      .map((unit) => {
        const digits = unit.charCodeAt(0).toString(16).padStart(4, '0');
        return `\\u${isUpper ? digits.toUpperCase() : digits}`;
      })
      .join('');
  const texts = string({
    unit: constantFrom('a', '"', '\\', '/', '\n', '\0', '\u007f', 'é', '世', '\ud83d', '\ude00', '\u2028'),
  });
  assert(
    property(array(texts), constantFrom(true, false), (list, isUpper) => {
      const text = `[${list.map((each) => `"${escaped(each, isUpper)}"`).join()}]`;
      expect(compacted(text)).toBe(JSON.stringify(list));
    }),
  );
});

test('yields every few milliseconds, also within a string', () => {
  for (const text of [`[${String.raw`"\u0061",`.repeat(400_000)}1]`, `["${String.raw`\u0061`.repeat(600_000)}"]`]) {
    const steps = [...compactJson(text)];
    expect(steps.length).toBeGreaterThanOrEqual(6);
  }
});
