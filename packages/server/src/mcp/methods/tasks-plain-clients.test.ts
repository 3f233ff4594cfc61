import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { startCoreTasksUpstream } from '../../../../../test/fixtures/core-tasks-upstream.ts';
import { messages, modernClient } from '../../../../../test/fixtures/raw-client.ts';
import { startTasksUpstream, type TasksUpstream } from '../../../../../test/fixtures/tasks-upstream.ts';
import { InteractiveClient } from '../../../testing/interactive-client.ts';
import { relayTests } from '../../../testing/relay.ts';
import { startTestService } from '../../../testing/service.ts';
import { ResponseReader, type SessionClient, sessionClient } from '../../../testing/session-client.ts';
import { taskClient } from '../../../testing/task-client.ts';
import { diskFiles, type Files } from '../../registry/store/files.ts';

const tests = relayTests();

async function upstreamWithTasks(): Promise<{ url: string; upstream: TasksUpstream }> {
  const upstream = await startTasksUpstream();
  tests.onEnd(upstream.close);
  return { url: await tests.register(upstream.url), upstream };
}

/** Sends the tool call of a legacy client; the response is read as it arrives. */
function legacyCall(client: SessionClient, name: string, args: object, meta: object = {}): ResponseReader {
  const params = { name, arguments: args, _meta: meta };
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  const body = JSON.stringify({ jsonrpc: '2.0', id: 'call', method: 'tools/call', params });
  return new ResponseReader(client.url, 'POST', { ...headers, ...client.headers }, body);
}

async function replyOf(reader: ResponseReader) {
  await reader.ended;
  return JSON.parse(reader.messages.at(-1) ?? '{}');
}

