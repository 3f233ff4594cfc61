import { type Task, type ToolCallEvent, taskEvent } from '@sluice/contract';
import { describe, expect, it } from 'vitest';
import { run } from '../packages/cli/src/run.ts';
import { scriptedTerminal } from '../packages/cli/src/testing/scripted-terminal.ts';
import { coreTaskClient } from '../packages/server/testing/core-task-client.ts';
import { relayTests } from '../packages/server/testing/relay.ts';
import { sessionClient } from '../packages/server/testing/session-client.ts';
import { taskClient } from '../packages/server/testing/task-client.ts';
import { eventsAt } from '../packages/server/testing/tool-call-events.ts';
import { cells } from './fixtures/command-line.ts';
import { type CoreTasksUpstream, startCoreTasksUpstream } from './fixtures/core-tasks-upstream.ts';
import { startTasksUpstream, type TasksUpstream } from './fixtures/tasks-upstream.ts';

const tests = relayTests();

/** A namespace with an upstream of the extension; `name` is that of the namespace and its forward. */
async function withTasks(): Promise<{ url: string; name: string; upstream: TasksUpstream }> {
  const upstream = await startTasksUpstream();
  tests.onEnd(upstream.close);
  const url = await tests.register(upstream.url);
  return { url, name: new URL(url).pathname.split('/')[1] ?? '', upstream };
}

/** Tasks that match a query. */
async function list(query: string): Promise<Task[]> {
  const { data } = await tests.service.manage('GET', `/tasks?${query}`);
  return Object(data);
}

const ids = (tasks: readonly Task[]) => tasks.map(({ id }) => id);

describe('GET /api/v1/tasks', () => {
  it('lists open tasks, and others by their state', async () => {
    const { url, name, upstream } = await withTasks();
    const [ann, ben] = [taskClient(url, 'ann'), taskClient(url, 'ben')];
    const endless = await ann.create('endless', { secret: 'S3CRET' });
    const asking = await ben.create('confirm_delete');
    await ben.request('tasks/get', { taskId: asking });
    const polled = await ben.create('polled', { polls: 1 });
    await ben.until(polled, 'completed');

    const own = `namespace=${name}`;
    expect(ids(await list(own))).toEqual([endless, asking]);
    expect(ids(await list(`${own}&state=ended`))).toEqual([polled]);
    expect(ids(await list(`${own}&state=all`))).toEqual([endless, asking, polled]);
    expect(ids(await list(`${own}&state=input_required`))).toEqual([asking]);
    expect(ids(await list(`${own}&user=ann`))).toEqual([endless]);
    expect(ids(await list(`${own}&tool=confirm_delete`))).toEqual([asking]);
    expect(ids(await list(`forward=${name}&q=ENDL`))).toEqual([endless]);
    expect(ids(await list('namespace=none'))).toEqual([]);
    const [first] = await list(`${own}&limit=1`);
    expect(first).toEqual({
      id: endless,
      namespace: name,
      tool: 'endless',
      forward: name,
      user: 'ann',
      kind: 'extension',
      status: 'working',
      states: [{ status: 'working', timestamp: first?.createdAt }],
      createdAt: first?.createdAt,
      lastUpdatedAt: first?.createdAt,
      expiresAt: expect.any(String),
      eventId: expect.any(String),
    });
    const { data } = await tests.service.manage('GET', `/tasks/${polled}`);
    expect(data).toMatchObject({ status: 'completed', states: [{ status: 'working' }, { status: 'completed' }] });
    const text = JSON.stringify(await list('state=all'));
    expect(text).not.toMatch(/S3CRET|content/);
    for (const { id } of upstream.tasks) expect(text).not.toContain(id);
  });

  it('can be canceled', async () => {
    const { url, upstream } = await withTasks();
    const client = taskClient(url);
    const taskId = await client.create('endless');
    const cancel = () => tests.service.manage('POST', `/tasks/${taskId}/cancel`);
    for (const _ of [1, 2]) expect(await cancel()).toMatchObject({ status: 200, data: { status: 'cancelled' } });
    expect([upstream.tasks[0]?.status, upstream.count('tasks/cancel')]).toEqual(['cancelled', 1]);
    expect((await client.request('tasks/get', { taskId })).result.status).toBe('cancelled');

    const ended = await client.create('polled', { polls: 1 });
    await client.until(ended, 'completed');
    expect((await tests.service.manage('POST', `/tasks/${ended}/cancel`)).status).toBe(409);
    const lost = await client.create('endless');
    await upstream.down();
    expect((await tests.service.manage('POST', `/tasks/${lost}/cancel`)).status).toBe(502);
    expect((await tests.service.manage('GET', `/tasks/${lost}`)).data).toMatchObject({ status: 'working' });
  });

  it('has core tasks, which are canceled for good', async () => {
    const { url, client, core } = await withCoreTasks();
    const taskId = await createCore(client, 'endless');
    const [task] = await list(`namespace=${new URL(url).pathname.split('/')[1]}`);
    expect(task).toMatchObject({ id: taskId, kind: 'core', tool: 'endless' });
    expect((await tests.service.manage('POST', `/tasks/${taskId}/cancel`)).status).toBe(200);
    expect(await core.statusOf(core.tasks[0] ?? '')).toBe('cancelled');
    const { text } = await client.post(`{"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"${taskId}"}}`);
    expect(text).toContain('"status":"cancelled"');
  });
});

