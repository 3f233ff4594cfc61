import { readFile, writeFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { coreTaskClient } from '../packages/server/testing/core-task-client.ts';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { ResponseReader } from '../packages/server/testing/session-client.ts';
import { type TaskClient, taskClient } from '../packages/server/testing/task-client.ts';
import { type CoreTasksUpstream, startCoreTasksUpstream } from './fixtures/core-tasks-upstream.ts';
import { textResultText, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';
import { startTasksUpstream, type TasksUpstream } from './fixtures/tasks-upstream.ts';

// Every kind of client with every kind of upstream. The outcomes are the tables of docs/tasks.md:
// UPDATE=1 npx vitest run test/tasks-pairings.test.ts writes them.

let service: TestService;
let core: CoreTasksUpstream;
let extension: TasksUpstream;
let plain: RawUpstream;
beforeAll(async () => {
  [service, core, extension, plain] = await Promise.all([
    startTestService(),
    startCoreTasksUpstream(),
    startTasksUpstream(),
    startRawUpstream({
      scripts: { 'tools/list': toolList(toolText('works')), 'tools/call': textResultText('worked') },
    }),
  ]);
  for (const [namespace, { url }] of Object.entries({ core, extension, plain })) {
    await service.register('forwards', { name: namespace, address: url, namespace });
  }
});
afterAll(async () => {
  await service?.stop(0);
  await Promise.all([core, extension, plain].map((upstream) => upstream?.close()));
});

/** The tool of an upstream for each test. */
interface Tools {
  readonly namespace: 'core' | 'extension' | 'plain';
  readonly works: string;
  readonly arguments?: object;
  readonly asks?: string;
  readonly fails?: string;
}

const UPSTREAMS: Readonly<Record<string, Tools>> = {
  'core tasks, required': { namespace: 'core', works: 'works', asks: 'asks', fails: 'fails' },
  'core tasks, optional': { namespace: 'core', works: 'optional' },
  'extension, required': {
    namespace: 'extension',
    works: 'polled',
    arguments: { polls: 1 },
    asks: 'confirm_delete',
    fails: 'failing_job',
  },
  'extension, optional': { namespace: 'extension', works: 'slow_compute', arguments: { seconds: 0.1 } },
  'no tasks': { namespace: 'plain', works: 'works' },
};

/** One kind of client: each test returns what the client has observed. */
interface Client {
  works(tools: Tools): Promise<string>;
  asks(tool: string): Promise<string>;
  fails(tool: string): Promise<string>;
  cancels(): Promise<string>;
  /** `discard` makes the upstream forget the task. */
  loses(discard: () => void): Promise<string>;
}

const ANSWER = { action: 'accept', content: { name: 'Ann' } };
const ELICITATION = { method: 'elicitation/create', params: { mode: 'form' } };
const RELATED = 'io.modelcontextprotocol/related-task';

async function legacyPlain(url: string): Promise<Client> {
  const { send, answer, end, cancel, request } = await coreTaskClient(url);
  const call = (name: string, args = {}) => send('tools/call', { name, arguments: args });
  return {
    works: async (tools) => kindOf((await end(call(tools.works, tools.arguments))).result),
    async asks(tool) {
      const reader = call(tool);
      const question = await answer(reader);
      expect(question).toMatchObject(ELICITATION);
      expect(question).not.toHaveProperty(['params', '_meta', RELATED]);
      expect(JSON.stringify((await end(reader)).result.content)).toContain('Ann');
      return 'request on the stream of the call';
    },
    async fails(tool) {
      const { result } = await request('tools/call', { name: tool, arguments: {} });
      return `result with isError: ${result.isError}`;
    },
    async cancels() {
      const reader = call('endless');
      await running();
      await cancel();
      await reader.ended;
      return 'notifications/cancelled';
    },
    async loses(discard) {
      const reader = call('endless');
      await running();
      discard();
      expect(await end(reader)).toHaveProperty('error');
      return 'error of the call';
    },
  };
}

async function legacyTasks(url: string): Promise<Client> {
  const { send, answer, end, request, create } = await coreTaskClient(url);
  const call = (name: string, args = {}) => request('tools/call', { name, arguments: args, task: { ttl: 60_000 } });
  return {
    async works(tools) {
      const { result } = await call(tools.works, tools.arguments);
      if (!result.task) return kindOf(result);
      const { taskId, ttl } = result.task;
      expect(ttl).toBe(60_000);
      const finished = await request('tasks/result', { taskId });
      expect(finished.result).toMatchObject({ content: [{}], _meta: { [RELATED]: { taskId } } });
      expect((await request('tasks/get', { taskId })).result).toMatchObject({
        taskId,
        status: 'completed',
        ttl: 60_000,
      });
      const { tasks } = (await request('tasks/list', {})).result;
      expect(tasks).toContainEqual(expect.objectContaining({ taskId, status: 'completed' }));
      return 'task';
    },
    async asks(tool) {
      const taskId = await create(tool);
      expect((await request('tasks/get', { taskId })).result.status).toBe('input_required');
      const reader = send('tasks/result', { taskId });
      expect(await answer(reader)).toMatchObject({ ...ELICITATION, params: { _meta: { [RELATED]: { taskId } } } });
      expect(JSON.stringify((await end(reader)).result.content)).toContain('Ann');
      return 'request on the stream of tasks/result';
    },
    async fails(tool) {
      const taskId = await create(tool);
      const { result } = await request('tasks/result', { taskId });
      return `${(await request('tasks/get', { taskId })).result.status}, result with isError: ${result.isError}`;
    },
    async cancels() {
      const taskId = await create('endless');
      const { result } = await request('tasks/cancel', { taskId });
      expect(result).toMatchObject({ taskId, status: 'cancelled' });
      expect((await request('tasks/get', { taskId })).result).toMatchObject({ taskId, status: 'cancelled' });
      expect((await request('tasks/cancel', { taskId })).error.code).toBe(-32602);
      return `tasks/cancel: ${result.status} at once, and for good`;
    },
    async loses(discard) {
      const taskId = await create('endless');
      discard();
      const codes = [];
      for (const method of ['tasks/get', 'tasks/result', 'tasks/cancel'])
        codes.push((await request(method, { taskId })).error.code);
      return `error ${[...new Set(codes)].join()}`;
    },
  };
}

async function modernPlain(url: string): Promise<Client> {
  const client: TaskClient = taskClient(url, undefined, '{"elicitation":{}}');
  const call = (name: string, more = {}) => client.request('tools/call', { name, arguments: {}, ...more });
  return {
    works: async (tools) => kindOf((await call(tools.works, { arguments: tools.arguments ?? {} })).result),
    async asks(tool) {
      const { result } = await call(tool);
      const { inputRequests, requestState } = result;
      const [key = ''] = Object.keys(Object(inputRequests));
      const end = await call(tool, { requestState, inputResponses: { [key]: ANSWER } });
      expect(JSON.stringify(end.result.content)).toContain('Ann');
      return `result of type ${result.resultType}, and a retry`;
    },
    fails: async (tool) => `result with isError: ${(await call(tool)).result.isError}`,
    async cancels() {
      const meta = {
        'io.modelcontextprotocol/protocolVersion': '2026-07-28',
        'io.modelcontextprotocol/clientCapabilities': {},
      };
      const headers = {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': 'tools/call',
        'mcp-name': 'endless',
      };
      const params = { name: 'endless', arguments: {}, _meta: meta };
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params });
      const reader = new ResponseReader(url, 'POST', headers, body);
      await running();
      reader.disconnect();
      return 'disconnecting';
    },
    async loses(discard) {
      const ended = call('endless');
      await running();
      discard();
      expect((await ended).error).toBeDefined();
      return 'error of the call';
    },
  };
}