describe('a modern client that does not declare the tasks extension', () => {
  it('gets the results of tasks as if they were those of its calls', async () => {
    const { url, upstream } = await upstreamWithTasks();
    const client = taskClient(url, undefined, '{"elicitation":{},"extensions":{"x/y":{"n":1.0}}}');
    const call = (name: string, args = {}) => client.request('tools/call', { name, arguments: args });
    expect((await call('polled', { polls: 3 })).result).toEqual({
      content: [{ type: 'text', text: 'polled' }],
      isError: false,
      resultType: 'complete',
    });
    expect((await call('failing_job')).result).toMatchObject({ isError: true, resultType: 'complete' });
    const failed = await call('protocol_error_job');
    expect([failed.status, failed.error]).toEqual([200, { code: -32603, message: 'out of order', data: { part: 1 } }]);
    expect((await call('greet', { name: 'Ann' })).result.content).toEqual([{ type: 'text', text: 'Hello, Ann!' }]);
    expect(upstream.tasks.map(({ tool }) => tool)).toEqual(['polled', 'failing_job', 'protocol_error_job']);
    const seen = upstream.seen.find(({ method }) => method === 'tools/call');
    expect(seen?.body).toContain('"extensions":{"io.modelcontextprotocol/tasks":{},"x/y":{"n":1.0}}');
    // No task is left that another client could ask for.
    const { error } = await taskClient(url).request('tasks/get', { taskId: upstream.tasks[0]?.id });
    expect(error?.code).toBe(-32602);
  });

  it.each([20_000, 200_000])('gets a whole result of %i characters', async (size) => {
    const { url } = await upstreamWithTasks();
    const { result } = await taskClient(url, undefined, '{}').request('tools/call', {
      name: 'large',
      arguments: { size },
    });
    expect(result).toEqual({
      content: [{ type: 'text', text: 'x'.repeat(size) }],
      isError: false,
      resultType: 'complete',
    });
  });

  it('is polled for although the service declares more to the upstream than a client may', async () => {
    const { url } = await upstreamWithTasks();
    // With the extension that the service adds, more than 64 KiB.
    const capabilities = `{"experimental":{"x":{"y":"${'y'.repeat(65_490)}"}}}`;
    const { result } = await taskClient(url, undefined, capabilities).request('tools/call', {
      name: 'polled',
      arguments: { polls: 1 },
    });
    expect(result.content).toEqual([{ type: 'text', text: 'polled' }]);
  });

  it('is not polled for as often as an upstream wants', async () => {
    const { url, upstream } = await upstreamWithTasks();
    const start = performance.now();
    await taskClient(url, undefined, '{}').request('tools/call', { name: 'polled', arguments: { polls: 4 } });
    // The upstream suggests an interval of 20 ms.
    expect(performance.now() - start).toBeGreaterThan(390);
    expect(upstream.tasks[0]?.polls).toBe(4);
  });

  it('gets status messages as progress, if it requests that', async () => {
    const { url } = await upstreamWithTasks();
    const client = modernClient(url, '{}', '"progressToken":"mine"');
    const response = await client.call('tools/call', '{"name":"polled","arguments":{"polls":3}}');
    const received = messages(response).map((text) => JSON.parse(text));
    expect(received.slice(0, -1).map(({ params }) => params)).toEqual([
      { progressToken: 'mine', progress: 1, message: 'poll 1' },
      { progressToken: 'mine', progress: 2, message: 'poll 2' },
    ]);
    expect(received.at(-1).result.content).toEqual([{ type: 'text', text: 'polled' }]);
  });

  it('cancels the task when it disconnects', async () => {
    const { url, upstream } = await upstreamWithTasks();
    const { headers } = modernClient(url);
    const meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientCapabilities': {},
    };
    const reader = new ResponseReader(
      url,
      'POST',
      { 'content-type': 'application/json', ...headers, 'mcp-method': 'tools/call', 'mcp-name': 'endless' },
      JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'endless', _meta: meta } }),
    );
    await expect.poll(() => upstream.tasks[0]?.polls).toBeGreaterThan(0);
    reader.disconnect();
    await expect.poll(() => upstream.tasks[0]?.status).toBe('cancelled');
  });

  it('is asked for input with a result, and continues with its retries', async () => {
    const { url, upstream } = await upstreamWithTasks();
    const client = taskClient(url, 'ann', '{"elicitation":{}}');
    const call = (more: object, by = client) =>
      by.request('tools/call', { name: 'multi_input', arguments: {}, ...more });
    const { result } = await call({});
    expect(result).toMatchObject({ resultType: 'input_required', inputRequests: { first: {}, second: {} } });
    expect(result).not.toHaveProperty('taskId');
    const { requestState } = result;
    const answer = (name: string) => ({ action: 'accept', content: { name } });
    const foreign = await call({ requestState, inputResponses: {} }, taskClient(url, 'ben', '{"elicitation":{}}'));
    expect(foreign.error?.code).toBe(-32602);
    const between = await call({ requestState, inputResponses: { second: answer('b') } });
    expect(Object.keys(Object(between.result.inputRequests))).toEqual(['first']);
    const end = await call({
      requestState: between.result.requestState,
      inputResponses: { first: answer('a') },
    });
    expect(JSON.stringify(end.result.content)).toContain('answered [{\\"name\\":\\"b\\"},{\\"name\\":\\"a\\"}]');
    expect(upstream.tasks).toHaveLength(1);
    const late = await call({ requestState, inputResponses: { first: answer('c') } });
    expect(late.error?.message).toContain('the task is no longer known');
    expect((await taskClient(url, 'ann', '{}').request('tools/call', { name: 'confirm_delete' })).error?.message).toBe(
      'forwarded tool call failed: the upstream requires input that the client does not support',
    );
    await expect.poll(() => upstream.tasks[1]?.status).toBe('cancelled');
  });

  it('leaves no task behind if it disconnects while that is stored', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-tasks-'));
    tests.onEnd(() => rm(folder, { recursive: true }));
    const [reached, continued] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const disk = diskFiles();
    const files: Files = {
      ...disk,
      async open(path, flags) {
        const file = await disk.open(path, flags);
        const write: typeof file.write = async (...bytes) => {
          reached.resolve();
          await continued.promise;
          await file.write(...bytes);
        };
        return basename(path).startsWith('records.journal') ? { ...file, write } : file;
      },
    };
    const env = { SERVICE_PERSIST_BACKEND: 'file', SERVICE_PERSIST_PATH: folder };
    const service = await startTestService(env, [], files);
    tests.onEnd(() => service.stop());
    const upstream = await startTasksUpstream();
    tests.onEnd(upstream.close);
    const client = new InteractiveClient(await tests.register(upstream.url, {}, service));
    const reader = client.send({ params: '"name":"confirm_delete"' });
    await reached.promise;
    reader.disconnect();
    await expect.poll(() => upstream.tasks[0]?.status).toBe('cancelled');
    continued.resolve();
    const journal = async () => {
      const names = (await readdir(folder)).filter((name) => name.startsWith('records.journal'));
      return (await Promise.all(names.map((name) => readFile(join(folder, name), 'utf8')))).join('');
    };
    await expect.poll(journal).toContain('["remove","tasks",');
  });

  it('gets an error when the task ends without a result', async () => {
    const { url, upstream } = await upstreamWithTasks();
    const call = () => taskClient(url, undefined, '{}').request('tools/call', { name: 'endless' });
    const canceled = call();
    await expect.poll(() => upstream.tasks[0]?.polls).toBeGreaterThan(0);
    if (upstream.tasks[0]) upstream.set(upstream.tasks[0], { status: 'cancelled' });
    expect((await canceled).error?.message).toBe('forwarded tool call failed: the upstream canceled the task');
    const lost = call();
    await expect.poll(() => upstream.tasks[1]?.polls).toBeGreaterThan(0);
    if (upstream.tasks[1]) upstream.discard(upstream.tasks[1]);
    expect((await lost).error?.message).toBe('forwarded tool call failed: the upstream no longer knows the task');
  });
});

