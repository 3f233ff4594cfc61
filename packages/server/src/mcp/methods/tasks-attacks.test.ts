import { describe, expect, it } from 'vitest';
import { startCoreTasksUpstream } from '../../../../../test/fixtures/core-tasks-upstream.ts';
import { toolList } from '../../../../../test/fixtures/raw-upstream/texts.ts';
import type { RawUpstream } from '../../../../../test/fixtures/raw-upstream.ts';
import { startTasksUpstream, type TasksUpstream } from '../../../../../test/fixtures/tasks-upstream.ts';
import { coreTaskClient } from '../../../testing/core-task-client.ts';
import { listenTo } from '../../../testing/listening-client.ts';
import { relayTests } from '../../../testing/relay.ts';
import { startTestService } from '../../../testing/service.ts';
import { taskClient } from '../../../testing/task-client.ts';

// What clients and upstreams can try with tasks. Ids that are forged or of others: tasks-extension.test.ts, tasks-core.test.ts;
// answers to input of others: also tasks-crossing.test.ts.

const tests = relayTests();

async function extensionUpstream(): Promise<{ url: string; upstream: TasksUpstream }> {
  const upstream = await startTasksUpstream();
  tests.onEnd(upstream.close);
  return { url: await tests.register(upstream.url), upstream };
}

const TOOL = '{"name":"work","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}';
const IDENTITY =
  '{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"list":{},"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"x","version":"1"}}';
const RELATED = 'io.modelcontextprotocol/related-task';

/** A legacy upstream that gives each task the next number as its id; `state` is that of all of them. */
async function coreUpstream(state: string | (() => string)): Promise<{ url: string; upstream: RawUpstream }> {
  let last = 0;
  const upstream = await tests.upstreamWith(
    {
      initialize: IDENTITY,
      'tools/list': toolList(TOOL),
      'tools/call': () => `{"task":{"taskId":"${++last}","status":"working","ttl":null}}`,
      'tasks/get': state,
      'tasks/list':
        '{"tasks":[{"taskId":"1","status":"working","ttl":null},{"taskId":"of others","status":"working"}]}',
      POST: { kind: 'http', status: 202, type: 'text/plain', body: '' },
    },
    { eras: ['legacy'] },
  );
  return { url: await tests.register(upstream.url), upstream };
}

