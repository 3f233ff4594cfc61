import { beforeAll, describe, expect, it } from 'vitest';
import { coreTaskClient } from '../packages/server/testing/core-task-client.ts';
import { sessionClient } from '../packages/server/testing/session-client.ts';
import { taskClient } from '../packages/server/testing/task-client.ts';
import {
  type EvaluatedService,
  errorOf,
  evaluator,
  ownTool,
  startEvaluatedService,
} from './fixtures/evaluated/evaluated-service.ts';
import { legacyClient, modernClient, type RawClient } from './fixtures/raw-client.ts';
import { LIST_END, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from './fixtures/raw-upstream.ts';
import { startTasksUpstream } from './fixtures/tasks-upstream.ts';

// Requests for names that nothing is served under are answered without an evaluation.

const NAMESPACE = 'crm';
let evaluated: EvaluatedService;
beforeAll(async () => {
  const [service, upstream, second] = await Promise.all([
    startEvaluatedService(),
    startRawUpstream({
      eras: ['legacy'],
      scripts: {
        'tools/list': toolList(toolText('on'), toolText('off'), toolText('hidden')),
        'prompts/list': `{"prompts":[{"name":"on"},{"name":"off"}],${LIST_END}`,
        'resources/list': `{"resources":[{"uri":"file:///on","name":"on"},{"uri":"file:///off","name":"off"}],${LIST_END}`,
        initialize: INITIALIZED,
      },
    }),
    // With one upstream alone, that would be asked for every resource.
    startRawUpstream({
      scripts: { 'resources/list': `{"resources":[{"uri":"file:///second","name":"second"}],${LIST_END}` },
    }),
  ]);
  evaluated = service;
  const expose = { tools: { deny: ['hidden'] } };
  await evaluated.service.register('forwards', { name: 'crm', address: upstream.url, namespace: NAMESPACE, expose });
  await evaluated.service.register('forwards', { name: 'second', address: second.url, namespace: NAMESPACE });
  await evaluated.service.register('namespaces', { name: 'other' });
  for (const name of ['elsewhere', 'off']) await evaluated.service.register('tools', ownTool(name, 'other'));
  for (const [collection, selection] of [
    ['tools', { names: ['off'] }],
    ['prompts', { names: ['off'] }],
    ['resources', { uris: ['file:///off'] }],
  ] as const) {
    const body = { enabled: false, namespace: NAMESPACE, ...selection };
    expect(await evaluated.service.manage('POST', `/${collection}/enabled`, body)).toMatchObject({ status: 200 });
  }
  return async () => {
    await evaluated.close();
    await Promise.all([upstream.close(), second.close()]);
  };
}, 120_000);

const INITIALIZED =
  '{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{},"resources":{"subscribe":true},"completions":{}},"serverInfo":{"name":"u","version":"1"}}';

const ARGUMENT = '"argument":{"name":"x","value":""}';
/** Requests for what does not exist: method, name, parameters. */
const MISSING = (['no', 'off', 'hidden'] as const).flatMap((name) => [
  ['tools/call', name, `{"name":"${name}","arguments":{}}`] as const,
  ['prompts/get', name, `{"name":"${name}"}`] as const,
  ...(name === 'hidden'
    ? []
    : [
        ['resources/read', name, `{"uri":"${uriOf(name)}"}`] as const,
        ['resources/subscribe', name, `{"uri":"${uriOf(name)}"}`] as const,
        ['completion/complete', name, `{"ref":{"type":"ref/prompt","name":"${name}"},${ARGUMENT}}`] as const,
        [
          'completion/complete',
          uriOf(name),
          `{"ref":{"type":"ref/resource","uri":"${uriOf(name)}"},${ARGUMENT}}`,
        ] as const,
      ]),
]);

function uriOf(name: string): string {
  return `file:///${name}`;
}

const gate = (method: string) => evaluator('gate', { method, llmOutput: 'block:no' });

describe.each(['legacy', 'modern'] as const)('a request of a %s client', (era) => {
  let client: RawClient;
  beforeAll(async () => {
    const url = evaluated.service.url(NAMESPACE);
    client = era === 'legacy' ? await legacyClient(url) : modernClient(url);
  });

  const missing = MISSING.filter(([method]) => era === 'legacy' || method !== 'resources/subscribe');
  it.each(missing)(
    '%s for %s is answered as without evaluators, and without an LLM call',
    async (method, _, params) => {
      await evaluated.apply();
      const without = await client.call(method, params);
      await evaluated.apply(gate(method));
      const before = evaluated.llm.requests.length;
      const response = await client.call(method, params);
      const withoutId = ({ text }: { readonly text: string }) => text.replace(/"id":\d+/, '');
      expect([response.status, withoutId(response)]).toEqual([without.status, withoutId(without)]);
      expect(evaluated.llm.requests).toHaveLength(before);
      expect(errorOf(response)).not.toMatchObject({ code: -32001 });
    },
  );

  it.each([
    ['tools/call', '{"name":"on"}'],
    ['tools/call', '{"name":"elsewhere"}'],
    ['prompts/get', '{"name":"on"}'],
    ['resources/read', '{"uri":"file:///on"}'],
    ...(era === 'legacy' ? [['resources/subscribe', '{"uri":"file:///on"}']] : []),
  ])('%s is evaluated if there is such a name, or a tool that an action may copy: %s', async (method, params) => {
    await evaluated.apply(gate(String(method)));
    expect(errorOf(await client.call(String(method), params))).toMatchObject({ code: -32001 });
  });
});

describe('a request about a task', () => {
  let url: string;
  beforeAll(async () => {
    const upstream = await startTasksUpstream();
    await evaluated.service.register('forwards', { name: 'tasks', address: upstream.url, namespace: 'tasks' });
    url = evaluated.service.url('tasks');
    return () => upstream.close();
  });

  const clients = {
    modern: () => taskClient(url),
    legacy: () => coreTaskClient(url),
  } as const;
  const METHODS = {
    modern: ['tasks/get', 'tasks/update', 'tasks/cancel'],
    legacy: ['tasks/get', 'tasks/result', 'tasks/cancel'],
  } as const;
  const requests = (['modern', 'legacy'] as const).flatMap((era) =>
    METHODS[era].map((method) => [era, method] as const),
  );

  it.each(requests)('of a %s client, %s, is evaluated only if there is the task', async (era, method) => {
    await evaluated.apply();
    const client = await clients[era]();
    const params = (taskId: string) => ({ taskId, inputResponses: {} });
    const taskId = await client.create('endless');
    const without = await client.request(method, params('A'.repeat(22)));
    expect(without.error).toEqual({ code: -32602, message: 'task not found' });
    // On a busy machine the action may not end in time.
    await evaluated.apply({ ...gate(method), on_error: 'block' });
    const before = evaluated.llm.requests.length;
    expect((await client.request(method, params('A'.repeat(22)))).error).toEqual(without.error);
    expect(evaluated.llm.requests).toHaveLength(before);
    expect((await client.request(method, params(taskId))).error).toBeDefined();
    expect(evaluated.llm.requests).toHaveLength(before + 1);
  });
});

it('the messages of a batch are answered alike, each by itself', async () => {
  await evaluated.apply(gate('tools/call'));
  const url = evaluated.service.url(NAMESPACE);
  const client = await sessionClient(url, { version: '2025-03-26' });
  const before = evaluated.llm.requests.length;
  const call = (id: number, name: string) =>
    `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"${name}"}}`;
  const { text } = await client.post(`[${call(1, 'no')},${call(2, 'on')},${call(3, 'off')}]`);
  expect(text).toContain('"id":1,"error":{"code":-32602,"message":"tool not found: no"}');
  expect(text).toContain('"id":2,"error":{"code":-32001');
  expect(text).toContain('"id":3,"error":{"code":-32602,"message":"tool not found: off"}');
  expect(evaluated.llm.requests).toHaveLength(before + 1);
});