async function withCoreTasks() {
  const core: CoreTasksUpstream = await startCoreTasksUpstream();
  tests.onEnd(core.close);
  const url = await tests.register(core.url);
  return { url, core, client: await sessionClient(url) };
}

async function createCore(client: Awaited<ReturnType<typeof sessionClient>>, name: string): Promise<string> {
  const { text } = await client.post(
    `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"${name}","arguments":{},"task":{}}}`,
  );
  return /"taskId":"([\w-]+)"/.exec(text)?.[1] ?? '';
}

describe('sluice tasks', () => {
  async function sluice(...argv: string[]) {
    const terminal = scriptedTerminal();
    const code = await run(['--host', tests.service.management, '--no-auth', 'tasks', ...argv], terminal);
    return { code, out: terminal.out(), err: terminal.err() };
  }

  it('lists, shows and cancels them', async () => {
    const { url, name } = await withTasks();
    const client = taskClient(url, 'ann');
    const taskId = await client.create('endless');
    const listed = await sluice('list', '-N', name, '--state', 'open');
    expect(cells(listed.out)).toEqual([
      ['ID', 'CREATED', 'STATUS', 'NAMESPACE', 'TOOL', 'FORWARD', 'USER', 'MESSAGE'],
      [taskId, expect.any(String), 'working', name, 'endless', name, 'ann'],
    ]);
    const shown = await sluice('show', taskId, '--output', 'json');
    expect(JSON.parse(shown.out)).toMatchObject({ id: taskId, status: 'working' });
    const canceled = await sluice('cancel', taskId);
    expect([canceled.code, canceled.out]).toEqual([0, `canceled task ${taskId} of tool endless\n`]);
    expect(JSON.parse((await sluice('list', '-N', name, '-o', 'json')).out)).toEqual([]);
    expect(await sluice('show', 'none')).toMatchObject({
      code: 1,
      err: expect.stringContaining('task not found: none'),
    });
  });
});

