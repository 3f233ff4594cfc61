import { describe, expect, it } from 'vitest';
import { type CoreTasksUpstream, startCoreTasksUpstream } from '../../../../../test/fixtures/core-tasks-upstream.ts';
import { parseObject } from '../../../../../test/fixtures/raw-upstream/message.ts';
import { toolList } from '../../../../../test/fixtures/raw-upstream/texts.ts';
import type { RawUpstream } from '../../../../../test/fixtures/raw-upstream.ts';
import { startTasksUpstream, type TasksUpstream } from '../../../../../test/fixtures/tasks-upstream.ts';
import { coreTaskClient } from '../../../testing/core-task-client.ts';
import { listenTo } from '../../../testing/listening-client.ts';
import { lastCall, relayTests } from '../../../testing/relay.ts';
import { taskClient } from '../../../testing/task-client.ts';

// What test/tasks-pairings.test.ts does not compare between upstreams of both eras.

const tests = relayTests();

async function coreUpstream(): Promise<{ url: string; upstream: CoreTasksUpstream }> {
  const upstream = await startCoreTasksUpstream();
  tests.onEnd(upstream.close);
  return { url: await tests.register(upstream.url), upstream };
}

async function extensionUpstream(): Promise<{ url: string; upstream: TasksUpstream }> {
  const upstream = await startTasksUpstream();
  tests.onEnd(upstream.close);
  return { url: await tests.register(upstream.url), upstream };
}

const TOOL = '{"name":"work","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}';
const TASK = '"taskId":"7","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":null';
const IDENTITY =
  '{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"x","version":"1"}}';
const RELATED = 'io.modelcontextprotocol/related-task';

/** A legacy upstream whose only task, `7`, is what the test says. */
async function scriptedUpstream(): Promise<{ url: string; upstream: RawUpstream; set(status: string): void }> {
  const upstream = await tests.upstreamWith(
    {
      initialize: IDENTITY,
      'tools/list': toolList(TOOL),
      'tools/call': `{"task":{${TASK},"status":"working","x":1.0}}`,
      POST: { kind: 'http', status: 202, type: 'text/plain', body: '' },
    },
    { eras: ['legacy'] },
  );
  const set = (status: string) => {
    upstream.scripts['tasks/get'] = `{${TASK},"status":"${status}","x":1.0}`;
  };
  set('working');
  return { url: await tests.register(upstream.url), upstream, set };
}

function question(id: string, message: string, taskId = '7'): string {
  const params = {
    mode: 'form',
    message,
    requestedSchema: { type: 'object', properties: {} },
    _meta: { y: 2, [RELATED]: { taskId } },
  };
  return `{"jsonrpc":"2.0","id":${id},"method":"elicitation/create","params":${JSON.stringify(params)}}`;
}

/** Responses that a legacy upstream has got to its requests, by id. */
function responsesTo(upstream: RawUpstream): Record<string, unknown> {
  const responses = upstream.seen.map(({ body }) => parseObject(body)).filter((message) => 'result' in message);
  return Object.fromEntries(responses.map(({ id, result }) => [String(id), result]));
}

const ANSWER = { action: 'accept', content: { name: 'Ann' } };

