import { isDeepStrictEqual } from 'node:util';
import { toolCallEvent } from '@sluice/contract';
import { describe, expect, it, test } from 'vitest';
import { post } from '../../../../../test/fixtures/raw-client.ts';
import type { ReportedExecution } from '../../../testing/code-service.ts';
import { connectingTo, openFaultyProxy } from '../../../testing/faulty-proxy.ts';
import { callOfRun, result, setUp } from './fixtures/code-tests.ts';
import { operationTests } from './fixtures/operation-tests.ts';
import { startWorkingService } from './fixtures/working-service.ts';

const tests = operationTests();
const { address, onEnd, serviceWith, work } = tests;

/** For tests that do not need more. */
const MANY = 300;

describe('concurrent calls to one service', () => {
  it.each([
    [1_000, 'without a limit', 1_000, {}],
    [MANY, 'that takes 100 at a time', 100, { 'grpc.max_concurrent_streams': 100 }],
  ])(
    '%i %s are carried out over one connection, each with its own answer',
    async (calls, _what, together, options) => {
      const waiting: (() => void)[] = [];
      let most = 0;
      const service = await startWorkingService({
        options,
        tool: (call) => {
          waiting.push(() => call.reply([call.request.arguments.n ?? '']));
          most = Math.max(most, waiting.length);
          // None is answered before all have arrived.
          if (waiting.length === together) for (const answer of waiting.splice(0)) answer();
        },
      });
      onEnd(async () => service.close());
      const door = await openFaultyProxy(connectingTo(service.port));
      onEnd(async () => door.close());
      // For slow machines.
      const on = await serviceWith({ SERVICE_BRIDGE_GRPC_TIMEOUT_MS: '60000' });
      await address('worker', door.port, {}, on);
      const answers = await Promise.all(Array.from({ length: calls }, (_, n) => work(on, `{"n":${n}}`)));
      const wrong = answers.filter(([isError, text], n) => isError || text !== String(n));
      expect(wrong.slice(0, 3)).toEqual([]);
      expect([most, service.tools.length, door.accepted]).toEqual([together, calls, 1]);
    },
    60_000,
  );
});

test(`${MANY} streams at a time of one engine come over one connection, each with its own output`, async () => {
  const { engine, service, url } = await setUp();
  const calls = Array.from({ length: MANY }, (_, n) => post(url, callOfRun({ args: `{"code":"${n}"}` })));
  const executions: ReportedExecution[] = [];
  // All are open before the first message.
  while (executions.length < MANY) executions.push(await engine.next());
  for (const part of ['a', 'b']) {
    for (const execution of executions) {
      const content = [`${part}${execution.request.code}`];
      execution.reply({ outputType: 'STDOUT', status: 'RUNNING', content });
    }
  }
  for (const execution of executions) execution.end();
  const answers = (await Promise.all(calls)).map(({ text }) => JSON.parse(text).result);
  expect(answers.filter((answer, n) => !isDeepStrictEqual(answer, result(`a${n}`, `b${n}`))).slice(0, 3)).toEqual([]);
  expect(engine.door.accepted).toBe(1);
  // The last events are the final ones of each.
  const { data } = await service.manage('GET', `/tool-calls?limit=${MANY}`);
  const ends = toolCallEvent.array().parse(data);
  expect(ends.filter(({ eventType }) => eventType !== 'COMPLETED')).toEqual([]);
  expect(new Set(ends.map(({ eventId }) => eventId)).size).toBe(MANY);
}, 60_000);