describe('a client', () => {
  it('that polls without pause does not load the upstream, nor delay others', async () => {
    const { url, upstream } = await extensionUpstream();
    upstream.scripts['tasks/get'] = ({ params }) =>
      `{"resultType":"complete","taskId":"${params.taskId}","status":"working","ttlMs":null}`;
    const ann = taskClient(url, 'ann');
    const taskId = await ann.create('endless');
    const replies = Array.from({ length: 200 }, () => ann.request('tasks/get', { taskId }));
    const ben = taskClient(url, 'ben');
    const other = await ben.create('endless');
    expect((await ben.request('tasks/get', { taskId: other })).result.status).toBe('working');
    const settled = await Promise.all(replies);
    const rejected = settled.filter(({ error }) => error?.code === -32000);
    expect(rejected.length).toBeGreaterThan(50);
    expect(settled.filter(({ result }) => result.status === 'working')).toHaveLength(200 - rejected.length);
    expect(upstream.count('tasks/get')).toBe(201 - rejected.length);
    // It can go on.
    expect((await ann.request('tasks/get', { taskId })).result.status).toBe('working');
  });

  it('that waits for the same result many times does not load the upstream', async () => {
    const { url, upstream } = await extensionUpstream();
    const task = '"taskId":"1","status":"working","ttlMs":null,"pollIntervalMs":1';
    upstream.scripts['tools/call'] = `{"resultType":"task",${task}}`;
    upstream.scripts['tasks/get'] = `{"resultType":"complete",${task}}`;
    const { create, send } = await coreTaskClient(url);
    const taskId = await create('endless');
    const start = performance.now();
    const waiting = Array.from({ length: 30 }, () => send('tasks/result', { taskId }));
    await expect.poll(() => upstream.count('tasks/get')).toBeGreaterThan(4);
    expect(upstream.count('tasks/get')).toBeLessThan(3 + (performance.now() - start) / 100);
    for (const reader of waiting) reader.disconnect();
  });

  it('with many tasks in a session has one stream for them', async () => {
    const { url, upstream } = await extensionUpstream();
    const { client, create } = await coreTaskClient(url);
    const others = upstream.streams();
    const ids = await Promise.all(Array.from({ length: 20 }, () => create('endless')));
    const stream = client.listen();
    await stream.head;
    ids.push(await create('endless'), await create('endless'));
    const filters = () => upstream.seen.map(({ params }) => Object(params.notifications).taskIds ?? []);
    await expect.poll(() => filters().at(-1)).toHaveLength(22);
    await expect.poll(() => upstream.streams() - others).toBe(1);
    expect(filters().filter(({ length }) => length > 0).length).toBeLessThanOrEqual(3);
    for (const task of upstream.tasks) upstream.set(task, { status: 'completed', result: '{"content":[]}' });
    await expect.poll(() => stream.messages.length).toBe(22);
    expect(new Set(stream.messages.map((text) => JSON.parse(text).params.taskId))).toEqual(new Set(ids));
    await expect.poll(() => upstream.streams() - others).toBe(0);
    stream.disconnect();
  });

  it('cannot use an id again whose task is gone', async () => {
    const { url, upstream } = await extensionUpstream();
    const legacy = await coreTaskClient(url);
    const ids = [await taskClient(url).create('confirm_delete'), await legacy.create('confirm_delete')];
    for (const task of upstream.tasks) upstream.discard(task);
    const inputResponses = { confirm: { action: 'accept', content: {} } };
    for (const taskId of ids) {
      // The first request learns that from the upstream, and nothing is sent there for later ones.
      for (const method of ['tasks/get', 'tasks/get', 'tasks/update', 'tasks/cancel']) {
        const reply = await taskClient(url).request(method, { taskId, inputResponses });
        expect(reply.error).toEqual({ code: -32602, message: 'task not found' });
      }
      for (const method of ['tasks/get', 'tasks/result', 'tasks/cancel']) {
        expect((await legacy.request(method, { taskId })).error).toEqual({ code: -32602, message: 'task not found' });
      }
    }
    expect([upstream.count('tasks/get'), upstream.count('tasks/update'), upstream.count('tasks/cancel')]).toEqual([
      2, 0, 0,
    ]);
    expect((await legacy.request('tasks/list', {})).result.tasks).toEqual([]);
  });

  it('without tasks does not wait for one that never ends', async () => {
    const service = await startTestService({ SERVICE_UPSTREAM_MAX_TIMEOUT_MS: '1500' });
    tests.onEnd(() => service.stop());
    const [extension, core] = [await startTasksUpstream(), await startCoreTasksUpstream()];
    for (const { close } of [extension, core]) tests.onEnd(close);
    const urls = [await tests.register(extension.url, {}, service), await tests.register(core.url, {}, service)];
    const calls = urls.map((url) => taskClient(url, undefined, '{}').request('tools/call', { name: 'endless' }));
    for (const { error } of await Promise.all(calls)) expect(error?.message).toContain('did not finish within 1.5 s');
    await expect.poll(() => extension.tasks[0]?.status).toBe('cancelled');
    await expect.poll(() => core.statusOf(core.tasks[0] ?? '')).toBe('cancelled');
  });
});

