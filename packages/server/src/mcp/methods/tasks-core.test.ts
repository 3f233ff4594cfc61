import { describe, expect, it } from 'vitest';
import { type CoreTasksUpstream, startCoreTasksUpstream } from '../../../../../test/fixtures/core-tasks-upstream.ts';
import { type CoreTaskClient, coreTaskClient } from '../../../testing/core-task-client.ts';
import { startLiveUpstream } from '../../../testing/live-upstream.ts';
import { lastCall, relayTests } from '../../../testing/relay.ts';
import { startStreamingService } from '../../../testing/service.ts';
import { sessionClient } from '../../../testing/session-client.ts';

const tests = relayTests(startStreamingService);

/** Two forwards with core tasks in one namespace: the tools of the second have a prefix. */
async function twoUpstreams(): Promise<{ url: string; first: CoreTasksUpstream; second: CoreTasksUpstream }> {
  const [first, second] = [await startCoreTasksUpstream(), await startCoreTasksUpstream()];
  for (const { close } of [first, second]) tests.onEnd(close);
  const url = await tests.register(first.url);
  const namespace = new URL(url).pathname.split('/')[1];
  await tests.service.register('forwards', { name: `${namespace}-2`, address: second.url, namespace, prefix: '2.' });
  return { url, first, second };
}

const RELATED = 'io.modelcontextprotocol/related-task';
const NOT_FOUND = { code: -32602, message: 'task not found' };
const OUR_ID = /^[\da-f]{32}$/;

