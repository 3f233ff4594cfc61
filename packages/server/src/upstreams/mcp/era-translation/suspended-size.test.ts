import { expect, it } from 'vitest';
import { failure, inputRequired, resultText } from '../../../../testing/interactive-client.ts';
import { liveTests } from '../../../../testing/live-tests.ts';
import { startTestService } from '../../../../testing/service.ts';
import { inputResponses, startCall, suspendedCall } from './fixtures/suspended-call.ts';

const { live, onEnd } = liveTests();

const MI = 1024 * 1024;
/** Time to transfer that amount of data. */
const LARGE = { timeout: 20_000 };
const TOO_MUCH = {
  status: 200,
  code: -32603,
  message: 'the response of the upstream is too large to be stored until the client retries',
};

/** A service without suspended calls. */
async function fresh() {
  const on = await startTestService();
  onEnd(() => on.stop(0));
  return on;
}

it('messages to suspended calls have a limit, which flushed messages do not count towards', async () => {
  const on = await fresh();
  const large = 'x'.repeat(40 * MI);
  const begun = await suspendedCall(live, { on });
  const { client, upstream } = begun;
  const first = client.send();
  const another = await upstream.calls.next();
  another.begin();
  another.request('7', 'roots/list');
  const calls = [begun, { call: another, pending: await inputRequired(first) }];
  for (const { call } of calls) {
    call.end(large);
    // Once its end was processed, the next call reuses its session.
    await expect.poll(() => sessionOfNext({ upstream, client }), LARGE).toBe(call.session);
    // The session of the first call is in use from now on.
    void client.send();
    await upstream.calls.next();
  }
  const [one, two] = calls.map(({ pending }) => client.retry(pending.state, inputResponses(pending)));
  if (!one || !two) throw new Error('expected two suspended calls');
  expect(await failure(two)).toEqual(TOO_MUCH);
  expect((await resultText(one)).length).toBe(large.length);
  const third = await suspendedCall(live, { on });
  third.call.end(large);
  await expect.poll(() => sessionOfNext(third), LARGE).toBe(third.call.session);
  expect((await resultText(third.client.retry(third.pending.state, third.answers))).length).toBe(large.length);
});

it('input requests count towards the limit until they are answered', { tags: ['slow'] }, async () => {
  const on = await fresh();
  // Of these, one client may have 10: two thirds of 64 Mi characters.
  const params = `{"messages":[],"maxTokens":1,"systemPrompt":"${'x'.repeat(3.9 * MI)}"}`;
  const { client, upstream, call, first } = await startCall(live, { on });
  const requestSampling = (id: number) => call.request(String(id), 'sampling/createMessage', params);
  const received = () => upstream.answers().map((text) => [JSON.parse(text).id, JSON.parse(text).error?.code]);
  requestSampling(1);
  const pending = await inputRequired(first);
  for (let id = 2; id <= 11; id++) requestSampling(id);
  await expect.poll(received, LARGE).toEqual([[11, -32601]]);
  const second = client.retry(pending.state, inputResponses(pending, '{}'));
  await expect.poll(received, LARGE).toHaveLength(2);
  const again = await inputRequired(second);
  const third = client.retry(again.state, inputResponses(again, '{}'));
  await expect.poll(received, LARGE).toHaveLength(11);
  // All have responses, and their space is free.
  requestSampling(12);
  const more = await inputRequired(third);
  const last = client.retry(more.state, inputResponses(more, '{}'));
  await expect.poll(received, LARGE).toHaveLength(12);
  expect(received().filter(([, code]) => code !== undefined)).toEqual([[11, -32601]]);
  call.end('done');
  expect(await resultText(last)).toBe('done');
});

/** Returns the session of a call that is sent now and answered at once. */
async function sessionOfNext({
  client,
  upstream,
}: Pick<Awaited<ReturnType<typeof suspendedCall>>, 'client' | 'upstream'>) {
  const next = client.send();
  const call = await upstream.calls.next();
  call.json('next');
  await resultText(next);
  return call.session;
}
