import { writeFile } from 'node:fs/promises';
import { beforeAll, beforeEach, describe, expect, it, test } from 'vitest';
import { taskClient } from '../packages/server/testing/task-client.ts';
import {
  type EvaluatedService,
  errorOf,
  evaluator,
  resultOf,
  startEvaluatedService,
} from './fixtures/evaluated/evaluated-service.ts';
import { LEGACY, legacyClient, MODERN, modernClient, post, type RawClient } from './fixtures/raw-client.ts';
import { LIST_END, textResultText, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';
import { startTasksUpstream } from './fixtures/tasks-upstream.ts';

// Which requests are evaluated, and when.

let evaluated: EvaluatedService;
let upstream: RawUpstream;
beforeAll(async () => {
  [evaluated, upstream] = await Promise.all([
    startEvaluatedService(),
    startRawUpstream({
      scripts: {
        'tools/list': toolList(toolText('a'), toolText('b')),
        'tools/call': textResultText('done'),
        'resources/list': `{"resources":[{"uri":"file:///notes","name":"notes"}],${LIST_END}`,
        'prompts/list': `{"prompts":[{"name":"greeting"}],${LIST_END}`,
      },
    }),
  ]);
  await evaluated.service.register('forwards', { name: 'crm', address: upstream.url, namespace: 'crm' });
  return async () => {
    await evaluated.close();
    await upstream.close();
  };
}, 120_000);

let requested: number;
beforeEach(() => {
  requested = evaluated.llm.requests.length;
});
/** Number of LLM calls in this test. */
const questions = () => evaluated.llm.requests.length - requested;

const BLOCKED = { code: -32001, message: 'no', data: { evaluator: 'gate', kind: 'block' } };
const gate = (method: string, namespace?: string) =>
  evaluator('gate', { method, llmOutput: 'block:no', ...(namespace !== undefined && { namespace }) });

const METHODS: readonly (readonly [method: string, params: string])[] = [
  ['tools/call', '{"name":"a","arguments":{}}'],
  ['tools/list', '{}'],
  ['resources/read', '{"uri":"file:///notes"}'],
  ['resources/list', '{}'],
  ['resources/templates/list', '{}'],
  ['prompts/get', '{"name":"greeting"}'],
  ['prompts/list', '{}'],
  ['completion/complete', '{"ref":{"type":"ref/prompt","name":"greeting"},"argument":{"name":"x","value":""}}'],
  ['vendor/unknown', '{"any":1}'],
  ['toString', '{}'],
];

describe.each(['legacy', 'modern'] as const)('requests of a %s client', (era) => {
  let client: RawClient;
  beforeAll(async () => {
    const url = evaluated.service.url('crm');
    client = era === 'legacy' ? await legacyClient(url) : modernClient(url);
  });

  const more =
    era === 'modern' ? ([['server/discover', '{}']] as const) : ([['logging/setLevel', '{"level":"info"}']] as const);
  it.each([...METHODS, ...more])('are evaluated if the method is that of the trigger: %s', async (method, params) => {
    await evaluated.apply(gate(method));
    const before = upstream.seen.length;
    const response = await client.call(method, params);
    expect([response.status, errorOf(response)]).toEqual([200, BLOCKED]);
    expect(questions()).toBe(1);
    // Nothing was forwarded.
    expect(upstream.seen.slice(before).map((each) => each.method)).not.toContain(method);
  });

  it('have the same response after a pass as without evaluators', async () => {
    await evaluated.apply(evaluator('gate'));
    const { text } = await client.call('tools/call', '{"name":"a","arguments":{}}');
    expect([questions(), text]).toEqual([1, expect.stringContaining('done')]);
  });

  it('pass without an LLM call if the method or the namespace differs', async () => {
    const others = [gate('tools/list', 'crm'), gate('tools/call', 'default'), gate('tools/Call'), gate('tools/*')];
    await evaluated.apply(...others.map((each, index) => ({ ...each, name: `gate-${index}` })));
    const { text } = await client.call('tools/call', '{"name":"a","arguments":{}}');
    expect([questions(), text]).toEqual([0, expect.stringContaining('done')]);
  });

  it('are evaluated if the namespace is that of the trigger', async () => {
    await evaluated.apply(gate('tools/call', 'crm'));
    expect(errorOf(await client.call('tools/call', '{"name":"a","arguments":{}}'))).toEqual(BLOCKED);
  });

  it('are evaluated if they lack the name', async () => {
    await evaluated.apply(gate('tools/call'));
    if (era === 'legacy') expect(errorOf(await client.call('tools/call', '{}'))).toEqual(BLOCKED);
  });

  it('are never evaluated if the method is ping', async () => {
    await evaluated.apply(gate('ping'), { ...gate('initialize'), name: 'other' });
    const response = await client.call('ping');
    expect(errorOf(response)).not.toEqual(BLOCKED);
    if (era === 'legacy') expect(resultOf(response)).toEqual({});
    expect(questions()).toBe(0);
  });
});

test('initialize, notifications and responses are never evaluated', async () => {
  const methods = ['initialize', 'notifications/initialized', 'notifications/cancelled', 'ping', 'tools/call'];
  await evaluated.apply(...methods.map((method, index) => ({ ...gate(method), name: `gate-${index}` })));
  const url = evaluated.service.url('crm');
  const client = await legacyClient(url);
  const without = async (message: string) => (await post(url, message, client.headers)).status;
  expect(await without('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}')).toBe(202);
  // Without an id it is a notification, whatever its method.
  expect(await without('{"jsonrpc":"2.0","method":"tools/call","params":{"name":"a"}}')).toBe(202);
  await post(url, '{"jsonrpc":"2.0","id":77,"result":{}}', client.headers);
  expect(questions()).toBe(0);
});

test('an unknown namespace is rejected before the evaluation', async () => {
  await evaluated.apply(gate('tools/list'), { ...gate('tools/list', 'nowhere'), name: 'of nowhere' });
  for (const namespace of ['nowhere', 'Not_Valid']) {
    const response = await modernClient(evaluated.service.url(namespace)).call('tools/list');
    expect([response.status, errorOf(response)]).toEqual([
      404,
      { code: -32600, message: `namespace not found: ${namespace}` },
    ]);
  }
  expect(questions()).toBe(0);
});

test('an invalid request, or one that contradicts its headers, is rejected before the evaluation', async () => {
  await evaluated.apply(gate('tools/call'), { ...gate('tools/list'), name: 'lists' });
  const url = evaluated.service.url('crm');
  expect((await post(url, '{"jsonrpc":"2.0","id":1,"method":"tools/call"')).status).toBe(400);
  const headers = { 'mcp-method': 'tools/list' };
  expect((await modernClient(url).call('tools/call', '{"name":"a"}', headers)).status).toBe(400);
  expect(questions()).toBe(0);
});

test('requests about tasks are evaluated as others are', async () => {
  const tasks = await startTasksUpstream();
  await evaluated.service.register('forwards', { name: 'jobs', address: tasks.url, namespace: 'jobs' });
  await evaluated.apply();
  const client = taskClient(evaluated.service.url('jobs'));
  const taskId = await client.create('confirm_delete');
  for (const method of ['tasks/get', 'tasks/update', 'tasks/cancel']) {
    await evaluated.apply(gate(method, 'jobs'));
    const params = { taskId, inputResponses: { confirm: { action: 'accept', content: {} } } };
    expect((await client.request(method, params)).error).toMatchObject(BLOCKED);
    expect(tasks.count(method)).toBe(0);
  }
  expect(questions()).toBe(3);
  await evaluated.apply();
  expect((await client.request('tasks/cancel', { taskId })).error).toBeUndefined();
  await tasks.close();
});

test('each message of a batch is evaluated by itself', async () => {
  await evaluated.apply(evaluator('gate', { action: 'ordinary', llmOutput: 'argument' }));
  const url = evaluated.service.url('crm');
  const client = { protocolVersion: '2025-03-26', capabilities: {}, clientInfo: { name: 'c', version: '1' } };
  const opened = await post(url, JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'initialize', params: client }));
  const headers = { 'mcp-session-id': String(opened.headers['mcp-session-id']) };
  await post(url, '{"jsonrpc":"2.0","method":"notifications/initialized"}', headers);
  const call = (id: number, x: string) => ({
    jsonrpc: '2.0',
    id,
    method: 'tools/call',
    params: { name: 'a', arguments: { x } },
  });
  const batch = [call(1, 'one'), { jsonrpc: '2.0', id: 2, method: 'ping' }, call(3, 'three')];
  const { text } = await post(url, JSON.stringify(batch), headers);
  expect(questions()).toBe(2);
  for (const message of ['one', 'three']) expect(text).toContain(`"message":"${message}"`);
  expect(text).toMatch(/"id":2,"result":\{\}|"result":\{\},"id":2/);
});

