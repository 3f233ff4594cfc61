import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, type TestContext, test } from 'vitest';
import { LIST_END, toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { capabilityScripts } from '../../testing/capability-scripts.ts';
import { startTestService } from '../../testing/service.ts';
import { DEFAULT_NAMESPACE } from '../registry/entries.ts';
import { commit } from '../registry/fixtures/commit.ts';
import { copyTools } from '../registry/operations-topology.ts';
import { type Api, startApi } from './api.fixture.ts';

const TOOL = { description: '', uri: 'http://u/mcp', toolType: 'custom', input_schema: {} };

async function withForward(context: TestContext, prefix = '') {
  const api = await startApi(context);
  const upstream = await startRawUpstream({
    eras: ['modern'],
    scripts: {
      ...capabilityScripts('{"tools":{},"resources":{}}'),
      'tools/list': toolList(toolText('a'), toolText('b')),
      'resources/list': `{"resources":[{"uri":"x:1","name":"same"},{"uri":"x:2","name":"same"}],${LIST_END}`,
    },
  });
  context.onTestFinished(upstream.close);
  const body = { name: 'up', address: upstream.url, ...(prefix !== '' && { prefix }) };
  expect((await api.call('POST', '/api/v1/forwards', body)).status).toBe(201);
  const refresh = async () => {
    expect((await api.call('POST', '/api/v1/forwards/up/refreshes')).status).toBe(200);
  };
  return { api, upstream, refresh };
}

const states = async (api: Api, kind = 'tools') => {
  const { data } = await api.call('GET', `/api/v1/${kind}`);
  return Array.isArray(data) ? data.map(({ namespace, name, enabled }) => [namespace, name, enabled]) : data;
};

describe('enabled', () => {
  test('is true unless set, set by POST and PUT, and unchanged by a PUT without it', async (context) => {
    const api = await startApi(context);
    const made = await api.call('POST', '/api/v1/tools', { ...TOOL, name: 'a', enabled: false });
    expect(made.data).toMatchObject({ enabled: false });
    expect((await api.call('PUT', '/api/v1/tools/a', { ...TOOL, title: 'T' })).data).toMatchObject({
      enabled: false,
      title: 'T',
    });
    expect((await api.call('PUT', '/api/v1/tools/a', { ...TOOL, enabled: true })).data).toMatchObject({
      enabled: true,
    });
    expect((await api.call('PUT', '/api/v1/tools/a', { ...TOOL, enabled: 'no' })).status).toBe(400);
    // The key stays taken.
    await api.call('PUT', '/api/v1/tools/a', { ...TOOL, enabled: false });
    expect((await api.call('POST', '/api/v1/tools', { ...TOOL, name: 'a' })).status).toBe(409);
    expect(api.registry.current.namespace('default')?.indexes.tool.owner('a')?.rendered[0]?.json).not.toContain(
      'enabled',
    );
  });

  test('of an entry hides the shadowed entries of its key too', async (context) => {
    const { api, upstream, refresh } = await withForward(context);
    await api.call('POST', '/api/v1/forwards', { name: 'other', address: upstream.url });
    await api.call('POST', '/api/v1/tools/enabled', { enabled: false, names: ['a'] });
    await refresh();
    expect(api.registry.current.shadowed('other')).toHaveLength(4);
    expect(api.registry.current.namespace('default')?.indexes.tool.served('a')).toBeUndefined();
  });
});

describe('POST /api/v1/{kind}/enabled', () => {
  test('changes all selected entries or none', async (context) => {
    const { api } = await withForward(context);
    await api.call('POST', '/api/v1/tools', { ...TOOL, name: 'c', namespace: 'one' });
    await api.call('POST', '/api/v1/tools', { ...TOOL, name: 'c', namespace: 'two' });
    const select = (body: object) => api.call('POST', '/api/v1/tools/enabled', { enabled: false, ...body });
    expect(await select({ names: ['a', 'x', 'y'] })).toMatchObject({
      status: 404,
      error: { message: 'tools not found: x, y', details: { names: ['x', 'y'] } },
    });
    expect(await select({ names: ['a', 'c'] })).toMatchObject({
      status: 409,
      error: { code: 'CONFLICT', details: { names: ['c'] } },
    });
    expect(await states(api)).toEqual([
      ['default', 'a', true],
      ['default', 'b', true],
      ['one', 'c', true],
      ['two', 'c', true],
    ]);
    expect(await select({ names: ['c'], namespace: 'two' })).toMatchObject({
      status: 200,
      data: { enabled: false, count: 1 },
    });
    expect((await select({ names: ['a', 'b', 'a'] })).data).toEqual({ enabled: false, count: 2 });
    expect(await states(api)).toEqual([
      ['default', 'a', false],
      ['default', 'b', false],
      ['one', 'c', true],
      ['two', 'c', false],
    ]);
  });

  test('selects resources by uri, or by a name that is not shared', async (context) => {
    const { api } = await withForward(context);
    const select = (body: object) => api.call('POST', '/api/v1/resources/enabled', { enabled: false, ...body });
    expect((await select({ names: ['same'] })).status).toBe(409);
    expect((await select({ uris: ['x:2'] })).data).toEqual({ enabled: false, count: 1 });
    expect(await states(api, 'resources')).toEqual([
      ['default', 'same', true],
      ['default', 'same', false],
    ]);
  });

  test.for([
    [{}, 'names'],
    [{ names: [] }, 'names'],
    [{ names: Array.from({ length: 10_001 }, (_, n) => `n${n}`) }, 'names'],
    [{ names: ['a'], forward: 'up', namespace: 'default' }, 'namespace'],
  ] as const)('rejects a body without a valid selection (%#)', async ([body, path], context) => {
    const { api } = await withForward(context);
    expect(await api.call('POST', '/api/v1/tools/enabled', { enabled: false, ...body })).toMatchObject({
      status: 400,
      error: { details: [{ path }] },
    });
  });

  test('with a forward selects upstream names, also of entries that are renamed or not discovered yet', async (context) => {
    const { api, upstream, refresh } = await withForward(context, 'p.');
    await api.call('PUT', '/api/v1/tools/p.a', {
      ...TOOL,
      uri: upstream.url,
      toolType: 'mcp-forward',
      name: 'renamed',
      namespace: 'ops',
    });
    const body = { enabled: false, forward: 'up', names: ['a', 'later'] };
    expect((await api.call('POST', '/api/v1/tools/enabled', body)).data).toEqual({
      enabled: false,
      count: 2,
      pending: ['later'],
    });
    expect((await api.call('POST', '/api/v1/tools/enabled', { ...body, forward: 'none' })).status).toBe(404);
    upstream.scripts['tools/list'] = toolList(toolText('a'), toolText('b'), toolText('later'));
    await refresh();
    expect(await states(api)).toEqual([
      ['ops', 'renamed', false],
      ['default', 'p.b', true],
      ['default', 'p.later', false],
    ]);
  });
});

describe('a disabled entry stays disabled', () => {
  test('when its upstream stops listing it, when it is deleted, and when it is listed again', async (context) => {
    const { api, upstream, refresh } = await withForward(context);
    await api.call('POST', '/api/v1/tools/enabled', { enabled: false, names: ['a'] });
    upstream.scripts['tools/list'] = toolList(toolText('b'));
    await refresh();
    expect(await states(api)).toEqual([['default', 'b', true]]);
    upstream.scripts['tools/list'] = toolList(toolText('a'), toolText('b'));
    await refresh();
    expect(await states(api)).toContainEqual(['default', 'a', false]);
    const deleted = await api.call('DELETE', '/api/v1/tools/a');
    expect(deleted).toMatchObject({ status: 200, data: { removed: 'a' } });
    expect(JSON.parse(deleted.text).warnings).toEqual([
      { code: 'RETURNS_WITH_DISCOVERY', message: expect.stringContaining('enabled') },
    ]);
    await refresh();
    expect(await states(api)).toContainEqual(['default', 'a', false]);
    // A manual entry does not return.
    await api.call('POST', '/api/v1/tools', { ...TOOL, name: 'mine' });
    expect(JSON.parse((await api.call('DELETE', '/api/v1/tools/mine')).text)).not.toHaveProperty('warnings');
  });

  test('with the copies that actions made of it, which are enabled with it', async (context) => {
    const { api } = await withForward(context);
    const { registry } = api;
    await api.call('POST', '/api/v1/namespaces', { name: 'team' });
    const team = [...registry.current.namespaces.keys()].find((name) => name === 'team') ?? fail();
    const copies = () =>
      commit(registry, (draft) => {
        const tool = draft.get('tool', DEFAULT_NAMESPACE, 'a') ?? fail();
        return copyTools(draft, [{ tool, targetNamespace: team }]);
      });
    expect(await copies()).toEqual(['copied']);
    await api.call('POST', '/api/v1/tools/enabled', { enabled: false, names: ['a'], namespace: 'default' });
    expect(await states(api)).toEqual([
      ['default', 'a', false],
      ['default', 'b', true],
      ['team', 'a', false],
    ]);
    const enableCopy = { enabled: true, names: ['a'], namespace: 'team' };
    expect((await api.call('POST', '/api/v1/tools/enabled', enableCopy)).status).toBe(409);
    await api.call('DELETE', '/api/v1/tools/a?namespace=team');
    expect(await copies()).toEqual(['gone']);
    await api.call('POST', '/api/v1/tools/enabled', { enabled: true, names: ['a'] });
    expect(await copies()).toEqual(['copied']);
    await api.call('POST', '/api/v1/tools/enabled', { enabled: false, forward: 'up', names: ['a'] });
    await api.call('POST', '/api/v1/tools/enabled', { enabled: true, names: ['a'], namespace: 'default' });
    expect(await states(api)).toContainEqual(['team', 'a', true]);
  });

  test('after a restart, also while its upstream is down', async (context) => {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-enabled-'));
    context.onTestFinished(() => rm(folder, { recursive: true }));
    const upstream = await startRawUpstream({ scripts: { 'tools/list': toolList(toolText('a'), toolText('b')) } });
    context.onTestFinished(upstream.close);
    const start = () => startTestService({ SERVICE_PERSIST_BACKEND: 'file', SERVICE_PERSIST_PATH: folder });
    const first = await start();
    await first.register('forwards', { name: 'up', address: upstream.url });
    await first.register('tools', { ...TOOL, name: 'mine' });
    await first.manage('POST', '/tools/enabled', { enabled: false, names: ['a', 'mine'] });
    await first.manage('POST', '/tools/enabled', { enabled: false, forward: 'up', names: ['later'] });
    await first.stop();
    await upstream.down();
    const second = await start();
    const { data } = await second.manage('GET', '/tools');
    expect(data).toMatchObject([
      { name: 'a', enabled: false },
      { name: 'b', enabled: true },
      { name: 'mine', enabled: false },
    ]);
    upstream.scripts['tools/list'] = toolList(toolText('a'), toolText('later'));
    await upstream.up();
    await second.manage('POST', '/forwards/up/refreshes');
    expect((await second.manage('GET', '/tools')).data).toMatchObject([
      { name: 'a', enabled: false },
      { name: 'later', enabled: false },
      { name: 'mine', enabled: false },
    ]);
    await second.stop();
  });
});

function fail(): never {
  throw new Error('missing');
}