describe('a core task of a modern client', () => {
  it('has the exact texts of its upstream in the form of the extension', async () => {
    const { url, upstream, set } = await scriptedUpstream();
    const client = taskClient(url);
    const { result, text } = await client.request('tools/call', { name: 'work', arguments: {} });
    expect(text).toContain('"x":1.0');
    const { taskId } = result;
    expect(lastCall(upstream).body).toContain('"task":{}');
    set('completed');
    upstream.scripts['tasks/result'] =
      `{"content":[],"n":9223372036854775807,"_meta":{"z":1.0,"${RELATED}":{"taskId":"7"}}}`;
    const end = await client.request('tasks/get', { taskId });
    expect(end.result).toMatchObject({ taskId, status: 'completed', ttlMs: 86_400_000, resultType: 'complete' });
    expect(end.text).toContain('"result":{"content":[],"n":9223372036854775807,"_meta":{"z":1.0}}');
    expect(end.text).toContain('"x":1.0');
    expect(end.text).not.toMatch(/"(ttl|task)"|"7"/);
  });

  it('has failed if its request has, and is completed if its tool has', async () => {
    const { url, upstream, set } = await scriptedUpstream();
    const client = taskClient(url);
    const taskId = await client.create('work');
    set('failed');
    upstream.scripts['tasks/result'] = { kind: 'error', text: '{"code":-32050,"message":"broken","data":{"a":1.0}}' };
    const failed = await client.request('tasks/get', { taskId });
    expect(failed.result).toMatchObject({ status: 'failed', error: { code: -32050, message: 'broken' } });
    expect(failed.text).toContain('"data":{"a":1.0}');
    upstream.scripts['tasks/result'] = '{"content":[],"isError":true}';
    expect((await client.request('tasks/get', { taskId })).result).toMatchObject({
      status: 'completed',
      result: { isError: true },
    });
  });

  it.each([20_000, 300_000])('has a whole result of %i characters', async (size) => {
    const { url, upstream, set } = await scriptedUpstream();
    const client = taskClient(url);
    const taskId = await client.create('work');
    set('completed');
    const content = [{ type: 'text', text: 'x'.repeat(size) }];
    upstream.scripts['tasks/result'] = JSON.stringify({ content, _meta: { [RELATED]: { taskId: '7' } } });
    expect((await client.request('tasks/get', { taskId })).result.result).toEqual({ content, _meta: {} });
  });

  it('asks the questions that arrive on any stream of its session, until they are answered or canceled', async () => {
    const { url, upstream } = await scriptedUpstream();
    const client = taskClient(url);
    const taskId = await client.create('work');
    const other = await taskClient(url, 'ben').create('work');
    const { session } = lastCall(upstream);
    const { session: first } = upstream.seen.find(({ method }) => method === 'tools/call') ?? {};
    expect(first).not.toBe(session);
    upstream.push(question('"q1"', 'One?'), {}, first);
    upstream.push(question('2', 'Two?'), {}, first);
    const keys = async () => {
      const { result } = await client.request('tasks/get', { taskId });
      const requests = Object.entries(Object(result.inputRequests));
      return new Map(requests.map(([key, request]) => [Object(Object(request).params).message, key]));
    };
    await expect.poll(async () => (await keys()).size).toBe(2);
    const one = (await keys()).get('One?') ?? '';
    const two = (await keys()).get('Two?') ?? '';
    expect((await client.request('tasks/get', { taskId })).result.status).toBe('input_required');
    expect((await taskClient(url, 'ben').request('tasks/get', { taskId: other })).result.status).toBe('working');

    // Unknown keys, and those of another task, are ignored.
    const update = (by: typeof client, id: string, inputResponses: object) =>
      by.request('tasks/update', { taskId: id, inputResponses });
    for (const [by, id] of [
      [taskClient(url, 'ben'), other],
      [client, taskId],
    ] as const) {
      const input = id === taskId ? { unknown: ANSWER, [one]: 'no object' } : { [one]: ANSWER, [two]: ANSWER };
      expect((await update(by, id, input)).result).toEqual({ resultType: 'complete' });
    }
    expect(responsesTo(upstream)).toEqual({});
    for (const again of [1, 2]) {
      expect((await update(client, taskId, { [two]: { ...ANSWER, again } })).result).toEqual({
        resultType: 'complete',
      });
    }
    expect(responsesTo(upstream)).toEqual({ 2: { ...ANSWER, again: 1, _meta: { [RELATED]: { taskId: '7' } } } });
    expect([...(await keys()).values()]).toEqual([one]);
    const params = { requestId: 'q1', _meta: { [RELATED]: { taskId: '7' } } };
    upstream.push(JSON.stringify({ jsonrpc: '2.0', method: 'notifications/cancelled', params }), {}, first);
    await expect.poll(async () => (await keys()).size).toBe(0);
    expect((await client.request('tasks/get', { taskId })).result.status).toBe('working');
  });

  it('has notifications of its states, with the result', async () => {
    const { url, upstream } = await coreUpstream();
    const client = taskClient(url);
    const taskId = await client.create('endless');
    const asking = await client.create('asks');
    const capabilities = '{"extensions":{"io.modelcontextprotocol/tasks":{}}}';
    const listening = await listenTo(url, { taskIds: [taskId, asking, 'unknown'] }, { capabilities });
    const parsed = async (count: number) => JSON.parse((await listening.first(count)).at(-1) ?? '{}');
    expect((await parsed(1)).params.notifications).toEqual({ taskIds: [taskId, asking] });
    expect((await parsed(2)).params).toMatchObject({ taskId: asking, status: 'input_required', inputRequests: {} });
    const [id = ''] = upstream.tasks;
    await upstream.report(id, 'half');
    expect(await parsed(3)).toMatchObject({
      method: 'notifications/tasks',
      params: { taskId, status: 'working', statusMessage: 'half' },
    });
    await upstream.finish(id, 'done');
    expect((await parsed(4)).params).toMatchObject({
      taskId,
      status: 'completed',
      result: { content: [{ type: 'text', text: 'done' }] },
    });
    listening.disconnect();
  });
});