async function modernTasks(url: string): Promise<Client> {
  const client: TaskClient = taskClient(url);
  return {
    async works(tools) {
      const { result } = await client.request('tools/call', { name: tools.works, arguments: tools.arguments ?? {} });
      if (result.resultType !== 'task') return kindOf(result);
      const { taskId, status, pollIntervalMs } = result;
      expect([status, pollIntervalMs, typeof result.ttlMs]).toEqual(['working', 20, 'number']);
      const end = await client.until(String(taskId), 'completed');
      expect(end.result).toMatchObject({ taskId, resultType: 'complete', result: { content: [{}] } });
      expect(end.text).not.toContain(RELATED);
      return 'task';
    },
    async asks(tool) {
      const taskId = await client.create(tool);
      const { result } = await client.until(taskId, 'input_required');
      const [[key = '', question] = []] = Object.entries(Object(result.inputRequests));
      expect(question).toMatchObject(ELICITATION);
      const inputResponses = { [key]: ANSWER, unknown: ANSWER };
      expect((await client.request('tasks/update', { taskId, inputResponses })).result).toEqual({
        resultType: 'complete',
      });
      expect((await client.until(taskId, 'completed')).text).toContain('Ann');
      return 'inputRequests and tasks/update';
    },
    async fails(tool) {
      const { result } = await client.until(await client.create(tool), 'completed');
      return `${result.status}, result with isError: ${Object(result.result).isError}`;
    },
    async cancels() {
      const taskId = await client.create('endless');
      const { result } = await client.request('tasks/cancel', { taskId });
      expect(result).toEqual({ resultType: 'complete' });
      await client.until(taskId, 'cancelled');
      expect((await client.request('tasks/cancel', { taskId })).error).toBeUndefined();
      return 'tasks/cancel: acknowledged';
    },
    async loses(discard) {
      const taskId = await client.create('endless');
      discard();
      const codes = [(await client.request('tasks/get', { taskId })).error?.code];
      codes.push((await client.request('tasks/cancel', { taskId })).error?.code);
      return `error ${[...new Set(codes)].join()}`;
    },
  };
}

