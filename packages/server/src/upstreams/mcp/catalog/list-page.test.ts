import { Turns } from '@sluice/protocol/turns';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CATALOG_LIMITS, CatalogSize } from './catalog-size.ts';
import { CatalogTexts } from './catalog-texts.ts';
import { ListItems, type ListSpec } from './list-items.ts';
import { ListPage } from './list-page.ts';

const LIST: ListSpec = { into: 'tools', capability: 'tools', method: 'tools/list', member: 'tools', key: 'name' };
const INPUT = '"inputSchema":{"type":"object"}';
const tool = (name: string, more = '') => `{"name":"${name}",${INPUT}${more}}`;

/** Reads a body that arrives in these chunks as the response to request 7. */
async function read(chunks: readonly Buffer[], isStream = false) {
  const parts = {
    address: 'http://up.test/',
    list: LIST,
    items: new ListItems(LIST, 'modern', new CatalogTexts('http://up.test/', CATALOG_LIMITS)),
    size: new CatalogSize('http://up.test/', CATALOG_LIMITS),
    turns: new Turns(),
  };
  const page = new ListPage(parts, 7, isStream);
  for (const chunk of chunks) if (await page.write(chunk)) break;
  return { page, outcome: page.outcome, keys: page.items?.map(({ key }) => key), items: page.items };
}

const whole = (body: string, isStream = false) => read([Buffer.from(body)], isStream);
const answer = (result: string, more = '') => `{"jsonrpc":"2.0","id":7,"result":${result}${more}}`;

describe('a page of a list', () => {
  it('is the same wherever its chunks end, as JSON and as an event', async () => {
    const json = answer(
      `{"x":[{"tools":[1]}],"tools":[ ${tool('a')} ,${tool('é', ',"d":"\\"}],[{\\\\"')}, 7,null,"s",[1] ],"nextCursor":"n\\u0065xt","ttlMs":5,"cacheScope":"public"}`,
    );
    const event = `: hi\r\nid: 1\ndata:\n\nevent: message\ndata: ${json.replaceAll(' ', '\ndata: ')}\n\n`;
    await fc.assert(
      fc.asyncProperty(fc.boolean(), fc.array(fc.nat(600), { maxLength: 6 }), async (isStream, cuts) => {
        const body = Buffer.from(isStream ? event : json);
        const ends = [...cuts.filter((cut) => cut < body.length), body.length].sort((a, b) => a - b);
        const { outcome, items } = await read(
          ends.map((end, index) => body.subarray(ends[index - 1] ?? 0, end)),
          isStream,
        );
        expect(outcome).toEqual({ kind: 'result', result: { nextCursor: 'next', ttlMs: 5, cacheScope: 'public' } });
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

  it('is the response with the id of the request, not another message of the stream', async () => {
    const stream = [
      '{"jsonrpc":"2.0","method":"notifications/x","params":{"result":{"tools":[]}}}',
      `{"jsonrpc":"2.0","id":7,"method":"ping","result":{"tools":[${tool('x')}]}}`,
      `{"jsonrpc":"2.0","id":8,"result":{"tools":[${tool('other')}]}}`,
      `[{"jsonrpc":"2.0","method":"m"},5,${answer(`{"tools":[${tool('a')}]}`)}]`,
      answer(`{"tools":[${tool('late')}]}`),
    ];
    expect((await whole(stream.map((data) => `data: ${data}\n\n`).join(''), true)).keys).toEqual(['a']);
  });

  it('can be an error, also one without an id', async () => {
    const error = '"error":{"code":-32601,"message":"none","data":[1]}';
    const outcome = { kind: 'error', code: -32601, message: 'none', data: [1] };
    expect((await whole(`{"id":7,${error}}`)).outcome).toEqual(outcome);
    expect((await whole(`{"id":null,${error}}`)).outcome).toEqual(outcome);
    expect((await whole(`data: {"id":null,${error}}\n\n`, true)).outcome).toEqual(outcome);
    expect((await whole(`{"id":8,${error}}`)).outcome).toBeUndefined();
  });

  it.each(['', ' \n', '{', `${answer('{"tools":[]}')} x`, answer('{"tools":[]}').slice(0, -1)])(
    'is no response if it is not JSON: %j',
    async (body) => {
      const { page, outcome } = await whole(body);
      expect([outcome, page.isJson]).toEqual([undefined, false]);
    },
  );

  it('skips events that are not JSON, wherever they end', async () => {
    const others = ['[DONE]', '{"a"', '2026-01-01', `{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"x"`];
    const events = [...others, answer(`{"tools":[${tool('a')}]}`)].map((data) => `data: ${data}\n\n`);
    expect((await whole(events.join(''), true)).keys).toEqual(['a']);
  });

  it('has the response in an array', async () => {
    expect((await whole(`[{"jsonrpc":"2.0","method":"m"},${answer(`{"tools":[${tool('a')}]}`)}]`)).keys).toEqual(['a']);
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
