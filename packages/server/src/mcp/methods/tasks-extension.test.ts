import { describe, expect, it } from 'vitest';
import { modernClient, type RawClient, reply } from '../../../../../test/fixtures/raw-client.ts';
import { textResultText } from '../../../../../test/fixtures/raw-upstream/texts.ts';
import { startTasksUpstream, type TasksUpstream } from '../../../../../test/fixtures/tasks-upstream.ts';
import { coreTaskClient } from '../../../testing/core-task-client.ts';
import { listenTo } from '../../../testing/listening-client.ts';
import { lastCall, relayTests } from '../../../testing/relay.ts';
import { startTestService } from '../../../testing/service.ts';
import { type TaskClient, taskClient } from '../../../testing/task-client.ts';

const tests = relayTests();

/** Two forwards with tasks in one namespace: the tools of the second have a prefix. */
async function twoUpstreams(): Promise<{ url: string; first: TasksUpstream; second: TasksUpstream }> {
  const first = await upstreamWithTasks();
  const second = await upstreamWithTasks();
  const url = await tests.register(first.url);
  const namespace = new URL(url).pathname.split('/')[1];
  await tests.service.register('forwards', { name: `${namespace}-2`, address: second.url, namespace, prefix: '2.' });
  return { url, first, second };
}

async function upstreamWithTasks(scripts: Parameters<typeof startTasksUpstream>[0] = {}): Promise<TasksUpstream> {
  const upstream = await startTasksUpstream(scripts);
  tests.onEnd(upstream.close);
  return upstream;
}

const SUBSCRIPTION = 'io.modelcontextprotocol/subscriptionId';
const OUR_ID = /^[\da-f]{32}$/;
const NOT_FOUND = { code: -32602, message: 'task not found' };

