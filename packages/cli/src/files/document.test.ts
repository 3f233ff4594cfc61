import { expect, it } from 'vitest';
import { parseDocument } from './document.ts';

const asJson = async (text: string, source = 'file.yaml') => JSON.stringify(await parseDocument(text, source));

it('keeps the spelling of numbers, in JSON and in YAML', async () => {
  expect(await asJson('{"big":9223372036854775807,"one":1.0}')).toBe('{"big":9223372036854775807,"one":1.0}');
  expect(await asJson('big: 9223372036854775807\none: 1.0\nlist: [1e400, 7]')).toBe(
    '{"big":9223372036854775807,"one":1.0,"list":[1e400,7]}',
  );
});

it('reads YAML that begins like JSON, and a byte order mark', async () => {
  expect(await asJson('[a, b]')).toBe('["a","b"]');
  expect(await asJson('\ufeff{"a":1}')).toBe('{"a":1}');
});

it('says what is wrong with a file, in one line that names it', async () => {
  await expect(parseDocument('{"a":', 'tools.json')).rejects.toThrow(/^tools\.json: is neither JSON nor YAML: /);
  await expect(parseDocument('a: [1\nb: 2', 'tools.yaml')).rejects.toThrow(/^tools\.yaml: .*line 2, column 1$/);
});
