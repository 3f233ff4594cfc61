import { beforeEach, expect, test } from 'vitest';
import {
  startWorkingService,
  type WorkingService,
} from '../packages/server/src/upstreams/grpc/fixtures/working-service.ts';
import { sessionClient } from '../packages/server/testing/session-client.ts';
import { type EvaluatedService, evaluator, startEvaluatedService } from './fixtures/evaluated/evaluated-service.ts';
import { parseObject } from './fixtures/raw-upstream/message.ts';

// A call whose legacy client has disconnected, and whose evaluation is in progress at shutdown.

let evaluated: EvaluatedService;
let worker: WorkingService;
beforeEach(async () => {
  [evaluated, worker] = await Promise.all([startEvaluatedService(), startWorkingService()]);
  const { service } = evaluated;
  await service.manage('POST', '/services', { name: 'work', address: worker.address, serviceType: 'tool-invoker' });
  const tool = { description: '', input_schema: { type: 'object' } };
  await service.register('tools', { name: 'work', toolType: 'work', uri: 'work://', ...tool });
  // A failed LLM call passes the request; shutdown is no failure.
  await evaluated.apply(evaluator('gate', { on_error: 'continue' }));
  return async () => {
    await evaluated.close();
    await worker.close();
  };
}, 60_000);

/** Starts the call and disconnects its client during the LLM call, which `answer` completes. */
async function left() {
  const requested = Promise.withResolvers<void>();
  const response = Promise.withResolvers<void>();
  evaluated.llm.script(() => {
    requested.resolve();
    return { content: 'pass', after: response.promise };
  });
  const client = await sessionClient(evaluated.service.url());
  const reading = client.call('"c"');
  await requested.promise;
  reading.disconnect();
  await reading.ended;
  return { answer: () => response.resolve() };
}

const messages = () => evaluated.service.log.map((line) => parseObject(line).msg);

test('is evaluated and forwarded within the grace period', async () => {
  const { answer } = await left();
  const stopping = evaluated.service.stop(20_000);
  await expect.poll(() => fetch(evaluated.service.url()).then(String, () => 'closed')).toBe('closed');
  answer();
  await stopping;
  expect(worker.tools).toHaveLength(1);
  expect(messages().slice(-2)).toEqual(['evaluator decided', 'stopped']);
});

test('is not forwarded without evaluation after the grace period', async () => {
  const { answer } = await left();
  await evaluated.service.stop(200);
  answer();
  expect(worker.tools).toEqual([]);
  expect(evaluated.lines().at(-1)).toMatchObject({ decision: 'cancelled', reason: 'the service was stopped' });
});