describe('a task of the extension', () => {
  it('has an id of ours, and is polled at the upstream that it belongs to', async () => {
    const { url, first, second } = await twoUpstreams();
    const client = taskClient(url);
    const { result } = await client.request('tools/call', { name: '2.polled', arguments: { polls: 2 } });
    const { taskId, ...state } = result;
    expect(taskId).toMatch(OUR_ID);
    expect(state).toMatchObject({ resultType: 'task', status: 'working', ttlMs: 60_000, pollIntervalMs: 20 });
    const other = await client.create('endless');

    expect((await client.request('tasks/get', { taskId })).result).toMatchObject({ taskId, status: 'working' });
    const { result: end } = await client.request('tasks/get', { taskId });
    expect(end).toMatchObject({ taskId, status: 'completed', resultType: 'complete', statusMessage: 'poll 2' });
    expect(end.result).toEqual({ content: [{ type: 'text', text: 'polled' }], isError: false });
    expect((await client.request('tasks/get', { taskId: other })).result).toMatchObject({ status: 'working' });

    expect([first.tasks.length, second.tasks.length]).toEqual([1, 1]);
    const seen = lastCall(second, 'tasks/get');
    expect(seen.params.taskId).toBe(second.tasks[0]?.id);
    expect(seen.headers['mcp-name']).toBe(second.tasks[0]?.id);
    expect(JSON.stringify([result, end])).not.toContain(second.tasks[0]?.id);
  });

  it('asks for input and gets it, a part at a time', async () => {
    const { url } = await twoUpstreams();
    const client = taskClient(url);
    const taskId = await client.create('multi_input');
    const { result } = await client.request('tasks/get', { taskId });
    expect(Object.keys(Object(result.inputRequests))).toEqual(['first', 'second']);
    const answer = (text: string) => ({ action: 'accept', content: { name: text } });
    const { result: ack } = await client.request('tasks/update', { taskId, inputResponses: { second: answer('b') } });
    expect(ack).toEqual({ resultType: 'complete' });
    const { result: between } = await client.request('tasks/get', { taskId });
    expect(Object.keys(Object(between.inputRequests))).toEqual(['first']);
    await client.request('tasks/update', { taskId, inputResponses: { first: answer('a') } });
    const { text } = await client.until(taskId, 'completed');
    expect(text).toContain('answered [{\\"name\\":\\"b\\"},{\\"name\\":\\"a\\"}]');
  });

  it.each([20_000, 200_000])('asks clients of any kind with %i characters', async (size) => {
    const upstream = await upstreamWithTasks();
    const get = upstream.scripts['tasks/get'];
    upstream.scripts['tasks/get'] = async (seen) => {
      const state = typeof get === 'function' ? await get(seen) : '';
      return typeof state === 'string' ? state.replace('Really?', 'x'.repeat(size)) : state;
    };
    const url = await tests.register(upstream.url);
    const inputResponses = { confirm: { action: 'accept', content: {} } };
    const modern = taskClient(url);
    const taskId = await modern.create('confirm_delete');
    await modern.until(taskId, 'input_required');
    await modern.request('tasks/update', { taskId, inputResponses });
    await modern.until(taskId, 'completed');

    const legacy = await coreTaskClient(url);
    const result = legacy.send('tasks/result', { taskId: await legacy.create('confirm_delete') });
    await legacy.answer(result);
    expect((await legacy.end(result)).result.isError).toBe(false);

    const plain = taskClient(url, undefined, '{"elicitation":{}}');
    const call = { name: 'confirm_delete', arguments: {} };
    const { requestState } = (await plain.request('tools/call', call)).result;
    const end = await plain.request('tools/call', { ...call, requestState, inputResponses });
    expect(end.result.isError).toBe(false);
  });

  it('ignores input that its upstream does not wait for', async () => {
    const { url, first } = await twoUpstreams();
    const client = taskClient(url);
    const taskId = await client.create('multi_input');
    const other = await client.create('confirm_delete');
    const answer = { action: 'accept', content: { name: 'a' } };
    const update = async (inputResponses: object) => {
      expect((await client.request('tasks/update', { taskId, inputResponses })).result).toEqual({
        resultType: 'complete',
      });
      const sent = first.seen.filter(({ method }) => method === 'tasks/update');
      return sent.map(({ params }) => Object.keys(Object(params.inputResponses)));
    };
    // `confirm` is a key of the other task.
    expect(await update({ confirm: answer, unknown: answer })).toEqual([]);
    expect(await update({ unknown: answer, first: answer, confirm: answer })).toEqual([['first']]);
    expect(await update({ first: answer })).toEqual([['first']]);
    expect(await update({ second: answer, first: answer })).toEqual([['first'], ['second']]);
    await client.until(taskId, 'completed');
    expect(await update({ second: answer })).toEqual([['first'], ['second']]);
    expect((await client.request('tasks/get', { taskId: other })).result.status).toBe('input_required');
  });

  it('is canceled, fails and reports the error of a tool as its upstream says', async () => {
    const { url, first } = await twoUpstreams();
    const client = taskClient(url);
    const endless = await client.create('endless');
    expect((await client.request('tasks/cancel', { taskId: endless })).result).toEqual({ resultType: 'complete' });
    expect(first.tasks[0]?.status).toBe('cancelled');
    expect((await client.request('tasks/get', { taskId: endless })).result.status).toBe('cancelled');

    const failed = await client.until(await client.create('protocol_error_job'), 'failed');
    expect(failed.result.error).toEqual({ code: -32603, message: 'out of order', data: { part: 1 } });
    const unlucky = await client.until(await client.create('failing_job'), 'completed');
    expect(unlucky.result.result).toMatchObject({ isError: true });
  });

  it.each([20_000, 200_000])('has its whole result when that has %i characters', async (size) => {
    const { url, first } = await twoUpstreams();
    const client = taskClient(url);
    const taskId = await client.create('large', { size });
    const { result, text } = await client.request('tasks/get', { taskId });
    expect(result).toMatchObject({ taskId, status: 'completed', ttlMs: 60_000 });
    expect(result.result).toEqual({ content: [{ type: 'text', text: 'x'.repeat(size) }], isError: false });
    expect(text).not.toContain(first.tasks[0]?.id);
  });

  it('lives for 24 hours at most, whatever the upstream says', async () => {
    const { url, first } = await twoUpstreams();
    const client = taskClient(url);
    const taskId = await client.create('endless');
    const [task] = first.tasks;
    if (task) task.ttlMs = null;
    const day = 24 * 3600 * 1000;
    expect((await client.request('tasks/get', { taskId })).result.ttlMs).toBe(day);
    if (task) task.ttlMs = 10 * day;
    expect((await client.request('tasks/get', { taskId })).result.ttlMs).toBe(day);
  });

  it('is not found once its upstream has discarded it', async () => {
    const { url, first } = await twoUpstreams();
    const client = taskClient(url);
    const taskId = await client.create('endless');
    const [task] = first.tasks;
    if (task) first.discard(task);
    const polls = first.count('tasks/get');
    for (const _ of [1, 2]) expect((await client.request('tasks/get', { taskId })).error).toEqual(NOT_FOUND);
    expect(first.count('tasks/get')).toBe(polls + 1);
  });
});