describe('an upstream', () => {
  it('cannot change the id or the end of a core task', async () => {
    const { url, upstream } = await coreUpstream('{"taskId":"another","status":"completed","ttl":null}');
    upstream.scripts['tasks/result'] = '{"content":[]}';
    const [modern, legacy] = [taskClient(url), await coreTaskClient(url)];
    const ids = [await modern.create('work'), await legacy.create('work')] as const;
    const states = async () => [
      await modern.request('tasks/get', { taskId: ids[0] }),
      await legacy.request('tasks/get', { taskId: ids[1] }),
    ];
    expect(await states()).toMatchObject(ids.map((taskId) => ({ result: { taskId, status: 'completed' } })));
    upstream.scripts['tasks/get'] = '{"taskId":"1","status":"working","ttl":null}';
    for (const { error } of await states()) {
      expect(error.message).toBe(
        'forwarded request failed: the upstream answered with another status of a task that has ended',
      );
    }
  });

  it('cannot show its own ids by repeating members', async () => {
    const id = 'own-id-1';
    const task = `{"taskId":"${id}","taskId":"${id}","status":"working","ttl":null}`;
    const related = `"_meta":{"${RELATED}":{"taskId":"${id}","taskId":"${id}"}}`;
    // Of duplicates, clients read the last one.
    const twice = (result: string) => `${result},"result":${result}`;
    const { url, upstream } = await coreUpstream(twice(task));
    upstream.scripts['tools/call'] = twice(`{"task":${task},"task":${task},${related},${related}}`);
    upstream.scripts['tasks/cancel'] = twice(task);
    upstream.scripts['tasks/result'] = twice(`{"content":[],${related},${related}}`);
    const { client, create, request } = await coreTaskClient(url);
    const responses = [await client.post(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"work"}}`)];
    const created = await request('tools/call', { name: 'work', arguments: {}, task: {} });
    const taskId = await create('work');
    for (const method of ['tasks/get', 'tasks/result', 'tasks/cancel']) {
      responses.push(await client.post(JSON.stringify({ jsonrpc: '2.0', id: method, method, params: { taskId } })));
    }
    expect([created.result.task.taskId, taskId]).not.toContain(id);
    for (const { text } of responses) {
      expect(text).toContain('"result"');
      expect(text).not.toContain(id);
    }
  });

  it('that wants to be polled every millisecond is not', async () => {
    const { url, upstream } = await coreUpstream('{"taskId":"1","status":"working","ttl":null,"pollInterval":1}');
    const taskId = await taskClient(url).create('work');
    const capabilities = '{"extensions":{"io.modelcontextprotocol/tasks":{}}}';
    const listening = await listenTo(url, { taskIds: [taskId] }, { capabilities });
    await listening.first(1);
    const [before, start] = [upstream.count('tasks/get'), performance.now()];
    await expect.poll(() => upstream.count('tasks/get')).toBeGreaterThan(before + 4);
    expect(performance.now() - start).toBeGreaterThan(390);
    listening.disconnect();
  });

  it('with another state each time is polled once for all clients that listen', async () => {
    let at = 0;
    const { url, upstream } = await coreUpstream(() => {
      const state = `"status":"working","statusMessage":"step ${++at}","ttl":${60_000 + at},"pollInterval":5000`;
      return `{"taskId":"1",${state}}`;
    });
    const client = taskClient(url);
    const taskId = await client.create('work');
    const capabilities = '{"extensions":{"io.modelcontextprotocol/tasks":{}}}';
    const open = (id: string) => listenTo(url, { taskIds: [taskId] }, { id, capabilities });
    const streams = await Promise.all(['1', '2', '3', '4'].map(open));
    for (const stream of streams) await stream.first(2);
    for (let times = 0; times < 5; times++) await client.request('tasks/get', { taskId });
    // Those of the client, and at most one for each stream.
    expect(upstream.count('tasks/get')).toBeLessThanOrEqual(9);
    for (const { events } of streams) expect(events.length).toBeLessThanOrEqual(5);
    for (const stream of streams) stream.disconnect();
  });

  it('cannot list or report tasks of others', async () => {
    const { url, upstream } = await coreUpstream('{"taskId":"1","status":"working","ttl":null}');
    const { client, create, request } = await coreTaskClient(url);
    const [one, two] = [await create('work'), await taskClient(url).create('work')];
    expect((await request('tasks/list', {})).result.tasks).toMatchObject([{ taskId: one }]);
    expect(upstream.count('tasks/list')).toBe(0);
    const stream = client.listen();
    await stream.head;
    await expect.poll(upstream.streams).toBeGreaterThanOrEqual(2);
    // To all sessions, of which each task has one.
    for (const id of ['of others', '2', '1']) {
      const params = `{"taskId":"${id}","status":"failed","ttl":null,"statusMessage":"pushed"}`;
      upstream.push(`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":${params}}`);
    }
    await stream.matching(/pushed/);
    expect(stream.messages.map((text) => JSON.parse(text).params.taskId)).toEqual([one]);
    expect((await taskClient(url).request('tasks/get', { taskId: two })).error?.code).toBe(-32603);
    stream.disconnect();
  });

  it('cannot ask more of a client than there is room for', async () => {
    const { url, upstream } = await coreUpstream('{"taskId":"1","status":"input_required","ttl":null}');
    upstream.scripts['tasks/result'] = { kind: 'silence' };
    const client = taskClient(url);
    const taskId = await client.create('work');
    const question = (id: number, method: string, message: string) => {
      const params = {
        mode: 'form',
        message,
        requestedSchema: { type: 'object' },
        _meta: { [RELATED]: { taskId: '1' } },
      };
      upstream.push(JSON.stringify({ jsonrpc: '2.0', id, method, params }));
    };
    question(1, 'vendor/ask', 'not a question');
    question(2, 'elicitation/create', 'x'.repeat(300_000));
    for (let id = 3; id < 43; id++) question(id, 'elicitation/create', 'Again?');
    const rejected = () => upstream.seen.filter(({ body }) => body.includes('"error"')).map(({ id }) => Number(id));
    await expect.poll(() => rejected().length).toBe(10);
    expect(rejected()).toEqual(expect.arrayContaining([1, 2, 35, 42]));
    const { result } = await client.request('tasks/get', { taskId });
    expect(Object.keys(Object(result.inputRequests))).toHaveLength(32);
  });
});
