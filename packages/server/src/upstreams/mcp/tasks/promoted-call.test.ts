import { setImmediate as nextTurn } from 'node:timers/promises';
import { parseMessage } from '@sluice/protocol/mcp/message';
import { TASKS_EXTENSION } from '@sluice/protocol/mcp/methods';
import { afterEach, describe, expect, it } from 'vitest';
import { permitToWork } from '../../../access/fixtures/access.ts';
import { createUser } from '../../../identity/principal.ts';
import { memoryLog } from '../../../registry/store/record-log.ts';
import { type ClientFacts, NO_CLIENT } from '../../client-facts.ts';
import { WaitingClient } from '../../grpc/fixtures/waiting-client.ts';
import type { CallOutcome, ResponseBytes, ResponseSink } from '../../response-sink.ts';
import { PromotedCalls } from './promoted-call.ts';
import type { Task } from './task.ts';
import { Tasks } from './tasks.ts';

class Client extends WaitingClient {
  readonly received: ResponseBytes[] = [];
  override complete(outcome: CallOutcome): void {
    super.complete(outcome);
    if (outcome.kind === 'large') this.received.push(outcome.bytes);
  }
}

const facts: ClientFacts = {
  ...NO_CLIENT,
  namespace: 'default',
  era: 'modern',
  principal: createUser('ann', 'proxy'),
  capabilities: { extensions: { [TASKS_EXTENSION]: {} } },
};

const opened: Tasks[] = [];
afterEach(async () => {
  for (const tasks of opened.splice(0)) await tasks.close();
});

/** A call that becomes a task at once; `storing` is called before its record is durable. */
async function call(storing: (tasks: Tasks) => void = () => undefined) {
  let commits = 0;
  const tasks: Tasks = new Tasks({
    log: {
      ...memoryLog(),
      async commit({ publish }) {
        if (++commits === 1) storing(tasks);
        publish();
      },
    },
  });
  await tasks.load();
  opened.push(tasks);
  const log = { error: () => undefined };
  const auto = new PromotedCalls({
    tasks,
    replica: 'own',
    isAlive: undefined,
    afterMs: 0,
    maxCallMs: 60_000,
    maxBytes: 1024,
    log,
  });
  const request = (method: string) => {
    const message = parseMessage(Buffer.from(`{"jsonrpc":"2.0","id":1,"method":"${method}","params":{"name":"a"}}`));
    if (message.kind !== 'request') throw new Error('no request');
    return message;
  };
  const started = Promise.withResolvers<ResponseSink>();
  const target = { entry: undefined, forward: undefined, message: request('tools/call') };
  const repeat = () => {
    throw new Error('not repeated');
  };
  const client = new Client(facts);
  auto.start({ target, address: 'http://upstream/mcp', repeat }, client, started.resolve);
  const response = await started.promise;
  return {
    calls: auto,
    tasks,
    client,
    response,
    about: (method: string, task: Task) => auto.request(request(method), task),
  };
}

it.each([
  ['tools/call', 'modern', true],
  ['tools/call', 'legacy', false],
  ['resources/read', 'modern', false],
  ['prompts/get', 'modern', false],
  ['completion/complete', 'modern', false],
] as const)('%s of a %s client can become a task with the label: %s', async (method, era, expected) => {
  const permit = await permitToWork();
  const message = { ...permit.message, method };
  const entry = permit.target.entry && { ...permit.target.entry, labels: { 'service.task': 'auto' } };
  const { calls } = await call();
  expect(calls.accepts({ ...permit.target, entry, message }, { ...facts, era })).toBe(expected);
});

describe('a call that becomes a task', () => {
  it('stays one if the task is removed before it is durable', async () => {
    const removed = Promise.withResolvers<Task>();
    const { client, response, about } = await call((tasks) => {
      const [task] = tasks.all();
      if (!task) return;
      tasks.discard(task);
      removed.resolve(task);
    });
    const task = await removed.promise;
    await nextTurn();
    response.complete({ kind: 'result', json: '{"content":[]}' });
    expect(await client.answer).toBe('{"content":[]}');
    expect(await about('tasks/get', task)).toMatchObject({ json: expect.stringContaining('"status":"failed"') });
  });

  it('ends if the task is canceled before it is durable', async () => {
    const { client, response } = await call((tasks) => {
      for (const task of tasks.all()) void task.cancel();
    });
    const disconnected = new Promise<void>((resolve) => response.onDisconnect(resolve));
    expect(await client.answer).toContain('"resultType":"task"');
    await disconnected;
  });
});

it('a call calls every listener when its client disconnects', async () => {
  const { client, response } = await call();
  const called: string[] = [];
  for (const name of ['a', 'b']) response.onDisconnect(() => called.push(name));
  client.leave();
  expect(called).toEqual(['a', 'b']);
});

describe('the result of a call that became a task', () => {
  it('is not copied for each client that reads it', async () => {
    const { tasks, client, response, about } = await call();
    await client.answer;
    response.complete({ kind: 'result', json: '{"content":[]}' });
    const [task] = tasks.all();
    if (!task) throw new Error('no task');
    const reader = new Client();
    for (let times = 0; times < 2; times++) {
      const outcome = await about('tasks/get', task);
      if (outcome.kind === 'deferred') outcome.start(reader);
    }
    const [one, two] = reader.received.map(({ after }) => after[1]);
    expect(one?.toString()).toBe('"result":{"content":[]}');
    expect(two).toBe(one);
  });
});
