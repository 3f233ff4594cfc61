import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, type TestContext, test } from 'vitest';
import { toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { startTestService } from '../../testing/service.ts';
import { type Api, startApi } from './api.fixture.ts';

const PATH = '/api/v1/forwards/up';

async function startUpstream(context: TestContext, ...names: string[]) {
  const upstream = await startRawUpstream({
    eras: ['modern'],
    scripts: { 'tools/list': toolList(...names.map((name) => toolText(name))) },
  });
  context.onTestFinished(upstream.close);
  return upstream;
}

async function withForward(context: TestContext, ...names: string[]) {
  const api = await startApi(context);
  const upstream = await startUpstream(context, ...names);
  await api.call('POST', '/api/v1/forwards', { name: 'up', address: upstream.url, labels: { a: '1', b: '2' } });
  return { api, upstream };
}

async function tools(api: Api): Promise<unknown> {
  const { data } = await api.call('GET', '/api/v1/tools?include=shadowed');
  return Array.isArray(data) ? data.map(({ namespace, name }) => `${namespace}/${name}`) : data;
}

async function override(api: Api, name: string, change: object): Promise<void> {
  const { data } = await api.call('GET', `/api/v1/tools/${name}`);
  expect((await api.call('PUT', `/api/v1/tools/${name}`, { ...Object(data), ...change })).status).toBe(200);
}

describe('PATCH of a forward', () => {
  test('is a merge patch: missing members stay, null removes or resets', async (context) => {
    const { api, upstream } = await withForward(context, 'x');
    const change = async (body: object) => (await api.call('PATCH', PATH, body)).data;
    expect(await change({ labels: { a: null, c: '3' }, prefix: 'p.' })).toMatchObject({
      address: upstream.url,
      namespace: 'default',
      labels: { b: '2', c: '3' },
      prefix: 'p.',
      available: true,
      tools_discovered: 1,
    });
    expect(await change({ namespace: 'ops', labels: null })).toMatchObject({
      namespace: 'ops',
      labels: {},
      prefix: 'p.',
    });
    const reset = await change({ namespace: null, prefix: null });
    expect(reset).toMatchObject({ namespace: 'default' });
    expect(reset).not.toHaveProperty('prefix');
    expect((await api.call('PATCH', '/api/v1/forwards/none', {})).status).toBe(404);
  });

  test.for([
    [{ name: 'other' }, 'name'],
    [{ adress: 'http://a/' }, 'adress'],
    [{ address: null }, 'address'],
    [{ address: 'ftp://a/' }, 'address'],
    [{ prefix: 'a b' }, 'prefix'],
    [{ labels: { a: 1 } }, 'labels.a'],
  ] as const)('rejects %j as a whole', async ([body, path], context) => {
    const { api } = await withForward(context, 'x');
    expect(await api.call('PATCH', PATH, { namespace: 'ops', ...body })).toMatchObject({
      status: 400,
      error: { details: [{ path }] },
    });
    expect((await api.call('GET', PATH)).data).toMatchObject({ namespace: 'default' });
  });

  test('moves and renames its entries, except those that an operator moved or renamed', async (context) => {
    const { api } = await withForward(context, 'a', 'moved', 'renamed');
    await override(api, 'moved', { namespace: 'vault', title: 'Ours' });
    await override(api, 'renamed', { name: 'mine' });
    await api.call('PATCH', PATH, { namespace: 'ops', prefix: 'p.' });
    expect(await tools(api)).toEqual(['ops/p.a', 'vault/p.moved', 'ops/mine']);
    await api.call('POST', `${PATH}/refreshes`);
    expect(await tools(api)).toEqual(['ops/p.a', 'vault/p.moved', 'ops/mine']);
    expect((await api.call('GET', '/api/v1/tools/p.moved')).data).toMatchObject({ title: 'Ours' });
  });

  test('is followed again by entries that are where it arrives', async (context) => {
    const { api } = await withForward(context, 'moved', 'renamed');
    await override(api, 'moved', { namespace: 'vault' });
    await override(api, 'renamed', { name: 'p.renamed' });
    await api.call('PATCH', PATH, { namespace: 'vault', prefix: 'p.' });
    expect(await tools(api)).toEqual(['vault/p.moved', 'vault/p.renamed']);
    await api.call('PATCH', PATH, { namespace: null, prefix: null });
    expect(await tools(api)).toEqual(['default/moved', 'default/renamed']);
    await api.call('POST', `${PATH}/refreshes`);
    expect(await tools(api)).toEqual(['default/moved', 'default/renamed']);
  });

  test('is rejected with the names that are in use, and changes nothing', async (context) => {
    const { api } = await withForward(context, 'a', 'b');
    const mine = { name: 'p.a', description: '', uri: 'u', toolType: 't', input_schema: {} };
    await api.call('POST', '/api/v1/tools', mine);
    expect(await api.call('PATCH', PATH, { prefix: 'p.', labels: null })).toMatchObject({
      status: 409,
      error: { code: 'CONFLICT', details: { names: ['p.a'] } },
    });
    expect(await tools(api)).toEqual(['default/a', 'default/b', 'default/p.a']);
    expect((await api.call('GET', PATH)).data).toMatchObject({ labels: { a: '1', b: '2' } });
  });

  test('honors If-Match with the ETag of GET and PATCH', async (context) => {
    const { api } = await withForward(context, 'a');
    const { headers } = await api.call('GET', PATH);
    const tag = String(headers.etag);
    const change = (match: string, body: object) => api.call('PATCH', PATH, body, { 'if-match': match });
    const changed = await change(tag, { labels: { a: '2' } });
    expect(changed.status).toBe(200);
    expect(changed.headers.etag).not.toBe(tag);
    expect((await change(tag, { labels: { a: '3' } })).status).toBe(409);
    expect((await change(`W/${changed.headers.etag}`, {})).status).toBe(409);
    expect((await change('nonsense', {})).status).toBe(400);
    expect((await change(`"x", ${changed.headers.etag}`, {})).status).toBe(200);
    expect((await change('*', {})).status).toBe(200);
    await api.call('POST', `${PATH}/refreshes`);
    expect((await api.call('GET', PATH)).headers.etag).toBe(changed.headers.etag);
  });

  test('of the address serves the last catalog until the new upstream is discovered', async (context) => {
    const { api } = await withForward(context, 'a', 'hidden');
    await api.call('POST', '/api/v1/tools/enabled', { enabled: false, names: ['hidden'] });
    const dead = 'http://127.0.0.1:9/mcp';
    expect((await api.call('PATCH', PATH, { address: dead })).data).toMatchObject({
      address: dead,
      available: false,
      tools_discovered: 2,
    });
    expect(await tools(api)).toEqual(['default/a', 'default/hidden']);
    const other = await startUpstream(context, 'a', 'hidden', 'more');
    expect((await api.call('PATCH', PATH, { address: other.url })).data).toMatchObject({
      available: true,
      tools_discovered: 3,
    });
    const { data } = await api.call('GET', '/api/v1/tools');
    expect(data).toMatchObject([
      { name: 'a', enabled: true, uri: other.url },
      { name: 'hidden', enabled: false },
      { name: 'more', enabled: true },
    ]);
  });

  test('of the address discards a discovery of the old one in progress', async (context) => {
    const { api, upstream } = await withForward(context, 'a');
    const { promise: arrived, resolve: arrive } = Promise.withResolvers<void>();
    const { promise: held, resolve: release } = Promise.withResolvers<string>();
    upstream.scripts['tools/list'] = () => {
      arrive();
      return held;
    };
    const refreshing = api.call('POST', `${PATH}/refreshes`);
    await arrived;
    const other = await startUpstream(context, 'b');
    await api.call('PATCH', PATH, { address: other.url });
    release(toolList(toolText('stale')));
    await refreshing;
    expect(await tools(api)).toEqual(['default/b']);
  });

  test('lasts over a restart', async (context) => {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-patch-'));
    context.onTestFinished(() => rm(folder, { recursive: true }));
    const upstream = await startUpstream(context, 'a', 'moved');
    const start = () => startTestService({ SERVICE_PERSIST_BACKEND: 'file', SERVICE_PERSIST_PATH: folder });
    const first = await start();
    await first.register('forwards', { name: 'up', address: upstream.url });
    const moved = {
      description: 'd',
      uri: upstream.url,
      toolType: 'mcp-forward',
      input_schema: {},
      namespace: 'vault',
    };
    await first.manage('PUT', '/tools/moved', moved);
    await first.manage('PATCH', '/forwards/up', { namespace: 'vault', prefix: 'p.' });
    await first.stop();
    await upstream.down();
    const second = await start();
    const names = async () =>
      Object((await second.manage('GET', '/tools')).data).map((tool: { namespace: string; name: string }) => [
        tool.namespace,
        tool.name,
      ]);
    expect(await names()).toEqual([
      ['vault', 'p.a'],
      ['vault', 'p.moved'],
    ]);
    await second.manage('PATCH', '/forwards/up', { namespace: 'default' });
    expect(await names()).toEqual([
      ['default', 'p.a'],
      ['default', 'p.moved'],
    ]);
    await second.stop();
  });
});