describe('a core task', () => {
  it('has an id of ours, and is polled in the session and at the upstream that it belongs to', async () => {
    const { url, first, second } = await twoUpstreams();
    const { request, create } = await coreTaskClient(url);
    const { result } = await request('tools/call', { name: '2.endless', arguments: {}, task: { ttl: 60_000 } });
    const { taskId } = result.task;
    expect(taskId).toMatch(OUR_ID);
    expect(result.task).toMatchObject({ status: 'working', ttl: 60_000, pollInterval: 20 });
    const other = await create('endless');
    const [id = ''] = second.tasks;

    const state = await request('tasks/get', { taskId });
    expect(state.result).toMatchObject({ taskId, status: 'working' });
    await second.finish(id, 'done');
    expect((await request('tasks/get', { taskId })).result).toMatchObject({ taskId, status: 'completed' });
    const { result: end } = await request('tasks/result', { taskId });
    expect(end).toMatchObject({ content: [{ type: 'text', text: 'done' }], _meta: { [RELATED]: { taskId } } });
    expect((await request('tasks/get', { taskId: other })).result.status).toBe('working');
    expect([first.tasks.length, second.tasks.length]).toEqual([1, 1]);
    expect(JSON.stringify([result, state, end])).not.toContain(id);
  });

  it('has a result that waits for its end', async () => {
    const { url, first } = await twoUpstreams();
    const { send, request, create } = await coreTaskClient(url);
    const taskId = await create('endless');
    const waiting = send('tasks/result', { taskId });
    await waiting.head;
    await first.finish(first.tasks[0] ?? '', 'late');
    await waiting.ended;
    expect(JSON.parse(waiting.messages.at(-1) ?? '').result).toMatchObject({ content: [{ text: 'late' }] });
    const failed = await create('fails');
    expect((await request('tasks/result', { taskId: failed })).result).toMatchObject({ isError: true });
    expect((await request('tasks/get', { taskId: failed })).result.status).toBe('failed');
  });

  it('asks its client on the stream of its result, related to our id', async () => {
    const { url, first } = await twoUpstreams();
    const { client, send, request, create } = await coreTaskClient(url);
    const taskId = await create('asks');
    expect((await request('tasks/get', { taskId })).result.status).toBe('input_required');
    const waiting = send('tasks/result', { taskId });
    const question = JSON.parse(await waiting.message(0));
    expect(question).toMatchObject({ method: 'elicitation/create', params: { _meta: { [RELATED]: { taskId } } } });
    const result = { action: 'accept', content: { name: 'Ann' }, _meta: { [RELATED]: { taskId } } };
    await client.post(JSON.stringify({ jsonrpc: '2.0', id: question.id, result }));
    await waiting.ended;
    expect(JSON.parse(waiting.messages.at(-1) ?? '').result).toMatchObject({ content: [{ text: 'hello Ann' }] });
    expect(waiting.text).not.toContain(first.tasks[0]);
  });

  it('is canceled for good', async () => {
    const { url, first } = await twoUpstreams();
    const { request, create } = await coreTaskClient(url);
    const taskId = await create('endless');
    expect((await request('tasks/cancel', { taskId })).result).toMatchObject({ taskId, status: 'cancelled' });
    expect((await request('tasks/get', { taskId })).result).toMatchObject({ taskId, status: 'cancelled' });
    const again = await request('tasks/cancel', { taskId });
    expect(again.error.code).toBe(-32602);
    expect(JSON.stringify(again)).not.toContain(first.tasks[0]);
    await expect(first.finish(first.tasks[0] ?? '', 'too late')).rejects.toThrow();
  });

  it('reports its status on the notification stream of its own client only', async () => {
    const { url, first } = await twoUpstreams();
    const ann = await coreTaskClient(url);
    const ben = await coreTaskClient(url);
    const taskId = await ann.create('endless');
    await ben.create('endless');
    const [stream, others] = [ann.client.listen(), ben.client.listen()];
    await Promise.all([stream.head, others.head]);
    const [id = '', other = ''] = first.tasks;
    await expect
      .poll(async () => {
        await first.report(id, 'half');
        return stream.messages.length;
      })
      .toBeGreaterThan(0);
    await first.report(other, 'of ben');
    expect(JSON.parse(await stream.message(0))).toMatchObject({
      method: 'notifications/tasks/status',
      params: { taskId, status: 'working', statusMessage: 'half' },
    });
    await others.matching(/of ben/);
    expect(stream.text).not.toContain('of ben');
    expect(others.text).not.toContain('half');
    expect(stream.text + others.text).not.toMatch(new RegExp(`${id}|${other}`));
    for (const reader of [stream, others]) reader.disconnect();
  });

  it('of a tool that is disabled since is in no list and sends nothing, and returns with its tool', async () => {
    const { url, first } = await twoUpstreams();
    const { client, request, create } = await coreTaskClient(url);
    const hidden = await create('endless');
    const visible = await create('asks');
    const listed = async () =>
      (await request('tasks/list', {})).result.tasks.map(({ taskId }: { taskId: string }) => taskId);
    const setEnabled = (enabled: boolean) =>
      tests.service.manage('POST', '/tools/enabled', {
        enabled,
        names: ['endless'],
        namespace: new URL(url).pathname.split('/')[1],
      });
    const stream = client.listen();
    await stream.head;
    expect(await listed()).toEqual([hidden, visible]);
    await setEnabled(false);
    expect(await listed()).toEqual([visible]);
    const [id = ''] = first.tasks;
    await first.report(id, 'while hidden');
    await setEnabled(true);
    await expect
      .poll(async () => {
        await first.report(id, 'later');
        return stream.text;
      })
      .toContain('later');
    expect(stream.text).not.toContain('while hidden');
    expect(await listed()).toEqual([hidden, visible]);
    stream.disconnect();
  });

  it('keeps its upstream session open when its client ends its own', async () => {
    const { url, first } = await twoUpstreams();
    const ann = await coreTaskClient(url);
    const taskId = await ann.create('endless');
    const before = first.sessions();
    await ann.client.end();
    const later = await coreTaskClient(url);
    await first.finish(first.tasks[0] ?? '', 'kept');
    expect((await later.request('tasks/result', { taskId })).result).toMatchObject({ content: [{ text: 'kept' }] });
    expect(first.sessions()).toBe(before);
    // That its task has ended is known once it was polled.
    await later.request('tasks/get', { taskId });
    await expect.poll(first.sessions).toBe(before - 1);
  });
});

describe('a list of core tasks', () => {
  it('has those of the user, or of the session without one, in pages', async () => {
    const { url } = await twoUpstreams();
    const ann = await coreTaskClient(url, { 'x-forwarded-user': 'ann' });
    const [one, two] = [await ann.create('endless'), await ann.create('2.endless')];
    const ben = await coreTaskClient(url, { 'x-forwarded-user': 'ben' });
    const his = await ben.create('endless');
    const list = async ({ request }: CoreTaskClient) => {
      const { result } = await request('tasks/list', {});
      return result.tasks.map(({ taskId }: { taskId: string }) => taskId);
    };
    expect(await list(ann)).toEqual([one, two]);
    expect(await list(await coreTaskClient(url, { 'x-forwarded-user': 'ann' }))).toEqual([one, two]);
    expect(await list(ben)).toEqual([his]);
    expect(await list(await coreTaskClient(url))).toEqual([]);
    const nobody = await coreTaskClient(url);
    const own = await nobody.create('endless');
    expect(await list(nobody)).toEqual([own]);
    expect(await list(await coreTaskClient(url))).toEqual([]);
    expect((await nobody.request('tasks/list', { cursor: 'x' })).error.code).toBe(-32602);
  });

  it('continues after its cursor', async () => {
    const { url } = await twoUpstreams();
    const { request, create } = await coreTaskClient(url);
    const created: string[] = [];
    for (let at = 0; at < 103; at++) created.push(await create('endless'));
    const first = (await request('tasks/list', {})).result;
    const rest = (await request('tasks/list', { cursor: first.nextCursor })).result;
    expect([first.tasks.length, rest.tasks.length, rest.nextCursor]).toEqual([100, 3, undefined]);
    const listed = [...first.tasks, ...rest.tasks].map(({ taskId }: { taskId: string }) => taskId);
    expect(new Set(listed)).toEqual(new Set(created));
  });
});

