import { expect, test } from 'vitest';
import { toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { startApi } from './api.fixture.ts';

const PATH = '/api/v1/namespaces';
const TOOL = { name: 't', description: '', uri: 'http://u/mcp', toolType: 'custom', input_schema: {} };

test('default exists, and namespaces are listed in order of creation', async (context) => {
  const api = await startApi(context);
  await api.call('POST', PATH, { name: 'zeta' });
  await api.call('POST', PATH, { name: 'alpha', labels: { team: 'a' } });
  expect((await api.call('GET', PATH)).data).toEqual([
    { name: 'default', labels: {} },
    { name: 'zeta', labels: {} },
    { name: 'alpha', labels: { team: 'a' } },
  ]);
});

test('a new namespace is 201 with Location, an existing one 200 and unchanged', async (context) => {
  const api = await startApi(context);
  const made = await api.call('POST', PATH, { path: ' finance ', labels: { team: 'a' } });
  expect(made).toMatchObject({ status: 201, data: { name: 'finance', labels: { team: 'a' } } });
  expect(made.location).toBe('/api/v1/namespaces/finance');
  const again = await api.call('POST', PATH, { name: 'finance', labels: { team: 'b' } });
  expect(again).toMatchObject({ status: 200, data: { name: 'finance', labels: { team: 'a' } } });
  expect(again.location).toBe('');
  expect((await api.call('GET', '/api/v1/namespaces/finance')).data).toEqual({
    name: 'finance',
    labels: { team: 'a' },
  });
});

test.for([
  ['', '1 to 63 characters'],
  ['a'.repeat(64), '1 to 63 characters'],
  ['Finance', 'lowercase letters, digits and hyphens'],
  ['a_b', 'lowercase letters, digits and hyphens'],
  ['a b', 'lowercase letters, digits and hyphens'],
  ['ä', 'lowercase letters, digits and hyphens'],
  ['-a', 'start and end with a letter or digit'],
  ['a-', 'start and end with a letter or digit'],
] as const)('the name %j is 400 with the violated rule', async ([name, rule], context) => {
  const api = await startApi(context);
  for (const answer of [
    await api.call('POST', PATH, { name }),
    await api.call('PUT', `${PATH}/default`, { name }),
    await api.call('POST', '/api/v1/tools', { ...TOOL, namespace: name }),
    await api.call('POST', '/api/v1/forwards', { name: 'f', address: 'http://127.0.0.1:9/mcp', namespace: name }),
  ]) {
    expect(answer.status).toBe(400);
    expect(answer.error).toMatchObject({ code: 'BAD_REQUEST', message: expect.stringContaining(rule) });
  }
});

test('the longest and the shortest name are accepted', async (context) => {
  const api = await startApi(context);
  expect((await api.call('POST', PATH, { name: 'a'.repeat(63) })).status).toBe(201);
  expect((await api.call('POST', PATH, { name: '0' })).status).toBe(201);
});

test.for([
  ['tools', { ...TOOL, name: 'x' }],
  ['resources', { name: 'x', location: 'x:1', type: 'custom' }],
  ['prompts', { name: 'x' }],
  ['forwards', { name: 'x', address: 'http://127.0.0.1:9/mcp' }],
] as const)('a missing namespace is created by %s', async ([kind, body], context) => {
  const api = await startApi(context);
  const made = await api.call('POST', `/api/v1/${kind}`, { ...body, namespace: ' fresh ' });
  expect([made.status, made.data]).toMatchObject([201, { namespace: 'fresh' }]);
  if (kind !== 'forwards') {
    const moved = await api.call('PUT', `/api/v1/${kind}/x`, { ...body, namespace: 'moved' });
    expect([moved.status, moved.data]).toMatchObject([200, { namespace: 'moved' }]);
  }
  const there = ['default', 'fresh', ...(kind === 'forwards' ? [] : ['moved'])];
  expect((await api.call('GET', PATH)).data).toEqual(there.map((name) => ({ name, labels: {} })));
});

test('PUT replaces the labels and never renames', async (context) => {
  const api = await startApi(context);
  await api.call('POST', PATH, { name: 'ops', labels: { a: '1' } });
  expect((await api.call('PUT', `${PATH}/ops`, { name: 'other', labels: { b: '2' } })).data).toEqual({
    name: 'ops',
    labels: { b: '2' },
  });
  expect((await api.call('PUT', `${PATH}/ops`, {})).data).toEqual({ name: 'ops', labels: {} });
  expect((await api.call('GET', `${PATH}/other`)).status).toBe(404);
});

test('an unknown or invalid name in the path is 404', async (context) => {
  const api = await startApi(context);
  for (const name of ['missing', 'Not-Valid', '%20', 'a%2Fb']) {
    for (const method of ['GET', 'PUT', 'DELETE']) {
      const answer = await api.call(method, `${PATH}/${name}`, method === 'PUT' ? {} : undefined);
      expect(answer.error, `${method} ${name}`).toEqual({
        code: 'NOT_FOUND',
        message: `namespace not found: ${decodeURIComponent(name)}`,
      });
    }
  }
});

test('default cannot be deleted, not even with cascade', async (context) => {
  const api = await startApi(context);
  expect(await api.call('DELETE', `${PATH}/default`)).toMatchObject({ status: 409, error: { code: 'CONFLICT' } });
  expect((await api.call('DELETE', `${PATH}/default?cascade=true`)).status).toBe(409);
});

test('a namespace that is not empty is deleted with cascade only', async (context) => {
  const api = await startApi(context);
  const upstream = await startRawUpstream({ scripts: { 'tools/list': toolList(toolText('far'), toolText('near')) } });
  context.onTestFinished(upstream.close);
  await api.call('POST', '/api/v1/forwards', { name: 'up', address: upstream.url, namespace: 'ops' });
  await api.call('POST', '/api/v1/tools', { ...TOOL, namespace: 'ops' });
  await api.call('POST', '/api/v1/resources', { name: 'r', location: 'x:1', type: 'custom', namespace: 'ops' });
  // Moved entries still belong to the forward.
  await api.call('PUT', '/api/v1/tools/far', {
    description: 'd',
    uri: upstream.url,
    toolType: 'mcp-forward',
    input_schema: { type: 'object' },
    namespace: 'elsewhere',
  });
  const refused = await api.call('DELETE', `${PATH}/ops`);
  expect(refused.status).toBe(409);
  expect(refused.error).toMatchObject({ details: { tools: 2, resources: 1, prompts: 0, forwards: 1 } });
  expect((await api.call('DELETE', `${PATH}/ops?cascade=false`)).status).toBe(409);
  expect((await api.call('GET', '/api/v1/tools')).data).toHaveLength(3);

  expect((await api.call('DELETE', `${PATH}/ops?cascade=true`)).data).toEqual({ removed: 'ops' });
  for (const path of ['tools', 'resources', 'forwards']) {
    expect((await api.call('GET', `/api/v1/${path}`)).data).toEqual([]);
  }
  expect(api.forwards.upstreams.of('up')).toBeUndefined();
  expect((await api.call('GET', `${PATH}/ops`)).status).toBe(404);
});

test('an empty namespace is deleted', async (context) => {
  const api = await startApi(context);
  await api.call('POST', PATH, { name: 'ops' });
  expect((await api.call('DELETE', `${PATH}/ops`)).data).toEqual({ removed: 'ops' });
  expect((await api.call('DELETE', `${PATH}/ops`)).status).toBe(404);
});

test('a namespace named public causes one warning, however it is created', async (context) => {
  const api = await startApi(context);
  const warnings = (): number => api.log.filter((line) => line.includes('namespace public')).length;
  await api.call('POST', PATH, { name: 'publicity' });
  expect(warnings()).toBe(0);
  await api.call('POST', '/api/v1/tools', { ...TOOL, namespace: 'public' });
  await api.call('POST', PATH, { name: 'public' });
  expect(warnings()).toBe(1);
  await api.call('DELETE', `${PATH}/public?cascade=true`);
  await api.call('POST', PATH, { name: 'public' });
  expect(warnings()).toBe(2);
});