describe('ids of tasks', () => {
  it('are not found if they are unknown, of another user or of another namespace', async () => {
    const { url, first } = await twoUpstreams();
    const elsewhere = await twoUpstreams();
    const taskId = await taskClient(url, 'ann').create('confirm_delete');
    const [task] = first.tasks;
    const foreign: readonly [TaskClient, string][] = [
      [taskClient(url, 'ben'), taskId],
      [taskClient(url), taskId],
      [taskClient(elsewhere.url, 'ann'), taskId],
      [taskClient(url, 'ann'), task?.id ?? ''],
      [taskClient(url, 'ann'), 'A'.repeat(22)],
    ];
    const inputResponses = { confirm: { action: 'accept', content: { name: 'x' } } };
    for (const [client, id] of foreign) {
      expect((await client.request('tasks/get', { taskId: id })).error).toEqual(NOT_FOUND);
      expect((await client.request('tasks/cancel', { taskId: id })).error).toEqual(NOT_FOUND);
      expect((await client.request('tasks/update', { taskId: id, inputResponses })).error).toEqual(NOT_FOUND);
    }
    expect([task?.status, task?.answers.size]).toEqual(['input_required', 0]);
    expect((await taskClient(url, 'ann').request('tasks/get', { taskId })).result.status).toBe('input_required');
  });

  it('must be those of the header, and be written once', async () => {
    const { url, first } = await twoUpstreams();
    const client = taskClient(url);
    const taskId = await client.create('endless');
    for (const name of [first.tasks[0]?.id ?? '', 'other']) {
      const { status, error } = await client.request('tasks/get', { taskId }, { 'mcp-name': name });
      expect([status, error?.code]).toEqual([400, -32020]);
    }
    const { error } = await client.request('tasks/get', { taskId, taskid: first.tasks[0]?.id });
    expect(error).toEqual({
      code: -32600,
      message: 'member "taskid" must be written "taskId" in "params"',
    });
    expect(first.count('tasks/get')).toBe(0);
  });
});

describe('tasks of a tool that an operator disables', () => {
  it('have no results for clients any more, and can be canceled', async () => {
    const { url, first } = await twoUpstreams();
    const client = taskClient(url);
    const taskId = await client.create('polled', { polls: 1 });
    const namespace = new URL(url).pathname.split('/')[1];
    const setEnabled = (enabled: boolean) =>
      tests.service.manage('POST', '/tools/enabled', { enabled, names: ['polled'], namespace });
    await setEnabled(false);
    const inputResponses = {};
    for (const method of ['tasks/get', 'tasks/update']) {
      const { error } = await client.request(method, { taskId, inputResponses });
      expect(error).toEqual({ code: -32602, message: 'tool not found: polled' });
    }
    expect((await client.request('tasks/cancel', { taskId })).error).toBeUndefined();
    expect(first.tasks[0]).toMatchObject({ status: 'cancelled', polls: 0 });
    await setEnabled(true);
    expect((await client.request('tasks/get', { taskId })).error).toBeUndefined();
  });

  it('end with their forward', async () => {
    const { url } = await twoUpstreams();
    const client = taskClient(url);
    const taskId = await client.create('endless');
    const namespace = new URL(url).pathname.split('/')[1];
    await tests.service.manage('DELETE', `/forwards/${namespace}`);
    expect((await client.request('tasks/get', { taskId })).error).toEqual(NOT_FOUND);
  });
});

