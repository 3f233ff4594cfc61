import { expect, onTestFinished, test } from 'vitest';
import type { CallUnderWay } from '../forwards/call-under-way.ts';
import { CallsUnderWay } from '../forwards/calls-under-way.ts';
import { whyEnded } from './bridged-call.ts';
import { BridgedCalls } from './bridged-calls.ts';
import { WaitingClient } from './fixtures/waiting-client.ts';

const DONE = { kind: 'result', json: '{}' } as const;

/** Calls of this era. Each that is begun goes on until the test ends it, or until nobody waits for it any more. */
function underWay(era: 'legacy' | 'modern' = 'modern') {
  const watched = new CallsUnderWay<CallUnderWay>({ silenceMs: 60_000, totalMs: 60_000 });
  onTestFinished(() => watched.close());
  const calls = new BridgedCalls(watched);
  const caller = {
    namespace: undefined,
    era,
    headers: {},
    session: undefined,
    user: undefined,
    capabilities: {},
    correlation: { conversationId: undefined, requestId: undefined },
  } as const;
  const begin = () => {
    const client = new WaitingClient();
    const work = Promise.withResolvers<typeof DONE>();
    const ended = Promise.withResolvers<string>();
    calls.begin(caller, client, (signal) => {
      signal.addEventListener('abort', () => {
        ended.resolve(whyEnded(signal));
        work.resolve(DONE);
      });
      return work.promise;
    });
    return { client, ended: ended.promise, finish: () => work.resolve(DONE), fail: () => work.reject(new Error('x')) };
  };
  return { calls, begin, left: () => [calls.size, watched.find(() => true)] };
}

test('nothing is left of calls that are over, however they ended', async () => {
  const { begin, left } = underWay();
  const [well, failed, gone] = [begin(), begin(), begin()];
  expect(left()[0]).toBe(3);
  well.finish();
  failed.fail();
  gone.client.leave();
  expect(await well.client.text).toContain('"result":{}');
  await expect(failed.client.text).rejects.toThrow('a JSON-RPC error');
  expect(await gone.ended).toBe('the client left');
  await expect.poll(left).toEqual([0, undefined]);
});

test('closing waits for calls under way, also for those whose client has left', async () => {
  const { calls, begin, left } = underWay('legacy');
  const [waited, gone] = [begin(), begin()];
  gone.client.leave();
  let closed = false;
  const closing = calls.close(60_000).then(() => {
    closed = true;
  });
  waited.finish();
  await waited.client.text;
  await expect.poll(left).toMatchObject([1, {}]);
  expect(closed).toBe(false);
  gone.finish();
  await closing;
  expect(left()).toEqual([0, undefined]);
});

test('closing ends what takes longer than the grace', async () => {
  const { calls, begin, left } = underWay('legacy');
  const { client, ended } = begin();
  const answer = expect(client.text).rejects.toThrow('a JSON-RPC error');
  await calls.close(1);
  expect(await ended).toBe('the service was stopped');
  await answer;
  expect(left()).toEqual([0, undefined]);
});
