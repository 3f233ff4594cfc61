import { prompt as promptOutput } from '@sluice/contract';
import { expect, test } from 'vitest';
import { LIST_END } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { type Api, startApi } from './api.fixture.ts';

const PATH = '/api/v1/prompts';

function served(api: Api, key: string): string | undefined {
  return api.registry.current.namespace('default')?.indexes.prompt.served(key)?.rendered[0]?.json;
}

test('a new prompt is 201 with Location and defaults', async (context) => {
  const api = await startApi(context);
  const made = await api.call('POST', PATH, { name: 'greet' });
  expect(made.status).toBe(201);
  expect(made.location).toBe('/api/v1/prompts/greet?namespace=default');
  expect(made.data).toEqual({
    name: 'greet',
    description: '',
    arguments: [],
    messages: [],
    namespace: 'default',
    labels: {},
    enabled: true,
  });
  expect(promptOutput.safeParse(made.data).success).toBe(true);
  expect((await api.call('POST', PATH, { name: 'greet' })).status).toBe(409);
});

test('arguments, messages and other members are stored; messages are not in MCP lists', async (context) => {
  const api = await startApi(context);
  const body = {
    name: 'greet',
    description: 'd',
    arguments: [{ name: 'who', description: 'whom', required: true, title: 'Who' }],
    messages: [
      { role: 'system', content: 'Be kind' },
      { role: 'user', content: { type: 'text', text: 'Hi {who}' } },
    ],
    title: 'Greet',
  };
  expect((await api.call('POST', PATH, body)).data).toEqual({
    ...body,
    namespace: 'default',
    labels: {},
    enabled: true,
  });
  const { messages: _, ...listed } = body;
  expect(JSON.parse(served(api, 'greet') ?? '')).toEqual(listed);
});

test.for([
  ['name', {}],
  ['arguments.0.name', { name: 'p', arguments: [{}] }],
  ['arguments.0.required', { name: 'p', arguments: [{ name: 'a', required: 'yes' }] }],
  ['arguments', { name: 'p', arguments: {} }],
  ['messages.0.role', { name: 'p', messages: [{ role: 'tool', content: '' }] }],
  ['messages.0.content', { name: 'p', messages: [{ role: 'user', content: 5 }] }],
  ['messages.0.content', { name: 'p', messages: [{ role: 'user' }] }],
  ['description', { name: 'p', description: null }],
] as const)('a missing member, or one of the wrong type, is 400 with its name: %s', async ([member, body], context) => {
  const api = await startApi(context);
  const answer = await api.call('POST', PATH, body);
  expect(answer).toMatchObject({ status: 400, error: { code: 'BAD_REQUEST', details: [{ path: member }] } });
});

test('PUT replaces, renames and moves; DELETE removes', async (context) => {
  const api = await startApi(context);
  await api.call('POST', PATH, { name: 'a', description: 'd', messages: [{ role: 'user', content: 'x' }] });
  const put = await api.call('PUT', `${PATH}/a`, { name: 'b', namespace: 'ops' });
  expect(put.data).toMatchObject({ name: 'b', namespace: 'ops', description: '', messages: [] });
  expect((await api.call('PUT', `${PATH}/a`, {})).error).toEqual({ code: 'NOT_FOUND', message: 'prompt not found: a' });
  expect((await api.call('DELETE', `${PATH}/b`)).data).toEqual({ removed: 'b' });
  expect((await api.call('GET', PATH)).data).toEqual([]);
});

test('a discovered prompt is served unchanged, can be overridden, and has no messages', async (context) => {
  const RAW = '{"name":"plan","arguments":[{"name":"goal","title":"Goal"}],"_meta":{"n":1.0}}';
  const api = await startApi(context);
  const upstream = await startRawUpstream({ scripts: { 'prompts/list': `{"prompts":[${RAW}],${LIST_END}` } });
  context.onTestFinished(upstream.close);
  await api.call('POST', '/api/v1/forwards', { name: 'up', address: upstream.url });
  const shown = (await api.call('GET', `${PATH}/plan`)).data;
  expect(shown).toMatchObject({ description: '', messages: [], configurationURI: upstream.url, forward: 'up' });
  expect((await api.call('PUT', `${PATH}/plan`, { ...Object(shown) })).status).toBe(200);
  expect(served(api, 'plan')).toBe(RAW);
  await api.call('PUT', `${PATH}/plan`, { arguments: [], _meta: { n: 1 } });
  expect(served(api, 'plan')).toBe('{"name":"plan","arguments":[],"_meta":{"n":1.0}}');
  for (const change of [{ messages: [{ role: 'user', content: 'x' }] }, { configurationURI: 'http://elsewhere/mcp' }]) {
    expect((await api.call('PUT', `${PATH}/plan`, { ...Object(shown), ...change })).status).toBe(409);
  }
});