describe('a legacy client', () => {
  it('gets the results of tasks of a modern upstream as if they were those of its calls', async () => {
    const { url, upstream } = await upstreamWithTasks();
    const client = await sessionClient(url);
    const reader = legacyCall(client, 'polled', { polls: 3 }, { progressToken: 7 });
    expect((await replyOf(reader)).result.content).toEqual([{ type: 'text', text: 'polled' }]);
    expect(reader.messages.slice(0, -1).map((text) => JSON.parse(text).params)).toEqual([
      { progressToken: 7, progress: 1, message: 'poll 1' },
      { progressToken: 7, progress: 2, message: 'poll 2' },
    ]);
    const failed = await replyOf(legacyCall(client, 'protocol_error_job', {}));
    expect(failed.error).toEqual({ code: -32603, message: 'out of order', data: { part: 1 } });
    expect(upstream.tasks).toHaveLength(2);
  });

  it('is asked for input on the stream of its call', async () => {
    const { url, upstream } = await upstreamWithTasks();
    const client = await sessionClient(url, { capabilities: '{"elicitation":{}}' });
    const reader = legacyCall(client, 'multi_input', {});
    const [one, two] = [JSON.parse(await reader.message(0)), JSON.parse(await reader.message(1))];
    expect([one.method, one.params.message, two.params.message]).toEqual(['elicitation/create', 'One?', 'Two?']);
    for (const [request, name] of [
      [two, 'b'],
      [one, 'a'],
    ] as const) {
      const result = { action: 'accept', content: { name } };
      const answered = await client.post(JSON.stringify({ jsonrpc: '2.0', id: request.id, result }));
      expect(answered.status).toBe(202);
    }
    expect((await replyOf(reader)).result.content[0].text).toBe('answered [{"name":"b"},{"name":"a"}]');
    expect(reader.messages).toHaveLength(3);
    expect(upstream.tasks).toHaveLength(1);
  });

  it('that does not support the required input gets an error, and the task is canceled', async () => {
    const { url, upstream } = await upstreamWithTasks();
    const { error } = await replyOf(legacyCall(await sessionClient(url), 'confirm_delete', {}));
    expect(error.message).toBe(
      'forwarded tool call failed: the upstream requires input that the client does not support',
    );
    await expect.poll(() => upstream.tasks[0]?.status).toBe('cancelled');
  });

  it('cancels the task with its call, and not by disconnecting', async () => {
    const { url, upstream } = await upstreamWithTasks();
    const client = await sessionClient(url);
    const reader = legacyCall(client, 'endless', {});
    const gone = legacyCall(client, 'endless', {});
    await expect.poll(() => upstream.tasks.length === 2 && upstream.tasks[1]?.polls).toBeGreaterThan(0);
    gone.disconnect();
    await client.post('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"call"}}');
    await reader.ended;
    await expect.poll(() => upstream.tasks.filter(({ status }) => status === 'cancelled').length).toBe(1);
  });
});