it('a user with too many tasks gets no more, and what the upstream has begun is canceled', async () => {
  const service = await startTestService({ SERVICE_MAX_TASKS_PER_USER: '2' });
  tests.onEnd(() => service.stop());
  const upstream = await upstreamWithTasks();
  const url = await tests.register(upstream.url, {}, service);
  const ann = taskClient(url, 'ann');
  const [taskId] = [await ann.create('endless'), await ann.create('endless')];
  const { error } = await ann.request('tools/call', { name: 'endless' });
  expect([error?.code, error?.message]).toEqual([
    -32000,
    'forwarded tool call failed: too many tasks; wait for others to end, or cancel them',
  ]);
  await expect.poll(() => upstream.tasks[2]?.status).toBe('cancelled');
  expect(await taskClient(url, 'ben').create('endless')).toBeDefined();
  await ann.request('tasks/cancel', { taskId });
  await ann.until(taskId, 'cancelled');
  expect(await ann.create('endless')).toBeDefined();
});

describe('rules of the extension', () => {
  it('requests about tasks require that the client declares it', async () => {
    const { url, first } = await twoUpstreams();
    const taskId = await taskClient(url).create('endless');
    const plain = taskClient(url, undefined, '{}');
    for (const method of ['tasks/get', 'tasks/update', 'tasks/cancel']) {
      const { status, error } = await plain.request(method, { taskId, inputResponses: {} });
      expect([status, error?.code]).toEqual([400, -32021]);
      expect(error?.data).toEqual({ requiredCapabilities: { extensions: { 'io.modelcontextprotocol/tasks': {} } } });
    }
    expect(first.tasks[0]?.status).toBe('working');
  });

  it('lists and separate results do not exist', async () => {
    const { url } = await twoUpstreams();
    const client = taskClient(url);
    const taskId = await client.create('endless');
    for (const method of ['tasks/list', 'tasks/result', 'tasks/delete', 'tasks/Get']) {
      const { status, error } = await client.request(method, { taskId });
      expect([method, status, error?.code]).toEqual([method, 404, -32601]);
    }
  });

  it('is advertised where a forward has it, and core tasks are not', async () => {
    const { url } = await twoUpstreams();
    const discover = async (at: string) => (await taskClient(at).request('server/discover', {})).result.capabilities;
    expect(await discover(url)).toMatchObject({ extensions: { 'io.modelcontextprotocol/tasks': {} } });
    expect(await discover(url)).not.toHaveProperty('tasks');
    const plain = await tests.register((await tests.upstreamWith()).url);
    expect(await discover(plain)).not.toHaveProperty('extensions');
    const { status, error } = await taskClient(plain).request('tasks/get', { taskId: 'x' });
    expect([status, error?.code]).toEqual([404, -32601]);
  });
});