const CLIENTS: Readonly<Record<string, (url: string) => Promise<Client>>> = {
  'modern, declares the extension': modernTasks,
  'modern, does not declare it': modernPlain,
  'legacy, requests a task': legacyTasks,
  'legacy, requests none': legacyPlain,
};

function kindOf(result: { readonly content?: unknown }): string {
  expect(result.content).toMatchObject([{ type: 'text' }]);
  return 'result';
}

/** State of the latest task of the upstream of a pairing. */
let latest: () => Promise<string | undefined> = async () => undefined;

async function running(): Promise<void> {
  await expect.poll(latest).toBe('working');
}

/** Runs a test of a client, in which the upstream gets one task more. */
async function withTask(namespace: Tools['namespace'], run: (discard: () => void) => Promise<string>): Promise<string> {
  const created = namespace === 'core' ? core.tasks.length : extension.tasks.length;
  latest = async () => {
    if (namespace === 'core') return await core.statusOf(core.tasks[created] ?? '');
    return extension.tasks[created]?.status;
  };
  return await run(() => {
    const [id, task] = [core.tasks[created] ?? '', extension.tasks[created]];
    if (namespace === 'core') core.discard(id);
    else if (task) extension.discard(task);
  });
}

/** Outcomes by client: what it gets, by upstream; and what it observes of its tasks. */
const kinds: string[][] = [];
const observations: string[][] = [];

describe.each(Object.entries(CLIENTS))('a client of this kind: %s', (name, connect) => {
  it('gets a task or a result', async () => {
    const row = [name];
    for (const tools of Object.values(UPSTREAMS)) {
      row.push(await (await connect(service.url(tools.namespace))).works(tools));
    }
    kinds.push(row);
  });

  it('cannot observe the era of the upstream', async () => {
    const seen: string[][] = [];
    for (const { namespace, asks, fails } of Object.values(UPSTREAMS)) {
      if (asks === undefined || fails === undefined) continue;
      const client = await connect(service.url(namespace));
      const input = await client.asks(asks);
      const failure = await client.fails(fails);
      const cancellation = await withTask(namespace, () => client.cancels());
      await expect.poll(latest).toBe('cancelled');
      seen.push([name, input, failure, cancellation, await withTask(namespace, (discard) => client.loses(discard))]);
    }
    const [first = [], ...others] = seen;
    expect(others).toHaveLength(1);
    observations.push(first);
    for (const other of others) expect(other).toEqual(first);
  });
});

it('the tables of docs/tasks.md are these outcomes', async () => {
  const page = new URL('../docs/tasks.md', import.meta.url);
  const text = await readFile(page, 'utf8');
  const current = [
    ['outcomes', table(['client', ...Object.keys(UPSTREAMS)], kinds)],
    ['observations', table(['client', 'input', 'a tool that fails', 'cancellation', 'expired task'], observations)],
  ].reduce((before, [section, content]) => {
    const marked = new RegExp(`(<!-- ${section} -->\n)[^]*?(\n<!-- /${section} -->)`);
    expect(text).toMatch(marked);
    return before.replace(marked, (_, start, end) => `${start}\n${content}\n${end}`);
  }, text);
  if (process.env.UPDATE === '1') await writeFile(page, current);
  else expect(text).toBe(current);
});

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`);
  return lines.join('\n').replaceAll('| --- |', '|---|').replaceAll(' --- |', '---|');
}