describe('a tool of a legacy upstream that requires a task', () => {
  async function coreUpstream() {
    const upstream = await startCoreTasksUpstream();
    tests.onEnd(upstream.close);
    return { url: await tests.register(upstream.url), upstream };
  }

  it('leaves its session to nobody when it disconnects: the upstream may still ask for input', async () => {
    const { url, upstream } = await coreUpstream();
    const reader = new InteractiveClient(url).send({ params: '"name":"endless"' });
    await expect.poll(upstream.sessions).toBeGreaterThan(0);
    await expect.poll(() => upstream.tasks.length).toBe(1);
    const open = upstream.sessions();
    reader.disconnect();
    await expect.poll(upstream.sessions).toBeLessThan(open);
  });

  it('can be called by a legacy client without one, which is asked on the stream of its call', async () => {
    const { url, upstream } = await coreUpstream();
    const client = await sessionClient(url, { capabilities: '{"elicitation":{}}' });
    const reader = legacyCall(client, 'asks', {});
    const question = JSON.parse(await reader.message(0));
    expect(question.method).toBe('elicitation/create');
    expect(JSON.stringify(question)).not.toContain('related-task');
    const result = { action: 'accept', content: { name: 'Ann' } };
    await client.post(JSON.stringify({ jsonrpc: '2.0', id: question.id, result }));
    const { result: end } = await replyOf(reader);
    expect(end.content).toEqual([{ type: 'text', text: 'hello Ann' }]);
    expect(JSON.stringify(end)).not.toContain('related-task');
    const failed = await replyOf(legacyCall(client, 'fails', {}));
    expect(failed.result).toMatchObject({ isError: true, content: [{ text: 'no luck' }] });
    expect((await replyOf(legacyCall(client, 'plain', {}))).result.content[0].text).toBe('plain');
    expect(upstream.tasks).toHaveLength(2);
    expect((await client.request('tasks/list')).result).toEqual({ tasks: [] });
  });

  it('can be called by a modern client, which is asked with a result', async () => {
    const { url, upstream } = await coreUpstream();
    const client = taskClient(url, undefined, '{"elicitation":{}}');
    const call = (more: object) => client.request('tools/call', { name: 'asks', arguments: {}, ...more });
    const { result } = await call({});
    expect(result.resultType).toBe('input_required');
    const [key = ''] = Object.keys(Object(result.inputRequests));
    const inputResponses = { [key]: { action: 'accept', content: { name: 'Ann' } } };
    const end = await call({ requestState: result.requestState, inputResponses });
    expect(end.result).toMatchObject({ resultType: 'complete', content: [{ type: 'text', text: 'hello Ann' }] });
    expect(end.text).not.toContain('related-task');
    expect(upstream.tasks).toHaveLength(1);
  });

  it('is polled for status messages if the client requests progress, since the upstream need not send them', async () => {
    const { url, upstream } = await coreUpstream();
    const modern = modernClient(url);
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientCapabilities': {},
      progressToken: 7,
    };
    const headers = { ...modern.headers, 'content-type': 'application/json', 'mcp-method': 'tools/call' };
    const params = { name: 'endless', _meta };
    const calls = [
      legacyCall(await sessionClient(url), 'endless', {}, { progressToken: 7 }),
      new ResponseReader(
        url,
        'POST',
        { ...headers, accept: 'application/json, text/event-stream', 'mcp-name': 'endless' },
        JSON.stringify({ jsonrpc: '2.0', id: 'call', method: 'tools/call', params }),
      ),
    ];
    await expect.poll(() => upstream.tasks.length).toBe(2);
    for (const [at, message] of ['one', 'two'].entries()) {
      for (const task of upstream.tasks) await upstream.setStatusMessage(task, message);
      for (const call of calls) {
        expect(JSON.parse(await call.message(at))).toMatchObject({
          method: 'notifications/progress',
          params: { progressToken: 7, progress: at + 1, message },
        });
      }
    }
    for (const task of upstream.tasks) await upstream.finish(task, 'done');
    for (const call of calls) expect((await replyOf(call)).result.content).toEqual([{ type: 'text', text: 'done' }]);
  });

  it('is canceled with the call', async () => {
    const { url, upstream } = await coreUpstream();
    const client = await sessionClient(url);
    const reader = legacyCall(client, 'endless', {});
    await expect.poll(() => upstream.tasks.length).toBe(1);
    await client.post('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"call"}}');
    await reader.ended;
    await expect.poll(() => upstream.statusOf(upstream.tasks[0] ?? '')).toBe('cancelled');
  });
});

describe('with SERVICE_TASKS_FOR_PLAIN_CLIENTS=0', () => {
  it('a tool that requires a task rejects clients that do not support tasks', async () => {
    const service = await startTestService({ SERVICE_TASKS_FOR_PLAIN_CLIENTS: '0' });
    tests.onEnd(() => service.stop());
    const upstream = await startTasksUpstream();
    tests.onEnd(upstream.close);
    const url = await tests.register(upstream.url, {}, service);
    const { status, error } = await taskClient(url, undefined, '{}').request('tools/call', { name: 'endless' });
    expect([status, error?.code]).toEqual([400, -32021]);
    expect(error?.data).toEqual({ requiredCapabilities: { extensions: { 'io.modelcontextprotocol/tasks': {} } } });
    const legacy = await replyOf(legacyCall(await sessionClient(url), 'endless', {}));
    expect(legacy.error.code).toBe(-32601);
    expect(await taskClient(url).create('endless')).toBeDefined();
    expect(upstream.tasks).toHaveLength(1);

    const core = await startCoreTasksUpstream();
    tests.onEnd(core.close);
    const coreUrl = await tests.register(core.url, {}, service);
    const modern = await taskClient(coreUrl, undefined, '{}').request('tools/call', { name: 'endless' });
    expect([modern.status, modern.error?.code]).toEqual([400, -32021]);
    // As the SDK's server responds.
    expect((await replyOf(legacyCall(await sessionClient(coreUrl), 'endless', {}))).result.isError).toBe(true);
    expect(core.tasks).toHaveLength(0);
    expect(await taskClient(coreUrl).create('endless')).toBeDefined();
  });
});
