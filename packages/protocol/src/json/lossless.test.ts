import { describe, expect, test } from 'vitest';
import { randomDocument, seeded } from './fixtures/documents.ts';
import { isJsonObject, parseJson, parseLossless } from './parse.ts';

describe('parsed and serialized again', () => {
  test.each([
    '9223372036854775807',
    '-9223372036854775808',
    '1.0',
    '1e400',
    '-0',
    '0.10',
    '1E5',
    '0',
    '-1.5',
    '[1.0,{"a":1.00}]',
    '{"__proto__":{"x":1.0},"constructor":2.0}',
    '{"rawJSON":"1.0"}',
    '"1.0"',
    '"é𝄞"',
    'null',
  ])('%s keeps its exact text', (text) => {
    expect(JSON.stringify(parseLossless(text))).toBe(text);
  });

  test('is the same text, for 2,000 generated documents without white space, escapes and duplicates', () => {
    for (let seed = 1; seed <= 2_000; seed++) {
      const text = randomDocument(seeded(seed));
      const once = JSON.stringify(parseLossless(text));
      expect(JSON.stringify(parseLossless(once))).toBe(once);
      // As text, because matchers do not look at a member called __proto__.
      expect(JSON.stringify(parseJson(once)), `seed ${seed}`).toBe(JSON.stringify(parseJson(text)));
      const numbers = (json: string): string[] =>
        json.replaceAll(/"(?:[^"\\]|\\.)*"/g, '').match(/-?\d[\d.eE+-]*/g) ?? [];
      // Some duplicates are lost; all others keep their text.
      expect(numbers(text)).toEqual(expect.arrayContaining(numbers(once)));
    }
  });
});

test('a number that a double carries exactly is a plain number', () => {
  expect(parseLossless('[1,2.5,-3]')).toEqual([1, 2.5, -3]);
});

test('a key __proto__ is a member like any other', () => {
  const value = parseLossless('{"__proto__":{"polluted":1}}');
  expect(Object.keys(isJsonObject(value) ? value : {})).toEqual(['__proto__']);
  expect(Reflect.get({}, 'polluted')).toBeUndefined();
});

test('invalid JSON, or JSON nested too deeply to be serialized, is a SyntaxError', () => {
  expect(() => parseLossless('{"a":}')).toThrow(SyntaxError);
  expect(() => parseLossless('"a')).toThrow(SyntaxError);
  expect(() => parseLossless('['.repeat(100_000) + ']'.repeat(100_000))).toThrow(SyntaxError);
});

test('only an object is an object', () => {
  expect(['{}', '[]', '1.0', '1', 'null', '"{}"'].map((text) => isJsonObject(parseLossless(text)))).toEqual([
    true,
    false,
    false,
    false,
    false,
    false,
  ]);
});

describe('with unique keys', () => {
  test.each(['{"a":1,"a":1}', '[{"b":{"a":1,"\\u0061":2}}]', '{"":1,"":2}', '{"__proto__":1,"__proto__":1}'])(
    '%s is rejected',
    (text) => {
      expect(() => parseLossless(text, { uniqueKeys: true })).toThrow(/^duplicate key "/);
      expect(parseLossless(text)).toBeDefined();
    },
  );

  test('the same key in different objects is accepted', () => {
    const text = '{"a":{"a":1.0},"b":[{"a":1},{"a":2}],"hasOwnProperty":1,"toString":2}';
    expect(JSON.stringify(parseLossless(text, { uniqueKeys: true }))).toBe(text);
  });
});
