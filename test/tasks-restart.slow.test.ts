import { afterAll, beforeAll, expect, it } from 'vitest';
import { type CoreTaskClient, coreTaskClient } from '../packages/server/testing/core-task-client.ts';
import { type SessionClient, sessionClient } from '../packages/server/testing/session-client.ts';
import { taskClient } from '../packages/server/testing/task-client.ts';
import { type CoreTasksUpstream, startCoreTasksUpstream } from './fixtures/core-tasks-upstream.ts';
import { type Gateway, startGateway } from './fixtures/gateway.ts';
import { toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from './fixtures/raw-upstream.ts';
import { runTaskSteps } from './fixtures/task-steps.ts';
import { startTasksUpstream, type TasksUpstream } from './fixtures/tasks-upstream.ts';

let gateway: Gateway;
let upstreams: { readonly modern: TasksUpstream; readonly core: CoreTasksUpstream };
beforeAll(async () => {
  upstreams = { modern: await startTasksUpstream(), core: await startCoreTasksUpstream() };
  gateway = await startGateway({ env: { SERVICE_TASK_AUTO_AFTER_MS: '50' } });
  await gateway.forward('modern', upstreams.modern.url);
  await gateway.forward('core', upstreams.core.url, 'legacy');
});
afterAll(async () => {
  await gateway?.close();
  await Promise.all([upstreams?.modern.close(), upstreams?.core.close()]);
});

/** Creates a core task of the tool `endless`. */
async function createCore(client: SessionClient): Promise<string> {
  const { text } = await client.post(
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"endless","arguments":{},"task":{}}}',
  );
  return /"taskId":"([\w-]+)"/.exec(text)?.[1] ?? '';
}

it('tasks outlive a gateway that is killed or stopped, between their creation and each later step', async () => {
  const client = taskClient(gateway.url(), 'ann');
  const inLegacy = await sessionClient(gateway.url('legacy'));
  const core = async (method: string, taskId: string): Promise<string> => {
    const params = JSON.stringify({ taskId });
    return (await inLegacy.post(`{"jsonrpc":"2.0","id":2,"method":"${method}","params":${params}}`)).text;
  };
  const asking = await client.create('confirm_delete');
  const endless = await client.create('endless');
  const polled = await client.create('polled', { polls: 2 });
  const [one, two, three] = [await createCore(inLegacy), await createCore(inLegacy), await createCore(inLegacy)];
  expect(await core('tasks/cancel', two)).toContain('"status":"cancelled"');

  await gateway.kill();
  await gateway.restart();
  expect((await client.request('tasks/get', { taskId: asking })).result.status).toBe('input_required');
  expect((await taskClient(gateway.url(), 'ben').request('tasks/get', { taskId: asking })).error?.code).toBe(-32602);
  expect((await client.request('tasks/get', { taskId: polled })).result.status).toBe('working');
  const inputResponses = { confirm: { action: 'accept', content: { name: 'x' } } };
  expect((await client.request('tasks/update', { taskId: asking, inputResponses })).error).toBeUndefined();
  expect((await client.request('tasks/cancel', { taskId: endless })).error).toBeUndefined();
  expect(await core('tasks/get', one)).toContain(`"taskId":"${one}","status":"working"`);
  expect(await core('tasks/get', two)).toContain('"status":"cancelled"');
  await upstreams.core.finish(upstreams.core.tasks[0] ?? '', 'after all');

  await gateway.stop();
  await gateway.restart();
  expect((await client.request('tasks/get', { taskId: asking })).result.status).toBe('completed');
  expect((await client.request('tasks/get', { taskId: endless })).result.status).toBe('cancelled');
  expect((await client.request('tasks/get', { taskId: polled })).result.status).toBe('completed');
  expect(upstreams.modern.tasks).toHaveLength(3);
  expect(await core('tasks/result', one)).toContain('after all');
  expect(await core('tasks/cancel', three)).toContain('"status":"cancelled"');
  const { result } = await inLegacy.request('tasks/list');
  const listed = Object(result).tasks.map(({ taskId, status }: Record<string, unknown>) => [taskId, status]);
  expect(listed).toEqual([
    [one, 'working'],
    [two, 'cancelled'],
    [three, 'cancelled'],
  ]);
}, 120_000);