describe('notifications of tasks', () => {
  const capabilities = '{"extensions":{"io.modelcontextprotocol/tasks":{}}}';
  const parsed = (text: string | undefined) => JSON.parse(text ?? '{}');

  it('arrive on the stream that requests them, with our ids, from each upstream', async () => {
    const { url, first, second } = await twoUpstreams();
    const client = taskClient(url);
    const one = await client.create('endless');
    const two = await client.create('2.endless');
    const unwatched = await client.create('endless');
    const listening = await listenTo(url, { taskIds: [one, two, 'unknown'], toolsListChanged: true }, { capabilities });
    const [acknowledged] = await listening.first(1);
    expect(parsed(acknowledged).params.notifications).toEqual({ toolsListChanged: true, taskIds: [one, two] });
    expect(lastCall(second, 'subscriptions/listen').params.notifications).toEqual({ taskIds: [second.tasks[0]?.id] });

    const [a, b] = first.tasks;
    if (b) first.set(b, { statusMessage: 'of nobody' });
    if (a) first.set(a, { statusMessage: 'half' });
    expect(parsed((await listening.first(2))[1])).toMatchObject({
      method: 'notifications/tasks',
      params: { taskId: one, status: 'working', statusMessage: 'half', _meta: { [SUBSCRIPTION]: 1 } },
    });
    const [c] = second.tasks;
    if (c) second.set(c, { status: 'completed', result: '{"content":[]}' });
    const events = await listening.first(3);
    expect(parsed(events[2]).params).toMatchObject({ taskId: two, status: 'completed', result: { content: [] } });
    expect(events.join()).not.toContain(unwatched);
    for (const task of [a, b, c]) expect(events.join()).not.toContain(task?.id);
    listening.disconnect();
  });

  it('are not sent for tasks of others, nor to clients that do not declare the extension', async () => {
    const { url, first } = await twoUpstreams();
    const taskId = await taskClient(url, 'ann').create('endless');
    const headers = { 'x-forwarded-user': 'ben' };
    const listening = await listenTo(url, { taskIds: [taskId] }, { capabilities, headers });
    expect(parsed((await listening.first(1))[0]).params.notifications).toEqual({});
    listening.disconnect();
    expect(first.count('subscriptions/listen')).toBe(first.streams());
    const plain = await taskClient(url, 'ann', '{}').request('subscriptions/listen', {
      notifications: { taskIds: [taskId] },
    });
    expect([plain.status, plain.error?.code]).toEqual([400, -32021]);
    const invalid = await taskClient(url, 'ann').request('subscriptions/listen', { notifications: { taskIds: [1] } });
    expect(invalid.error?.code).toBe(-32602);
  });
});

describe('an upstream that breaks the rules', () => {
  const raw = (url: string): RawClient => modernClient(url, '{"extensions":{"io.modelcontextprotocol/tasks":{}}}');

  it('cannot change the id or the end of a task', async () => {
    const { url, first } = await twoUpstreams();
    const client = taskClient(url);
    const taskId = await client.create('polled', { polls: 1 });
    const id = first.tasks[0]?.id;
    await client.until(taskId, 'completed');
    const state = (status: string) => `{"resultType":"complete","taskId":"another","status":"${status}","ttlMs":1e4}`;
    first.scripts['tasks/get'] = state('completed');
    expect((await client.request('tasks/get', { taskId })).result.taskId).toBe(taskId);
    first.scripts['tasks/get'] = state('working');
    const { error } = await client.request('tasks/get', { taskId });
    expect(error?.code).toBe(-32603);
    expect(error?.message).toContain('another status of a task that has ended');
    expect(lastCall(first, 'tasks/get').params.taskId).toBe(id);
  });

  it.each([
    ['no id', '{"resultType":"task","status":"working"}'],
    ['an unknown status', '{"resultType":"task","taskId":"t","status":"asleep"}'],
    ['an id that is too long', `{"resultType":"task","taskId":"${'t'.repeat(2000)}","status":"working"}`],
  ])('cannot create a task with %s', async (_, created) => {
    const { url, first } = await twoUpstreams();
    first.scripts['tools/call'] = created;
    const { error } = await taskClient(url).request('tools/call', { name: 'endless' });
    expect(error).toEqual({
      code: -32603,
      message: 'forwarded tool call failed: the upstream answered with an invalid task',
    });
  });

  it('cannot create a task with a result that is sent while it arrives', async () => {
    const { url, first } = await twoUpstreams();
    const filler = 'x'.repeat(300_000);
    first.scripts['tools/call'] = `{"filler":"${filler}","resultType":"task","taskId":"t","status":"working"}`;
    await expect(raw(url).call('tools/call', '{"name":"endless"}')).rejects.toThrow();
  });

  it('has its result unchanged when it creates no task', async () => {
    const { url, first } = await twoUpstreams();
    first.scripts['tools/call'] = textResultText('done').replace('{', '{"task":{"taskId":"t"},"taskId":1.0,');
    const text = reply(await raw(url).call('tools/call', '{"name":"endless"}'));
    expect(text).toContain(String(first.scripts['tools/call']));
  });
});
