import { expect, onTestFinished, test } from 'vitest';
import { permitToWork } from '../access/fixtures/access.ts';
import { DEFAULT_LOG_FILTER } from '../app/config/environment.ts';
import { createLogger } from '../telemetry/log.ts';
import { WaitingClient } from './grpc/fixtures/waiting-client.ts';
import { InFlightCalls } from './in-flight-calls.ts';
import { RunningOperations } from './operation.ts';
import type { CallOutcome } from './response-sink.ts';

/** A result whose JSON text is this. */
const resultOf = (json: string): CallOutcome => ({ kind: 'result', json });

const permit = await permitToWork();

/** Starts operations of clients of an era. Each runs until the test ends it or it is canceled. */
function runningOperations({ era = 'modern', totalMs = 60_000 }: { era?: 'legacy' | 'modern'; totalMs?: number } = {}) {
  const inFlight = new InFlightCalls({ idleMs: 60_000, totalMs });
  onTestFinished(() => inFlight.close());
  const lines: string[] = [];
  const log = createLogger(DEFAULT_LOG_FILTER, (line) => lines.push(line)).target('service::bridge');
  const operations = new RunningOperations(inFlight, log);
  const start = () => {
    const client = new WaitingClient({ era });
    const execution = Promise.withResolvers<CallOutcome>();
    const failures: string[] = [];
    const seen = { ended: false };
    operations.start(permit, client, {
      execute({ signal }) {
        signal.addEventListener('abort', () => {
          seen.ended = true;
          execution.reject(new Error('cancelled'));
        });
        return execution.promise;
      },
      onFailure({ category, message }) {
        failures.push(`${category} ${message}`);
        return { outcome: () => resultOf(`"failed: ${message}"`) };
      },
    });
    return {
      client,
      failures,
      seen,
      finish: () => execution.resolve(resultOf('{}')),
      fail: () => execution.reject(new Error('S3CRET')),
    };
  };
  const logged = () => lines.map((line) => JSON.parse(line));
  return { operations, start, logged, left: () => [operations.size, inFlight.find(() => true)] };
}

test('ended operations leave nothing behind, however they ended', async () => {
  const { start, left } = runningOperations();
  const [well, failed, gone] = [start(), start(), start()];
  expect(left()[0]).toBe(3);
  well.finish();
  failed.fail();
  gone.client.leave();
  expect(await well.client.answer).toBe('{}');
  expect(await failed.client.answer).toBe('"failed: internal error"');
  await expect.poll(left).toEqual([0, undefined]);
  expect([well.failures, gone.failures]).toEqual([[], ['UNKNOWN the client has disconnected']]);
});

test('an unexpected error is answered as a failure of the operation, and its cause is logged', async () => {
  const { start, logged } = runningOperations();
  const { client, failures, fail } = start();
  fail();
  expect(await client.answer).toBe('"failed: internal error"');
  expect(failures).toEqual(['UNKNOWN internal error']);
  expect(logged()).toMatchObject([
    { level: 'error', msg: 'call failed', called: 'work', error: { message: 'S3CRET' } },
  ]);
});

test('an operation over the total limit is canceled with a message that names the limit', async () => {
  const { start, left, logged } = runningOperations({ totalMs: 20 });
  const { client, failures, seen } = start();
  expect(await client.answer).toBe('"failed: the call did not finish within 0.02 s"');
  expect(failures).toEqual(['UNKNOWN the call did not finish within 0.02 s']);
  expect(seen.ended).toBe(true);
  await expect.poll(left).toEqual([0, undefined]);
  expect(logged()).toEqual([]);
});

test('a disconnecting legacy client does not cancel its operation', async () => {
  const { start, left } = runningOperations({ era: 'legacy' });
  const { client, failures, seen, finish } = start();
  client.leave();
  expect(seen).toEqual({ ended: false });
  finish();
  await expect.poll(left).toEqual([0, undefined]);
  expect(failures).toEqual([]);
});

test('close waits for operations in progress, also of disconnected clients', async () => {
  const { operations, start, left } = runningOperations({ era: 'legacy' });
  const [waited, gone] = [start(), start()];
  gone.client.leave();
  let closed = false;
  const closing = operations.close(60_000).then(() => {
    closed = true;
  });
  waited.finish();
  await waited.client.answer;
  await expect.poll(left).toMatchObject([1, {}]);
  expect(closed).toBe(false);
  gone.finish();
  await closing;
  expect(left()).toEqual([0, undefined]);
});

test('close cancels operations longer than the grace period', async () => {
  const { operations, start, left } = runningOperations({ era: 'legacy' });
  const { client, failures, seen } = start();
  await operations.close(1);
  expect(await client.answer).toBe('error: service is shutting down');
  expect([failures, seen.ended]).toEqual([['SERVICE_UNAVAILABLE service is shutting down'], true]);
  expect(left()).toEqual([0, undefined]);
});