it('requests are related to tasks of the client itself only', async () => {
  const upstream = await tests.upstreamWith({
    initialize: `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"x","version":"1"}}`,
    'tools/call': ({ params }) =>
      params.task ? '{"task":{"taskId":"7","status":"working","ttl":null}}' : '{"content":[]}',
  });
  const url = await tests.register(upstream.url);
  const ann = await coreTaskClient(url, { 'x-forwarded-user': 'ann' });
  const ben = await coreTaskClient(url, { 'x-forwarded-user': 'ben' });
  const taskId = await ann.create('a');
  const related = async ({ request }: CoreTaskClient, id: string) => {
    await request('tools/call', { name: 'a', arguments: {}, _meta: { x: 1, [RELATED]: { taskId: id } } });
    return lastCall(upstream).params._meta;
  };
  expect(await related(ann, taskId)).toEqual({ x: 1, [RELATED]: { taskId: '7' } });
  const none = { x: 1, [RELATED]: { taskId: '' } };
  for (const id of [taskId, '7', 'x']) expect(await related(ben, id)).toEqual(none);
  expect(await related(ann, '7')).toEqual(none);
});

it('tasks of the client itself, such as of a sampling request, are relayed unchanged', async () => {
  const upstream = await startLiveUpstream({ capabilities: '{"tools":{}}' });
  tests.onEnd(upstream.close);
  const own = '{"list":{},"cancel":{},"requests":{"sampling":{"createMessage":{}}}}';
  const client = await sessionClient(await tests.register(upstream.url), {
    capabilities: `{"sampling":{},"tasks":${own}}`,
  });
  const response = client.call('1');
  const call = await upstream.calls.next();
  call.begin();
  expect(upstream.of('initialize').at(-1)?.params.capabilities).toMatchObject({ tasks: JSON.parse(own) });
  const task = { taskId: 'of the client', status: 'completed', createdAt: '', lastUpdatedAt: '', ttl: 1000 };
  const { taskId } = task;
  const exchanges = [
    ['sampling/createMessage', { messages: [], maxTokens: 1, task: { ttl: 1000 } }, { task }],
    ['tasks/get', { taskId }, task],
    ['tasks/result', { taskId }, { role: 'assistant', content: [], _meta: { [RELATED]: { taskId } } }],
    ['tasks/cancel', { taskId }, task],
    ['tasks/list', {}, { tasks: [task] }],
  ] as const;
  for (const [at, [method, params, result]] of exchanges.entries()) {
    call.request(`${at}`, method, JSON.stringify(params));
    const received = JSON.parse(await response.message(at));
    expect(received).toMatchObject({ method, params });
    await client.post(JSON.stringify({ jsonrpc: '2.0', id: received.id, result }));
    await expect.poll(() => upstream.answers().length).toBe(at + 1);
    expect(JSON.parse(upstream.answers()[at] ?? '')).toEqual({ jsonrpc: '2.0', id: at, result });
  }
  call.end('done');
  expect(await response.message(exchanges.length)).toContain('done');
});

it('core tasks of others are not found, and plain calls are plain', async () => {
  const { url, first } = await twoUpstreams();
  const ann = await coreTaskClient(url, { 'x-forwarded-user': 'ann' });
  const ben = await coreTaskClient(url, { 'x-forwarded-user': 'ben' });
  const taskId = await ann.create('endless');
  for (const id of [taskId, first.tasks[0], 'x']) {
    for (const method of ['tasks/get', 'tasks/result', 'tasks/cancel']) {
      expect((await ben.request(method, { taskId: id })).error).toEqual(NOT_FOUND);
    }
  }
  expect((await ann.request('tasks/get', { taskId })).result.status).toBe('working');
  expect((await ann.request('tasks/update', { taskId, inputResponses: {} })).error.code).toBe(-32601);
  expect((await ann.request('tools/call', { name: 'plain', arguments: {} })).result.content).toEqual([
    { type: 'text', text: 'plain' },
  ]);
});