describe('the events of a call that a task continues', () => {
  /** The last event of the only call of this URL, which has a STARTED event. */
  async function end(url: string): Promise<ToolCallEvent | undefined> {
    const [started, last, ...more] = await eventsAt(tests.service, url);
    expect(more).toEqual([]);
    expect(started?.eventType).toBe('STARTED');
    if (last) expect(last.eventId).toBe(started?.eventId);
    return last;
  }

  it('end with the result of the task, once it is polled', async () => {
    const { url } = await withTasks();
    const client = taskClient(url, 'ann');
    const taskId = await client.create('confirm_delete');
    await client.request('tasks/get', { taskId });
    expect(await end(url)).toBeUndefined();
    const inputResponses = { confirm: { action: 'accept', content: { name: 'x' } } };
    await client.request('tasks/update', { taskId, inputResponses });
    await client.until(taskId, 'completed');
    await client.request('tasks/get', { taskId });
    const last = await end(url);
    expect(last).toMatchObject({
      eventType: 'COMPLETED',
      isError: false,
      content: ['confirmed [{"name":"x"}]'],
      toolName: 'confirm_delete',
      toolType: 'mcp-forward',
      user: 'ann',
      task: { id: taskId, end: 'polled' },
    });
    const states = last && 'task' in last ? last.task?.states : undefined;
    expect(states?.map(({ status }) => status)).toEqual(['working', 'input_required', 'completed']);
    expect((await list(`namespace=${new URL(url).pathname.split('/')[1]}&state=all`))[0]?.eventId).toBe(last?.eventId);
  });

  it.each([
    ['failing_job', 'completed', { eventType: 'COMPLETED', isError: true, content: ['no luck'] }],
    ['protocol_error_job', 'failed', { eventType: 'FAILED', errorCategory: 'UNKNOWN', errorMessage: 'out of order' }],
  ] as const)('end with the failure of %s', async (tool, status, expected) => {
    const { url } = await withTasks();
    const client = taskClient(url);
    await client.until(await client.create(tool), status);
    expect(await end(url)).toMatchObject(expected);
  });

  it('end when the client cancels the task, and when it is removed with its forward', async () => {
    const { url } = await withTasks();
    const client = taskClient(url);
    const taskId = await client.create('endless');
    await client.request('tasks/cancel', { taskId });
    await client.request('tasks/get', { taskId });
    expect(await end(url)).toMatchObject({ errorMessage: 'the task was canceled', task: { end: 'cancelled' } });

    const other = await withTasks();
    await taskClient(other.url).create('endless');
    await tests.service.manage('DELETE', `/forwards/${other.name}`);
    expect(await end(other.url)).toMatchObject({ eventType: 'FAILED', task: { end: 'discarded' } });
  });

  it('end with the result of a core task', async () => {
    const { url, client, core } = await withCoreTasks();
    const taskId = await createCore(client, 'endless');
    await core.finish(core.tasks[0] ?? '', 'done');
    await client.post(`{"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"${taskId}"}}`);
    expect(await end(url)).toMatchObject({ eventType: 'COMPLETED', content: ['done'], task: { end: 'polled' } });
  });

  it('end with the beginning of a result that is large', async () => {
    const { url, upstream } = await withTasks();
    const client = taskClient(url);
    const taskId = await client.create('endless');
    const [task] = upstream.tasks;
    const text = 'x'.repeat(300_000);
    if (task) upstream.set(task, { status: 'completed', result: `{"content":[{"type":"text","text":"${text}"}]}` });
    await client.until(taskId, 'completed');
    expect(await end(url)).toMatchObject({ content: [expect.stringMatching(/^x{16000,}$/)], contentTruncated: true });
  });

  it('end with the result of a task of the other era', async () => {
    const { url, core } = await withCoreTasks();
    const modern = taskClient(url);
    const taskId = await modern.create('endless');
    await core.finish(core.tasks[0] ?? '', 'done');
    await modern.until(taskId, 'completed');
    expect(await end(url)).toMatchObject({ eventType: 'COMPLETED', content: ['done'], task: { id: taskId } });

    const extension = await withTasks();
    const legacy = await coreTaskClient(extension.url);
    const other = await legacy.create('polled', { polls: 1 });
    await legacy.request('tasks/result', { taskId: other });
    const last = { eventType: 'COMPLETED', content: [expect.any(String)], task: { id: other, end: 'polled' } };
    expect(await end(extension.url)).toMatchObject(last);
  });

  it('end when a task of the other era is canceled, by its client or by an operator', async () => {
    const { url, core } = await withCoreTasks();
    const modern = taskClient(url);
    await modern.request('tasks/cancel', { taskId: await modern.create('endless') });
    expect(await end(url)).toMatchObject({ eventType: 'FAILED', task: { end: 'cancelled' } });
    expect(await core.statusOf(core.tasks[0] ?? '')).toBe('cancelled');

    const extension = await withTasks();
    const legacy = await coreTaskClient(extension.url);
    const taskId = await legacy.create('endless');
    // As its client would: for good, whatever the upstream reports later.
    expect((await tests.service.manage('POST', `/tasks/${taskId}/cancel`)).status).toBe(200);
    expect(await end(extension.url)).toMatchObject({ eventType: 'FAILED', task: { end: 'cancelled' } });
    const [task] = extension.upstream.tasks;
    if (task) extension.upstream.set(task, { status: 'completed', result: '{"content":[]}' });
    expect((await legacy.request('tasks/get', { taskId })).result.status).toBe('cancelled');
  });

  it('are accompanied by those of the task, and counted', async () => {
    const { url } = await withTasks();
    const stream = await fetch(`${tests.service.management}/api/v1/events?topics=tasks`);
    const client = taskClient(url);
    const before = await metric('sluice_task_ended_total{sluice_task_outcome="completed"}');
    const taskId = await client.create('polled', { polls: 2 });
    expect(await metric('sluice_task_open')).toBeGreaterThan(0);
    await client.until(taskId, 'completed');
    expect(await metric('sluice_task_ended_total{sluice_task_outcome="completed"}')).toBe(before + 1);
    const received: unknown[] = [];
    let text = '';
    for await (const chunk of stream.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      text += chunk;
      received.splice(
        0,
        received.length,
        ...[...text.matchAll(/^data: (.*)\n\n/gm)].map(([, data = '']) => JSON.parse(data)),
      );
      if (received.length === 2) break;
    }
    const [created, ended] = taskEvent.array().parse(received);
    expect(created).toMatchObject({ id: taskId, tool: 'polled', status: 'working' });
    expect(ended).toMatchObject({ id: taskId, status: 'completed', statusMessage: 'poll 2', end: 'polled' });
    expect(ended?.eventId).toBe(created?.eventId);
  });

  it('count a core task as completed if only its result is known', async () => {
    const { url, client, core } = await withCoreTasks();
    const completed = 'sluice_task_ended_total{sluice_task_outcome="completed"}';
    const before = await metric(completed);
    const taskId = await createCore(client, 'endless');
    await core.finish(core.tasks[0] ?? '', 'done');
    await client.post(`{"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"${taskId}"}}`);
    expect(await metric(completed)).toBe(before + 1);
    expect(ids(await list(`namespace=${new URL(url).pathname.split('/')[1]}&state=completed`))).toEqual([taskId]);
  });

  async function metric(name: string): Promise<number> {
    const text = await (await fetch(`${tests.service.management}/metrics`)).text();
    const line = text.split('\n').find((each) => each.startsWith(`${name} `) || each.startsWith(`${name}{`));
    return Number(line?.split(' ').at(-1));
  }
});
