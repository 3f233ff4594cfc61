import { expect, it } from 'vitest';
import { failure, inputRequired, resultText } from '../../../../testing/askable-client.ts';
import { liveTests } from '../../../../testing/live.ts';
import { startTestService } from '../../../../testing/service.ts';
import { answering, calling, parked } from './fixtures/calling.ts';

const { live, onEnd } = liveTests();

const MI = 1024 * 1024;
/** It takes a while until so much has come through. */
const LARGE = { timeout: 20_000 };
const TOO_MUCH = {
  status: 200,
  code: -32603,
  message: 'the upstream answered with more than can be held for a client that is not there',
};

/** A service that holds nothing yet. */
async function fresh() {
  const on = await startTestService();
  onEnd(() => on.stop(0));
  return on;
}

it('what upstreams send to clients that are not there has a bound, and what was fetched makes room again', async () => {
  const on = await fresh();
  const large = 'x'.repeat(40 * MI);
  const calls = [await parked(live, { on }), await parked(live, { on })];
  for (const { upstream, call, client } of calls) {
    call.end(large);
    // Once its end has come through, its session is the next one's.
    await expect.poll(() => sessionOfNext({ upstream, client }), LARGE).toBe(call.session);
  }
  const [one, two] = calls.map(({ client, asked, answers }) => client.retry(asked.state, answers));
  if (!one || !two) throw new Error('two calls must be parked');
  expect(await failure(two)).toEqual(TOO_MUCH);
  expect((await resultText(one)).length).toBe(large.length);
  const third = await parked(live, { on });
  third.call.end(large);
  await expect.poll(() => sessionOfNext(third), LARGE).toBe(third.call.session);
  expect((await resultText(third.client.retry(third.asked.state, third.answers))).length).toBe(large.length);
});

it('what clients are asked counts as well, until they have answered', async () => {
  const on = await fresh();
  const params = `{"messages":[],"maxTokens":1,"systemPrompt":"${'x'.repeat(33 * MI)}"}`;
  const { client, upstream, call, first } = await calling(live, { on });
  const ask = (id: string) => call.ask(id, 'sampling/createMessage', params);
  const told = () => upstream.answers().map((text) => [JSON.parse(text).id, JSON.parse(text).error?.code]);
  ask('1');
  const asked = await inputRequired(first);
  ask('2');
  await expect.poll(told, LARGE).toEqual([[2, -32601]]);
  const second = client.retry(asked.state, answering(asked, '{}'));
  await expect.poll(told).toHaveLength(2);
  // The first one has been answered, and its room is another's.
  ask('3');
  const again = await inputRequired(second);
  const last = client.retry(again.state, answering(again, '{}'));
  await expect.poll(told).toEqual([
    [2, -32601],
    [1, undefined],
    [3, undefined],
  ]);
  call.end('done');
  expect(await resultText(last)).toBe('done');
});

/** The session of a call that is sent now and answered at once. */
async function sessionOfNext({ client, upstream }: Pick<Awaited<ReturnType<typeof parked>>, 'client' | 'upstream'>) {
  const next = client.send();
  const call = await upstream.calls.next();
  call.json('next');
  await resultText(next);
  return call.session;
}
