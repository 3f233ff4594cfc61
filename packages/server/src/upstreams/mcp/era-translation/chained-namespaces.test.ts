import { describe, expect, it } from 'vitest';
import {
  AskableClient,
  failure,
  type InputRequired,
  inputRequired,
  resultText,
} from '../../../../testing/askable-client.ts';
import { liveTests } from '../../../../testing/live.ts';
import { answering } from './fixtures/calling.ts';

const { live, register } = liveTests();

/** What the outer namespace calls the tool that is `work` in the inner one. */
const PARAMS = '"name":"far-work","arguments":{"n":1.0}';

/** A call that has reached a legacy upstream of one namespace through another, whose forward is the first one's address. */
async function chained() {
  const { upstream, url: inner } = await live();
  const client = new AskableClient(await register(inner, { prefix: 'far-' }));
  const first = client.send({ params: PARAMS });
  const call = await upstream.calls.next();
  call.begin();
  const retry = (asked: InputRequired) => client.retry(asked.state, answering(asked), { params: PARAMS });
  return { upstream, call, first, retry };
}

describe('a forward that is another namespace of the same service', () => {
  it('has its calls parked there, in rounds, with the states that it gave', async () => {
    const { upstream, call, first, retry } = await chained();
    let reading = first;
    for (const round of [1, 2, 3]) {
      call.ask(String(round), 'roots/list');
      reading = retry(await inputRequired(reading));
      await expect.poll(upstream.answers).toHaveLength(round);
    }
    call.end('done');
    expect(await resultText(reading)).toBe('done');
    expect(upstream.calls.all).toHaveLength(1);
    expect(upstream.answers()[2]).toBe('{"jsonrpc":"2.0","id":3,"result":{"roots":[]}}');
  });

  it('says itself that a call is not held any more', async () => {
    const { upstream, call, first, retry } = await chained();
    call.ask('1', 'roots/list');
    const asked = await inputRequired(first);
    const last = retry(asked);
    await expect.poll(upstream.answers).toHaveLength(1);
    const twice = { status: 200, code: -32603, data: { kind: 'not_held' } };
    expect(await failure(retry(asked))).toMatchObject(twice);
    call.end('done');
    expect(await resultText(last)).toBe('done');
    expect(upstream.calls.all).toHaveLength(1);
  });
});
