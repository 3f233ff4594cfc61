import { afterAll, beforeAll, expect, it } from 'vitest';
import { Database } from '../packages/server/src/registry/store/postgres/database.ts';
import { ReplicatedLog } from '../packages/server/src/registry/store/postgres/replicated-log.ts';
import { coreTaskClient } from '../packages/server/testing/core-task-client.ts';
import { startPostgres, type TestPostgres } from '../packages/server/testing/postgres.ts';
import { startTestService } from '../packages/server/testing/service.ts';
import { taskClient } from '../packages/server/testing/task-client.ts';
import { startCoreTasksUpstream } from './fixtures/core-tasks-upstream.ts';
import { textResultText, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from './fixtures/raw-upstream.ts';
import { type Replicas, replicaEnvironment, startReplicas } from './fixtures/replicas.ts';
import { runTaskSteps, type TaskUpstreams } from './fixtures/task-steps.ts';
import { startTasksUpstream } from './fixtures/tasks-upstream.ts';

// Three replicas behind a balancer, which sends each request to the next one.

let postgres: TestPostgres;
let replicas: Replicas;
let upstreams: TaskUpstreams;
beforeAll(async () => {
  [postgres, upstreams] = await Promise.all([
    startPostgres(),
    Promise.all([startCoreTasksUpstream(), startTasksUpstream()]).then(([core, extension]) => ({ core, extension })),
  ]);
  replicas = await startReplicas(await postgres.createDatabase(), {
    env: { SERVICE_PEER_LISTEN: '127.0.0.1:0', SERVICE_TASK_AUTO_AFTER_MS: '50' },
  });
  for (const [name, { url }] of Object.entries(upstreams)) {
    await replicas.services[0]?.register('forwards', { name, address: url, namespace: name });
  }
});
afterAll(async () => {
  await replicas?.[Symbol.asyncDispose]();
  await Promise.all([upstreams?.core.close(), upstreams?.extension.close(), postgres?.[Symbol.asyncDispose]()]);
});

const url = (namespace: string) => `${replicas.mcp.url}/${namespace}/mcp`;

it('tasks of clients and upstreams of both eras are the same on all replicas', async () => {
  await runTaskSteps(upstreams, url, async () => undefined);
});

it('of two answers to one question at different replicas, the upstream gets one', async () => {
  const client = taskClient(url('core'), 'ann');
  const taskId = await client.create('asks');
  const { result } = await client.until(taskId, 'input_required');
  const inputResponses = {
    [Object.keys(Object(result.inputRequests))[0] ?? '']: { action: 'accept', content: { name: 'Ann' } },
  };
  for (const _ of [1, 2, 3]) {
    expect((await client.request('tasks/update', { taskId, inputResponses })).result).toEqual({
      resultType: 'complete',
    });
  }
  expect((await client.until(taskId, 'completed')).text).toContain('hello Ann');
});

it('a plain call that has become a task is polled through all replicas, and has failed once its own one is gone', async () => {
  const plain = await startRawUpstream({ scripts: { 'tools/list': toolList(toolText('slow')) } });
  const calls: ((response: string) => void)[] = [];
  plain.scripts['tools/call'] = () => new Promise<string>((respond) => void calls.push(respond));
  const [first, second] = replicas.services;
  await first?.register('forwards', { name: 'plain', address: plain.url, namespace: 'plain' });
  // A slow discovery goes on after the response.
  const tool = async () => (await first?.manage('GET', '/tools/slow?namespace=plain'))?.data;
  await expect.poll(tool).toBeTruthy();
  const data = await tool();
  const { forward: _, upstreamName: __, shadowed: ___, ...entry } = Object(data);
  const labeled = { ...entry, labels: { ...entry.labels, 'service.task': 'auto' } };
  expect((await first?.manage('PUT', '/tools/slow?namespace=plain', labeled))?.status).toBe(200);

  const client = taskClient(url('plain'), 'ann');
  const taskId = await client.create('slow');
  for (const _ of [1, 2, 3]) {
    expect((await client.request('tasks/get', { taskId })).result).toMatchObject({ taskId, status: 'working' });
  }
  calls[0]?.(textResultText('at last'));
  await client.until(taskId, 'completed');
  for (const _ of [1, 2, 3]) {
    const { result } = await client.request('tasks/get', { taskId });
    expect(result.result).toMatchObject({ content: [{ text: 'at last' }] });
  }

  const own = await startTestService({
    ...replicaEnvironment(replicas.database),
    SERVICE_PEER_LISTEN: '127.0.0.1:0',
    SERVICE_TASK_AUTO_AFTER_MS: '50',
  });
  const lost = await taskClient(own.url('plain'), 'ann').create('slow');
  expect((await client.request('tasks/get', { taskId: lost })).result.status).toBe('working');
  await own.stop(0);
  // Until the others know that it has stopped, they cannot tell.
  const ended = async () => (await client.request('tasks/get', { taskId: lost })).result?.error;
  await expect.poll(ended).toMatchObject({ message: expect.stringContaining('lost') });
  expect((await taskClient(second?.url('plain') ?? '', 'ben').request('tasks/get', { taskId })).error?.code).toBe(
    -32602,
  );
  await plain.close();
});

it('records that a replica cannot read do not keep it from following the others', async () => {
  const log = { warn: () => undefined, error: () => undefined };
  const other = new ReplicatedLog({ database: new Database({ url: replicas.database, log }), log, version: '9' });
  await other.open();
  const known = await taskClient(url('core')).create('endless');
  const changes = ['tasks', 'sessions', 'forgotten_sessions'].map(
    (section) => ({ section, id: 'later', json: '{"status":"paused"}' }) as const,
  );
  await other.commit({ changes, publish: () => undefined });
  const [first, second] = replicas.services;
  const forward = { name: 'later', address: upstreams.core.url, namespace: 'later' };
  await first?.register('forwards', forward);
  await expect.poll(async () => (await second?.manage('GET', '/forwards/later'))?.status).toBe(200);
  for (const _ of [1, 2, 3]) {
    const { result } = await taskClient(url('core')).request('tasks/get', { taskId: known });
    expect(result.status).toBe('working');
  }
  await other.close();
});

it('a replica that stops leaves its tasks to the others', async () => {
  const [modern, legacy] = [taskClient(url('core')), await coreTaskClient(url('extension'))];
  const [asking, endless] = [await modern.create('asks'), await legacy.create('endless')];
  await modern.until(asking, 'input_required');
  const [first, ...others] = replicas.services;
  replicas.mcp.setBackends(others.map(({ addresses }) => addresses.mcp ?? ''));
  await first?.stop(0);
  const { result } = await modern.until(asking, 'input_required');
  const inputResponses = {
    [Object.keys(Object(result.inputRequests))[0] ?? '']: { action: 'accept', content: { name: 'Ben' } },
  };
  await modern.request('tasks/update', { taskId: asking, inputResponses });
  expect((await modern.until(asking, 'completed')).text).toContain('hello Ben');
  const task = upstreams.extension.tasks.findLast(({ tool }) => tool === 'endless');
  if (task) upstreams.extension.set(task, { status: 'completed', result: '{"content":[]}' });
  expect((await legacy.request('tasks/result', { taskId: endless })).result.content).toEqual([]);
});
