import { isDeepStrictEqual } from 'node:util';
import { toolCallEvent } from '@sluice/contract';
import { describe, expect, it, test } from 'vitest';
import { post, reply } from '../../../../../test/fixtures/raw-client.ts';
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
  describe.each([
    { calls: MANY, limit: 'without a limit', together: MANY, options: {}, tags: [] },
    { calls: 1_000, limit: 'without a limit', together: 1_000, options: {}, tags: ['slow'] },
    {
      calls: MANY,
      limit: 'limited to 100 at a time',
      together: 100,
      options: { 'grpc.max_concurrent_streams': 100 },
      tags: [],
    },
  ])('$calls $limit', ({ calls, together, options, tags }) => {
    it('are executed over one connection, each with its own response', { tags, timeout: 60_000 }, async () => {
      const waiting: (() => void)[] = [];
      let most = 0;
      const service = await startWorkingService({
        options,
        tool: (call) => {
          waiting.push(() => call.reply([call.request.arguments.n ?? '']));
          most = Math.max(most, waiting.length);
          // No response is sent before all calls have arrived.
          if (waiting.length === together) for (const response of waiting.splice(0)) response();
        },
      });
      onEnd(async () => service.close());
      const proxy = await openFaultyProxy(connectingTo(service.port));
      onEnd(async () => proxy.close());
      // For slow machines.
      const on = await serviceWith({ SERVICE_BRIDGE_GRPC_TIMEOUT_MS: '60000' });
      await address('worker', proxy.port, {}, on);
      const responses = await Promise.all(Array.from({ length: calls }, (_, n) => work(on, `{"n":${n}}`)));
      const wrong = responses.filter(([isError, text], n) => isError || text !== String(n));
      expect(wrong.slice(0, 3)).toEqual([]);
      expect([most, service.tools.length, proxy.accepted]).toEqual([together, calls, 1]);
    });
  });
});

test(`${MANY} concurrent streams of one engine share one connection, each with its own output`, async () => {
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
  const responses = (await Promise.all(calls)).map((response) => JSON.parse(reply(response)).result);
  expect(responses.filter((response, n) => !isDeepStrictEqual(response, result(`a${n}`, `b${n}`))).slice(0, 3)).toEqual(
    [],
  );
  expect(engine.proxy.accepted).toBe(1);
  // The last events are the final ones of each.
  const { data } = await service.manage('GET', `/tool-calls?limit=${MANY}`);
  const ends = toolCallEvent.array().parse(data);
  expect(ends.filter(({ eventType }) => eventType !== 'COMPLETED')).toEqual([]);
  expect(new Set(ends.map(({ eventId }) => eventId)).size).toBe(MANY);
}, 60_000);
