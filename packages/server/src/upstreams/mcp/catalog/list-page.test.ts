import { TimeSlicer } from '@sluice/protocol/time-slicer';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CATALOG_LIMITS, CatalogSize } from './catalog-size.ts';
import { CatalogTexts } from './catalog-texts.ts';
import { ListItems, type ListSpec } from './list-items.ts';
import { ListPage } from './list-page.ts';

const LIST: ListSpec = { into: 'tools', capability: 'tools', method: 'tools/list', member: 'tools', key: 'name' };
const INPUT = '"inputSchema":{"type":"object"}';
const tool = (name: string, more = '') => `{"name":"${name}",${INPUT}${more}}`;

/** Reads a message in these parts as a page. */
async function read(parts: readonly Buffer[]) {
  const page = new ListPage({
    address: 'http://up.test/',
    list: LIST,
    items: new ListItems(LIST, 'modern', new CatalogTexts('http://up.test/', CATALOG_LIMITS)),
    size: new CatalogSize('http://up.test/', CATALOG_LIMITS),
  });
  await new TimeSlicer().run(page.read(parts));
  const { result, items } = page;
  return { result, items, keys: items?.map(({ key }) => key) };
}

const whole = (body: string) => read([Buffer.from(body)]);
const answer = (result: string, more = '') => `{"jsonrpc":"2.0","id":7,"result":${result}${more}}`;

describe('a page of a list', () => {
  it('is the same wherever its parts end', async () => {
    const json = answer(
      `{"x":[{"tools":[1]}],"tools":[ ${tool('a')} ,${tool('é', ',"d":"\\"}],[{\\\\"')}, 7,null,"s",[1] ],"nextCursor":"n\\u0065xt","ttlMs":5,"cacheScope":"public"}`,
    );
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(600), { maxLength: 6 }), async (cuts) => {
        const body = Buffer.from(json);
        const ends = [...cuts.filter((cut) => cut < body.length), body.length].sort((a, b) => a - b);
        const { result, items } = await read(ends.map((end, index) => body.subarray(ends[index - 1] ?? 0, end)));
        expect(result).toEqual({ nextCursor: 'next', ttlMs: 5, cacheScope: 'public' });
        expect(items?.map(({ key, json: text }) => [key, text])).toEqual([
          ['a', tool('a')],
          ['é', tool('é', ',"d":"\\"}],[{\\\\"')],
          ...['7', 'null', '"s"', '[1]'].map((text) => [undefined, text]),
        ]);
      }),
      { numRuns: 100 },
    );
  });

  it('counts the last of duplicate members', async () => {
    expect((await whole(answer(`{"tools":[${tool('a')}],"tools":[${tool('b')}]}`))).keys).toEqual(['b']);
    const results = `{"jsonrpc":"2.0","id":1,"result":{"tools":[${tool('a')}]},"result":{"tools":[]},"id":7}`;
    expect((await whole(results)).keys).toEqual([]);
    expect((await whole(answer(`{"tools":[${tool('a')}],"tools":{}}`))).keys).toBeUndefined();
  });

  it('rejects a cursor that is too long', async () => {
    const cursor = 'x'.repeat(70_000);
    await expect(whole(answer(`{"tools":[],"nextCursor":"${cursor}"}`))).rejects.toThrow('cursor of more than 64 KiB');
  });

  it.each([
    ['x'.repeat(8 * 1024 * 1024), 'an entry', 'larger than 8388608 bytes'],
    [`","many":[${'{},'.repeat(30_001)}0],"y":"`, 'big', 'more than 30000 values'],
    [`","many":${'['.repeat(30_001)}${']'.repeat(30_001)},"y":"`, 'big', 'more than 30000 values'],
  ])('leaves out entries that are too large', async (text, key, problem) => {
    const large = tool('big', `,"x":"${text}"`);
    const { items } = await whole(answer(`{"tools":[${tool('a')},${large},${tool('b')}]}`));
    expect(items?.map((item) => [item.key, item.problem])).toEqual([
      ['a', undefined],
      [key, problem],
      ['b', undefined],
    ]);
  });

  it('accepts large entries of few values', async () => {
    const large = tool('big', `,"icons":[{"src":"data:,${'[{,'.repeat(300_000)}"}]`);
    const { items } = await whole(answer(`{"tools":[${large}]}`));
    expect(items).toEqual([{ key: 'big', json: large, problem: undefined }]);
  });
});