test('no evaluator runs in a chain without service_evaluator', async () => {
  const yaml = `
listeners: [{ name: mcp, address: '127.0.0.1:0', filter_chains: [c] }]
filter_chains:
  - name: c
    filters:
      - filter: mcp
      - filter: service_namespace
      - filter: service_methods
`;
  const file = `${evaluated.folder}/pipeline.yaml`;
  await writeFile(file, yaml);
  const unnamed = { SERVICE_INFERENCE_LISTEN: '', SERVICE_INFERENCE_UPSTREAM: '' };
  const own = await startEvaluatedService(unnamed, ['--pipeline-config', file]);
  try {
    await own.apply(gate('tools/list'));
    const response = await modernClient(own.service.url()).call('tools/list');
    expect(resultOf(response)).toMatchObject({ tools: [] });
    expect([own.llm.requests.length, (await own.metrics()).pipeline.trigger_matches]).toEqual([0, 0]);
  } finally {
    await own.close();
  }
});

test.each([
  ['legacy', LEGACY],
  ['modern', MODERN],
])('the id of a rejected request has the notation of the %s client', async (era, version) => {
  await evaluated.apply(gate('vendor/unknown'));
  const url = evaluated.service.url('crm');
  const client = era === 'legacy' ? await legacyClient(url) : modernClient(url);
  const meta =
    era === 'legacy'
      ? '{}'
      : `{"_meta":{"io.modelcontextprotocol/protocolVersion":"${version}","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"r","version":"1"}}}`;
  const body = `{"jsonrpc":"2.0","id":"\\u0061 1","method":"vendor/unknown","params":${meta}}`;
  const { status, text } = await post(url, body, { ...client.headers, 'mcp-method': 'vendor/unknown' });
  expect([status, text]).toEqual([200, expect.stringContaining('"id":"\\u0061 1"')]);
  expect(text).toContain('-32001');
});
