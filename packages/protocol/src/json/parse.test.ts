import { describe, expect, test } from 'vitest';
import { randomDocument, seeded } from './fixtures/documents.ts';
import { parseJson, parseLossless } from './parse.ts';

describe.each([
  ['parseJson', parseJson],
  ['parseLossless', parseLossless],
])('%s', (_name, parse) => {
  test.each([
    ['{"jsonrpc":"2.0","na\\\\u":1}', '{"jsonrpc":"2.0","na\\u006de":"x"}', ['jsonrpc', 'name']],
    ['{"a":1,"\\\\":2}', '{"a":1,"\\"":2}', ['a', '"']],
    ['{"b":1,"x\\\\":2}', '{"b":1,"x\\n":2}', ['b', 'x\n']],
    ['{"c":[{"k":1,"\\\\":2}]}', '[{"k":1,"\\t":2}]', ['k', '\t']],
  ])('after %s, the keys of %s are its own', (before, text, keys) => {
    parse(before);
    const value = [parse(text)].flat()[0];
    expect(Object.keys(Object(value))).toEqual(keys);
  });

  test('parses 2,000 generated documents correctly', () => {
    for (let seed = 5_000; seed < 7_000; seed++) {
      const text = randomDocument(seeded(seed));
      const value = parse(text);
      const again = JSON.stringify(value);
      expect(JSON.stringify(parse(again)), `seed ${seed}: ${text}`).toBe(again);
      // Keys in order, with the duplicates that an object can have.
      expect(again.match(/"(?:[^"\\]|\\.)*"(?=:)/g) ?? [], `seed ${seed}: ${text}`).toEqual(keysOf(value));
    }
  });

  test('invalid JSON is a SyntaxError, and so are escaped keys nested too deeply', () => {
    expect(() => parse('{"a\\n":}')).toThrow(SyntaxError);
    expect(() => parse(`{"a\\n":${'['.repeat(100_000)}${']'.repeat(100_000)}}`)).toThrow(SyntaxError);
  });
});

test('a text without escaped keys equals that of JSON.parse, with escapes in values', () => {
  const text = '{"a":"\\"x\\": \\\\","b":["\\n",{"c":1.0}],"d":"é"}';
  expect(parseJson(text)).toEqual({ a: '"x": \\', b: ['\n', { c: 1 }], d: 'é' });
});

test('a text with escaped keys has all its values', () => {
  const text = ' {"a\\n" : [ 1.50 , -0,true,false ,null, {} ,[ ] ] , "b":{"\\u0063":"\\u0064","__proto__":1}} ';
  const value = parseJson(text);
  expect(JSON.stringify(value)).toBe('{"a\\n":[1.5,0,true,false,null,{},[]],"b":{"c":"d","__proto__":1}}');
  expect(JSON.stringify(parseLossless(text))).toBe(
    '{"a\\n":[1.50,-0,true,false,null,{},[]],"b":{"c":"d","__proto__":1}}',
  );
});

function keysOf(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(keysOf);
  if (typeof value !== 'object' || value === null) return [];
  if (JSON.isRawJSON(value)) return [];
  return Object.entries(value).flatMap(([key, member]) => [JSON.stringify(key), ...keysOf(member)]);
}
