import { forward as forwardOutput } from '@sluice/contract';
import { expect, test } from 'vitest';
import { toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { startApi } from './api.fixture.ts';

const PATH = '/api/v1/forwards';
const UNREACHABLE = 'http://127.0.0.1:9/mcp';
const TOOL = { description: '', uri: 'http://u/mcp', toolType: 'custom', input_schema: {} };

test('a new forward is 201 with Location, its counts and its server information', async (context) => {
  const api = await startApi(context);
  const upstream = await startRawUpstream({ scripts: { 'tools/list': toolList(toolText('a'), toolText('b')) } });
  context.onTestFinished(upstream.close);
  const added = await api.call('POST', PATH, {
    name: ' c/r m ',
    address: upstream.url,
    labels: { a: '1' },
    unknown: 1,
  });
  expect(added.status).toBe(201);
  expect(added.location).toBe('/api/v1/forwards/c%2Fr%20m');
  expect(added.data).toMatchObject({
    name: 'c/r m',
    address: upstream.url,
    namespace: 'default',
    labels: { a: '1' },
    available: true,
    tools_discovered: 2,
    resources_discovered: 0,
    prompts_discovered: 0,
  });
  expect(forwardOutput.parse(added.data).serverInfo?.capabilities).toContain('tools');
  for (const member of ['prefix', 'unknown', 'statusMessage']) expect(added.data).not.toHaveProperty(member);
  expect((await api.call('GET', added.location)).data).toEqual(added.data);
  expect((await api.call('GET', PATH)).data).toEqual([added.data]);
});

test('an upstream that is down is registered with 201 and the reason', async (context) => {
  const api = await startApi(context);
  const added = await api.call('POST', PATH, {
    name: 'unreachable',
    address: UNREACHABLE,
    namespace: 'ops',
    prefix: 'x.',
  });
  expect(added.status).toBe(201);
  expect(added.data).toMatchObject({ available: false, namespace: 'ops', prefix: 'x.', tools_discovered: 0 });
  expect(forwardOutput.parse(added.data).statusMessage).toContain('refused');
  expect((await api.call('GET', '/api/v1/namespaces/ops')).status).toBe(200);
});

test('a name in use is 409', async (context) => {
  const api = await startApi(context);
  await api.call('POST', PATH, { name: 'unreachable', address: UNREACHABLE });
  expect(await api.call('POST', PATH, { name: 'unreachable', address: UNREACHABLE })).toMatchObject({
    status: 409,
    error: { code: 'CONFLICT' },
  });
});

test.for([
  ['name', { name: undefined }],
  ['name', { name: '' }],
  ['name', { name: 'x'.repeat(257) }],
  ['address', { address: undefined }],
  ['address', { address: 'ftp://host/mcp' }],
  ['address', { address: 'host:80' }],
  ['address', { address: 'npx -y some-server' }],
  ['address', { address: 'http://' }],
  ['address', { address: 'http://user:secret@host/mcp' }],
  ['address', { address: 5 }],
  ['prefix', { prefix: 'a b' }],
  ['prefix', { prefix: '' }],
  ['prefix', { prefix: 'x'.repeat(33) }],
  ['labels.a', { labels: { a: true } }],
  ['namespace', { namespace: 5 }],
] as const)(
  'a missing member, or one of the wrong type, is 400 with its name: %s',
  async ([member, change], context) => {
    const api = await startApi(context);
    const answer = await api.call('POST', PATH, { name: 'f', address: UNREACHABLE, ...change });
    expect(answer).toMatchObject({ status: 400, error: { code: 'BAD_REQUEST', details: [{ path: member }] } });
    expect(answer.text).not.toContain('secret');
    expect((await api.call('GET', PATH)).data).toEqual([]);
  },
);

test('the list is in order of registration and can be filtered by namespace', async (context) => {
  const api = await startApi(context);
  for (const [name, namespace] of [
    ['b', 'ops'],
    ['a', 'default'],
    ['c', 'ops'],
  ]) {
    await api.call('POST', PATH, { name, namespace, address: UNREACHABLE });
  }
  expect((await api.call('GET', PATH)).data).toMatchObject([{ name: 'b' }, { name: 'a' }, { name: 'c' }]);
  expect((await api.call('GET', `${PATH}?namespace=ops`)).data).toMatchObject([{ name: 'b' }, { name: 'c' }]);
});

test('a refresh returns the current catalog of the upstream', async (context) => {
  const api = await startApi(context);
  const upstream = await startRawUpstream({ scripts: { 'tools/list': toolList(toolText('a')) } });
  context.onTestFinished(upstream.close);
  await api.call('POST', PATH, { name: 'up', address: upstream.url });
  upstream.scripts['tools/list'] = toolList(toolText('b'), toolText('c'));
  expect(await api.call('POST', `${PATH}/up/refreshes`)).toMatchObject({
    status: 200,
    data: { refreshed: 'up', tools_discovered: 2, resources_discovered: 0, prompts_discovered: 0 },
  });
  expect((await api.call('GET', '/api/v1/tools')).data).toMatchObject([{ name: 'b' }, { name: 'c' }]);
});

test('a refresh of an upstream that is down is 502, and the last catalog remains', async (context) => {
  const api = await startApi(context);
  const upstream = await startRawUpstream({ scripts: { 'tools/list': toolList(toolText('a')) } });
  context.onTestFinished(upstream.close);
  await api.call('POST', PATH, { name: 'up', address: upstream.url });
  await upstream.down();
  const refreshed = await api.call('POST', `${PATH}/up/refreshes`, 'a body is not looked at');
  expect(refreshed).toMatchObject({ status: 502, error: { code: 'BAD_GATEWAY' } });
  expect(refreshed.text).toContain(upstream.url);
  expect((await api.call('GET', `${PATH}/up`)).data).toMatchObject({ available: false, tools_discovered: 1 });
  expect((await api.call('GET', '/api/v1/tools/a')).status).toBe(200);
});

test('deleting a forward deletes its discovered entries only', async (context) => {
  const api = await startApi(context);
  const upstream = await startRawUpstream({ scripts: { 'tools/list': toolList(toolText('a')) } });
  context.onTestFinished(upstream.close);
  await api.call('POST', PATH, { name: 'up', address: upstream.url });
  await api.call('POST', '/api/v1/tools', { ...TOOL, name: 'own', uri: upstream.url });
  expect((await api.call('DELETE', `${PATH}/up`)).data).toEqual({ removed: 'up' });
  expect((await api.call('GET', '/api/v1/tools')).data).toMatchObject([{ name: 'own' }]);
});

test('an unknown name is 404', async (context) => {
  const api = await startApi(context);
  for (const [method, path] of [
    ['GET', `${PATH}/none`],
    ['DELETE', `${PATH}/none`],
    ['POST', `${PATH}/none/refreshes`],
  ] as const) {
    expect((await api.call(method, path)).error).toEqual({ code: 'NOT_FOUND', message: 'forward not found: none' });
  }
});

test('entries of a forward that are shadowed are reported, listed on request, and served once their key is free', async (context) => {
  const api = await startApi(context);
  const upstream = await startRawUpstream({ scripts: { 'tools/list': toolList(toolText('a'), toolText('b')) } });
  context.onTestFinished(upstream.close);
  await api.call('POST', '/api/v1/tools', { ...TOOL, name: 'a' });
  const added = await api.call('POST', PATH, { name: 'up', address: upstream.url });
  expect(added.data).toMatchObject({
    available: true,
    tools_discovered: 2,
    statusMessage: 'shadowed by entries registered earlier: tool a',
  });
  const names = (await api.call('GET', '/api/v1/tools')).data;
  expect(names).toMatchObject([{ name: 'a', toolType: 'custom' }, { name: 'b' }]);
  expect((await api.call('GET', '/api/v1/tools?include=shadowed')).data).toMatchObject([
    { name: 'a', toolType: 'custom' },
    { name: 'a', forward: 'up', shadowed: true },
    { name: 'b', forward: 'up' },
  ]);
  expect((await api.call('GET', '/api/v1/tools?include=shadowed')).text.match(/shadowed/g)).toHaveLength(1);
  await api.call('DELETE', '/api/v1/tools/a');
  expect((await api.call('GET', '/api/v1/tools/a')).data).toMatchObject({ forward: 'up' });
  expect((await api.call('GET', `${PATH}/up`)).data).not.toHaveProperty('statusMessage');
});
