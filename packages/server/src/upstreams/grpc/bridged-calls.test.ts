import { expect, onTestFinished, test } from 'vitest';
import { DEFAULT_LOG_FILTER } from '../../app/config/environment.ts';
import { createLogger } from '../../telemetry/log.ts';
import { type InFlightCall, InFlightCalls } from '../mcp/relay/in-flight.ts';
import { type BridgedAnswer, BridgedCalls } from './call.ts';
import { WaitingClient } from './fixtures/waiting-client.ts';
import { entryAt } from './service-entry.fixture.ts';

const DONE = { kind: 'result', json: '{}' } as const;

/** Calls of this era. Each that is begun goes on until the test ends it, or until nobody waits for it any more. */
function underWay({ era = 'modern', totalMs = 60_000 }: { era?: 'legacy' | 'modern'; totalMs?: number } = {}) {
  const watched = new InFlightCalls<InFlightCall>({ silenceMs: 60_000, totalMs });
  onTestFinished(() => watched.close());
  const lines: string[] = [];
  const log = createLogger(DEFAULT_LOG_FILTER, (line) => lines.push(line)).target('service::bridge');
  const calls = new BridgedCalls(watched, log);
  const caller = {
    namespace: undefined,
    era,
    headers: { accept: 'application/json' },
    session: undefined,
    user: undefined,
    capabilities: {},
    correlation: { conversationId: undefined, requestId: undefined },
    observation: undefined,
  } as const;
  const begin = () => {
    const client = new WaitingClient();
    const work = Promise.withResolvers<BridgedAnswer>();
    const failures: string[] = [];
    const seen = { left: false, ended: false };
    calls.begin(caller, client, {
      name: 'work',
      service: entryAt(1),
      requestId: 'r',
      carryOut({ left, signal }) {
        left.addEventListener('abort', () => {
          seen.left = true;
        });
        signal.addEventListener('abort', () => {
          seen.ended = true;
          work.reject(new Error('cancelled'));
        });
        return work.promise;
      },
      failed({ category, message }) {
        failures.push(`${category} ${message}`);
        return { kind: 'result', json: `"failed: ${message}"` };
      },
    });
    return { client, failures, seen, finish: () => work.resolve(DONE), fail: () => work.reject(new Error('S3CRET')) };
  };
  const logged = () => lines.map((line) => JSON.parse(line));
  return { calls, begin, logged, left: () => [calls.size, watched.find(() => true)] };
}

test('nothing is left of calls that are over, however they ended', async () => {
  const { begin, left } = underWay();
  const [well, failed, gone] = [begin(), begin(), begin()];
  expect(left()[0]).toBe(3);
  well.finish();
  failed.fail();
  gone.client.leave();
  expect(await well.client.answer).toBe('{}');
  expect(await failed.client.answer).toBe('"failed: internal error"');
  await expect.poll(left).toEqual([0, undefined]);
  expect([well.failures, gone.failures]).toEqual([[], ['UNKNOWN the client has left']]);
});

test('what fails unexpectedly is answered as its owner answers failures, and its cause is logged', async () => {
  const { begin, logged } = underWay();
  const { client, failures, fail } = begin();
  fail();
  expect(await client.answer).toBe('"failed: internal error"');
  expect(failures).toEqual(['UNKNOWN internal error']);
  expect(logged()).toMatchObject([
    { level: 'error', msg: 'call failed', called: 'work', service: 'weather', error: { message: 'S3CRET' } },
  ]);
});

test('a call that takes longer than any call may is ended, and it is said which limit ended it', async () => {
  const { begin, left, logged } = underWay({ totalMs: 20 });
  const { client, failures, seen } = begin();
  expect(await client.answer).toBe('"failed: the call did not finish within 0.02 s"');
  expect(failures).toEqual(['UNKNOWN the call did not finish within 0.02 s']);
  expect(seen.ended).toBe(true);
  await expect.poll(left).toEqual([0, undefined]);
  expect(logged()).toEqual([]);
});

test('a legacy client that leaves does not end its call, which knows of it', async () => {
  const { begin, left } = underWay({ era: 'legacy' });
  const { client, failures, seen, finish } = begin();
  client.leave();
  expect(seen).toEqual({ left: true, ended: false });
  finish();
  await expect.poll(left).toEqual([0, undefined]);
  expect(failures).toEqual([]);
});

test('closing waits for calls under way, also for those whose client has left', async () => {
  const { calls, begin, left } = underWay({ era: 'legacy' });
  const [waited, gone] = [begin(), begin()];
  gone.client.leave();
  let closed = false;
  const closing = calls.close(60_000).then(() => {
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

test('closing ends what takes longer than the grace', async () => {
  const { calls, begin, left } = underWay({ era: 'legacy' });
  const { client, failures, seen } = begin();
  await calls.close(1);
  expect(await client.answer).toBe('"failed: the service was stopped"');
  expect([failures, seen.ended]).toEqual([['UNKNOWN the service was stopped'], true]);
  expect(left()).toEqual([0, undefined]);
});