it('the events of a call go on with the end of its task after a restart', async () => {
  const client = taskClient(gateway.url(), 'ann');
  const created = upstreams.modern.tasks.length;
  const taskId = await client.create('endless');
  const eventId = Object((await gateway.api('GET', `/api/v1/tasks/${taskId}`)).body).data.eventId;
  await crash();
  const task = upstreams.modern.tasks[created];
  if (task) upstreams.modern.set(task, { status: 'completed', result: '{"content":[{"type":"text","text":"late"}]}' });
  await client.until(taskId, 'completed');
  const { body } = await gateway.api('GET', '/api/v1/tool-calls?toolName=endless');
  const completed = { eventType: 'COMPLETED', eventId, content: ['late'], task: { id: taskId } };
  expect(Object(body).data).toMatchObject([completed]);
}, 120_000);

it('a plain call that has become a task is lost, and its task has failed with an error that says so', async () => {
  const plain = await startRawUpstream({
    scripts: { 'tools/list': toolList(toolText('slow')), 'tools/call': { kind: 'silence' } },
  });
  await gateway.forward('plain', plain.url, 'plain');
  const { data } = Object((await gateway.api('GET', '/api/v1/tools/slow?namespace=plain')).body);
  const { forward: _, upstreamName: __, shadowed: ___, ...entry } = data;
  const labeled = { ...entry, labels: { ...entry.labels, 'service.task': 'auto' } };
  expect((await gateway.api('PUT', '/api/v1/tools/slow?namespace=plain', labeled)).status).toBe(200);
  const client = taskClient(gateway.url('plain'), 'ann');
  const taskId = await client.create('slow');
  await crash();
  for (const _ of [1, 2]) {
    expect((await client.request('tasks/get', { taskId })).result).toMatchObject({
      taskId,
      status: 'failed',
      error: { code: -32603, message: expect.stringContaining('lost in a restart of the service') },
    });
  }
  expect((await client.request('tasks/cancel', { taskId })).result).toEqual({ resultType: 'complete' });
  expect(plain.count('tools/call')).toBe(1);
  await plain.close();
}, 120_000);

/** Kills the gateway, and starts it again. */
async function crash(): Promise<void> {
  await gateway.kill();
  await gateway.restart();
}

it('tasks of clients and upstreams of both eras go on between their creation and each later step', async () => {
  const { core, modern: extension } = upstreams;
  await runTaskSteps({ core, extension }, (name) => gateway.url(name === 'core' ? 'legacy' : 'default'), crash);
}, 120_000);

it.each([
  ['modern', 'default'],
  ['core', 'legacy'],
] as const)(
  'a call that waits for a task of the upstream %s goes on where its stream is resumed',
  async (name, at) => {
    const client: CoreTaskClient = await coreTaskClient(gateway.url(at));
    const upstream = upstreams[name];
    const created = upstream.tasks.length;
    const call = client.send('tools/call', { name: 'endless', arguments: {}, _meta: { progressToken: 'p' } });
    // The stream of a slow call begins with an event to resume from.
    await expect.poll(() => call.lastId, { timeout: 20_000 }).not.toBe('');
    const [waiting] = Object((await gateway.api('GET', `/api/v1/tasks?namespace=${at}&q=endless`)).body).data.slice(-1);
    expect(waiting).toMatchObject({ internal: true, eventId: expect.any(String) });
    await crash();
    const lost = client.client.listen(call.lastId);
    await lost.event(0);
    lost.disconnect();
    const resumed = client.client.listen(call.lastId);
    await resumed.event(0);
    expect(upstream.tasks).toHaveLength(created + 1);
    await finish(name, created);
    await resumed.ended;
    expect(JSON.parse(resumed.messages.at(-1) ?? '')).toMatchObject({
      id: 1,
      result: { content: [{ text: 'after all' }] },
    });
    const { body } = await gateway.api('GET', '/api/v1/tool-calls?toolName=endless');
    const [last] = Object(body).data;
    expect(last).toMatchObject({ eventType: 'COMPLETED', eventId: waiting.eventId, content: ['after all'] });
    expect(last.duration).toBeGreaterThan(1_000);
    if (name === 'modern') expect(resumed.messages.join()).toContain('"progressToken":"p"');
    expect(upstream.tasks).toHaveLength(created + 1);
  },
  120_000,
);

/** Reports the state of the task with this number, and then its result. */
async function finish(name: 'modern' | 'core', number: number): Promise<void> {
  const id = upstreams.core.tasks[number] ?? '';
  const task = upstreams.modern.tasks[number];
  if (name === 'core') {
    await upstreams.core.finish(id, 'after all');
  } else if (task) {
    const { polls } = task;
    upstreams.modern.set(task, { statusMessage: 'again' });
    await expect.poll(() => task.polls).toBeGreaterThan(polls + 1);
    upstreams.modern.set(task, { status: 'completed', result: '{"content":[{"type":"text","text":"after all"}]}' });
  }
}
