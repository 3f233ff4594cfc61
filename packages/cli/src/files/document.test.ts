import { describe, expect, it } from 'vitest';
import { parseDocument } from './document.ts';

const asJson = async (text: string, source = 'file.yaml') => JSON.stringify(await parseDocument(text, source));

it('keeps the exact text of numbers, in JSON and in YAML', async () => {
  expect(await asJson('{"big":9223372036854775807,"one":1.0}')).toBe('{"big":9223372036854775807,"one":1.0}');
  expect(await asJson('big: 9223372036854775807\none: 1.0\nlist: [1e400, 7]')).toBe(
    '{"big":9223372036854775807,"one":1.0,"list":[1e400,7]}',
  );
  expect(await asJson('a: 0xFFFFFFFFFFFFFFFFF')).toBe('{"a":295147905179352825855}');
});

it('accepts YAML that begins like JSON, and a byte order mark', async () => {
  expect(await asJson('[a, b]')).toBe('["a","b"]');
  expect(await asJson('\ufeff{"a":1}')).toBe('{"a":1}');
  expect(await asJson('\ufeffa: 1')).toBe('{"a":1}');
});

it('resolves merge keys', async () => {
  expect(await asJson('base: &x { a: 1.0, b: 2 }\nc:\n  <<: *x\n  b: 3')).toBe(
    '{"base":{"a":1.0,"b":2},"c":{"a":1.0,"b":3}}',
  );
});

describe('values without a meaning in JSON are rejected in one line with the position', () => {
  it.each([
    ['a: .inf', 'tools.yaml:1:4: .inf is not a JSON number'],
    ['a: .nan', 'tools.yaml:1:4: .nan is not a JSON number'],
    ['1: a\n"1": b', 'tools.yaml:2:1: duplicate key 1'],
    ['a: !!foo 1', 'tools.yaml:1:4: Unresolved tag: tag:yaml.org,2002:foo'],
    ['? [1]\n: b', 'tools.yaml:1:3: keys must be strings'],
  ])('%j', async (text, message) => {
    await expect(parseDocument(text, 'tools.yaml')).rejects.toThrow(new RegExp(`^${RegExp.escape(message)}$`));
  });
});

it('an invalid file is reported in one line with its name', async () => {
  await expect(parseDocument('{"a":\n', 'tools.json')).rejects.toThrow(/^tools\.json: invalid JSON: .*$/);
  await expect(parseDocument('{"a": tru}', 'tools.json')).rejects.toThrow(/^tools\.json: invalid JSON: .*$/);
  await expect(parseDocument('a: [1\nb: 2', 'tools.yaml')).rejects.toThrow(/^tools\.yaml:2:1: .*$/);
  const deep = '['.repeat(100_000);
  await expect(parseDocument(deep, '-')).rejects.toThrow(/^-.*$/);
});
