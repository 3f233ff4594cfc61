import { beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { LIST_END, toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { type SharedApi, startApi, startSharedApi } from './api.fixture.ts';

const listed = z.object({
  data: z.array(z.object({ name: z.string() })),
  error: z.null(),
  page: z.object({ next: z.string().optional(), total: z.number() }).optional(),
});

/** Names of a page, with its position. */
async function read(api: SharedApi, path: string, query: Record<string, string> = {}) {
  const answer = await api.call('GET', `/api/v1/${path}?${new URLSearchParams(query)}`);
  expect(answer.status, answer.text).toBe(200);
  const { data, page } = listed.parse(JSON.parse(answer.text));
  return { names: data.map(({ name }) => name), page };
}

/** Names of all pages of a size; `between` runs after each page. */
async function readAll(api: SharedApi, path: string, limit: number, between: (page: number) => Promise<unknown>) {
  const names: string[] = [];
  let cursor: string | undefined;
  for (let at = 0; ; at++) {
    const part = await read(api, path, { limit: String(limit), ...(cursor !== undefined && { cursor }) });
    names.push(...part.names);
    cursor = part.page?.next;
    if (cursor === undefined) return names;
    await between(at);
  }
}

/** Lists of an upstream with these names. */
const lists = (names: readonly string[]) => ({
  'tools/list': toolList(...names.map((name) => toolText(name))),
  'resources/list': `{"resources":[${names.map((name) => `{"uri":"x:${name}","name":"${name}","description":"About ${name}"}`)}],${LIST_END}`,
  'prompts/list': `{"prompts":[${names.map((name) => `{"name":"${name}","description":"About ${name}"}`)}],${LIST_END}`,
});

const NAMES = ['alpha', 'Beta', 'gamma', 'delta', 'epsilon'];
const PATHS = ['tools', 'resources', 'prompts', 'forwards'];

let upstream: RawUpstream;
let api: SharedApi;
beforeAll(async () => {
  upstream = await startRawUpstream({ scripts: lists(NAMES) });
  api = await startSharedApi();
  for (const name of NAMES) await api.call('POST', '/api/v1/namespaces', { name: name.toLowerCase() });
  for (const name of ['Beta', 'alpha', 'gamma', 'delta', 'epsilon']) {
    const namespace = name.toLowerCase();
    await api.call('POST', '/api/v1/forwards', { name, namespace, address: upstream.url });
  }
  return async () => {
    await api.close();
    await upstream.close();
  };
});

describe.each(PATHS)('GET /api/v1/%s', (path) => {
  const inOne: Record<string, string> = path === 'forwards' ? {} : { namespace: 'alpha' };

  test('has pages that make up the list without them', async () => {
    const { names: all, page } = await read(api, path, inOne);
    expect(page).toBeUndefined();
    const first = await read(api, path, { ...inOne, limit: '2' });
    expect(first.page).toEqual({ next: expect.any(String), total: 5 });
    const second = await read(api, path, { ...inOne, limit: '2', cursor: first.page?.next ?? '' });
    const third = await read(api, path, { ...inOne, limit: '2', cursor: second.page?.next ?? '' });
    expect(third.page).toEqual({ total: 5 });
    expect([...first.names, ...second.names, ...third.names]).toEqual(all);
    expect((await read(api, path, { ...inOne, cursor: first.page?.next ?? '' })).names).toEqual(all.slice(2));
    expect((await read(api, path, { ...inOne, limit: '5' })).page).toEqual({ total: 5 });
  });

  test('searches names and descriptions in any case', async () => {
    expect(await read(api, path, { ...inOne, q: 'BET' })).toEqual({ names: ['Beta'], page: { total: 1 } });
    expect((await read(api, path, { ...inOne, q: 'ta' })).names.toSorted()).toEqual(['Beta', 'delta']);
    const about = ['resources', 'prompts'].includes(path) ? 5 : 0;
    expect((await read(api, path, { ...inOne, q: 'aBOUT' })).page?.total).toBe(about);
    expect((await read(api, path, { ...inOne, q: 'no such text' })).page).toEqual({ total: 0 });
    const first = await read(api, path, { ...inOne, q: 'LTA', limit: '1' });
    expect(first).toEqual({ names: ['delta'], page: { total: 1 } });
  });

  test.each(['0', '1001', '2.5', '', 'x'])('rejects limit=%s', async (limit) => {
    const answer = await api.call('GET', `/api/v1/${path}?limit=${limit}`);
    expect(answer).toMatchObject({ status: 400, error: { code: 'BAD_REQUEST' } });
  });

  test.each(['x', '', 'WzFd', 'bnVsbA', '{}'])('rejects cursor=%s', async (cursor) => {
    const answer = await api.call('GET', `/api/v1/${path}?cursor=${cursor}`);
    const message = `invalid cursor ${JSON.stringify(cursor)}: expected the value of page.next`;
    expect(answer).toMatchObject({ status: 400, error: { code: 'BAD_REQUEST', message } });
  });
});

test('pages neither repeat nor skip entries while others are added and removed', async (context) => {
  const own = await startApi(context);
  const shared: SharedApi = { ...own, close: async () => undefined };
  const changing = await startRawUpstream({ scripts: lists(['a', 'b', 'c', 'd', 'e', 'f']) });
  context.onTestFinished(changing.close);
  await own.call('POST', '/api/v1/forwards', { name: 'up', address: changing.url });
  const relist = async (...names: string[]) => {
    Object.assign(changing.scripts, lists(names));
    expect((await own.call('POST', '/api/v1/forwards/up/refreshes')).status).toBe(200);
  };
  for (const path of ['tools', 'resources', 'prompts']) {
    await relist('a', 'b', 'c', 'd', 'e', 'f');
    const names = await readAll(shared, path, 2, async (page) => {
      // Entries before the cursor are removed and added, and the cursor's own is removed.
      if (page === 0) await relist('new', 'newer', 'b', 'c', 'd', 'e', 'f');
      else await relist('newer', 'b', 'c', 'x', 'e', 'f');
    });
    expect(names, path).toEqual(['a', 'b', 'c', 'd', 'x', 'e', 'f']);
  }
});

test('a long list is searched and divided like a short one', async (context) => {
  const own = await startApi(context);
  const shared: SharedApi = { ...own, close: async () => undefined };
  const names = Array.from({ length: 2_500 }, (_, at) => `t${at}`);
  const large = await startRawUpstream({ scripts: lists(names) });
  context.onTestFinished(large.close);
  await own.call('POST', '/api/v1/forwards', { name: 'up', address: large.url });
  expect(await readAll(shared, 'tools', 1_000, async () => undefined)).toEqual(names);
  expect((await read(shared, 'tools', { q: 't249', limit: '5' })).page).toEqual({
    next: expect.any(String),
    total: 11,
  });
});