describe('a task of the extension of a legacy client', () => {
  it('is requested without the parameter of core tasks', async () => {
    const { url, upstream } = await extensionUpstream();
    const client = await coreTaskClient(url);
    await client.create('endless');
    const { params, body } = lastCall(upstream);
    expect(params).not.toHaveProperty('task');
    expect(body).toContain('"extensions":{"io.modelcontextprotocol/tasks":{}}');
  });

  it('is canceled for good, whatever its upstream does', async () => {
    const { url, upstream } = await extensionUpstream();
    upstream.scripts['tasks/cancel'] = '{"resultType":"complete"}';
    const { create, request, send, end } = await coreTaskClient(url);
    const taskId = await create('endless');
    const waiting = send('tasks/result', { taskId });
    await expect.poll(() => upstream.tasks[0]?.polls).toBeGreaterThan(0);
    await request('tasks/cancel', { taskId });
    expect((await end(waiting)).error.message).toBe('forwarded request failed: the task was canceled');
    const [task] = upstream.tasks;
    if (task) upstream.set(task, { status: 'completed', result: '{"content":[]}' });
    expect((await request('tasks/get', { taskId })).result.status).toBe('cancelled');
    expect((await request('tasks/result', { taskId })).error.code).toBe(-32603);
    expect((await request('tasks/list', {})).result.tasks).toMatchObject([{ taskId, status: 'cancelled' }]);
    await expect.poll(() => upstream.count('tasks/cancel')).toBe(1);
  });

  it('ends with the error of its request', async () => {
    const { url } = await extensionUpstream();
    const { create, request } = await coreTaskClient(url);
    const taskId = await create('protocol_error_job');
    expect((await request('tasks/result', { taskId })).error).toEqual({
      code: -32603,
      message: 'out of order',
      data: { part: 1 },
    });
    expect((await request('tasks/get', { taskId })).result.status).toBe('failed');
  });

  it.each([20_000, 300_000])('has a whole result of %i characters', async (size) => {
    const { url } = await extensionUpstream();
    const { create, request } = await coreTaskClient(url);
    const taskId = await create('large', { size });
    expect((await request('tasks/get', { taskId })).result).toMatchObject({ taskId, status: 'completed' });
    expect((await request('tasks/result', { taskId })).result).toEqual({
      content: [{ type: 'text', text: 'x'.repeat(size) }],
      isError: false,
      _meta: { [RELATED]: { taskId } },
    });
  });

  it('has notifications of its status on the stream of its own session', async () => {
    const { url, upstream } = await extensionUpstream();
    const ann = await coreTaskClient(url);
    const ben = await coreTaskClient(url);
    const early = await ann.create('endless');
    const [stream, others] = [ann.client.listen(), ben.client.listen()];
    await Promise.all([stream.head, others.head]);
    const late = await ann.create('endless');
    const [one, two] = upstream.tasks;
    const watched = () => upstream.seen.map(({ params }) => Object(params.notifications).taskIds);
    await expect.poll(() => watched().at(-1)).toEqual([one?.id, two?.id]);
    if (one) upstream.set(one, { statusMessage: 'half' });
    await stream.matching(/half/);
    if (two) upstream.set(two, { status: 'completed', result: '{"content":[],"isError":true}' });
    await stream.matching(/failed/);
    const received = stream.messages.map((text) => JSON.parse(text)).map(({ method, params }) => [method, params]);
    const method = 'notifications/tasks/status';
    expect(received).toMatchObject([
      [method, { taskId: early, status: 'working', statusMessage: 'half', ttl: 60_000, pollInterval: 20 }],
      [method, { taskId: late, status: 'failed' }],
    ]);
    expect(others.messages).toEqual([]);
    for (const reader of [stream, others]) reader.disconnect();
  });

  it('is of its client only, and is polled in the era that it was created in', async () => {
    const { url } = await extensionUpstream();
    const ann = await coreTaskClient(url, { 'x-forwarded-user': 'ann' });
    const taskId = await ann.create('endless');
    const foreign = [taskClient(url, 'ann'), taskClient(url, 'ben')];
    for (const client of foreign) {
      expect((await client.request('tasks/get', { taskId })).error?.message).toBe('task not found');
    }
    const ben = await coreTaskClient(url, { 'x-forwarded-user': 'ben' });
    for (const method of ['tasks/get', 'tasks/result', 'tasks/cancel']) {
      expect((await ben.request(method, { taskId })).error.message).toBe('task not found');
    }
    expect((await ben.request('tasks/list', {})).result.tasks).toEqual([]);
    const modern = await taskClient(url, 'ann').create('endless');
    expect((await ann.request('tasks/get', { taskId: modern })).error.message).toBe('task not found');
    expect((await ann.request('tasks/list', {})).result.tasks).toMatchObject([{ taskId }]);
  });
});
