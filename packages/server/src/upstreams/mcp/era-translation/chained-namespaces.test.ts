import { describe, expect, it } from 'vitest';
import {
  failure,
  type InputRequired,
  InteractiveClient,
  inputRequired,
  resultText,
} from '../../../../testing/interactive-client.ts';
import { liveTests } from '../../../../testing/live-tests.ts';
import { inputResponses } from './fixtures/suspended-call.ts';

const { live, register } = liveTests();

/** Name of the tool `work` of the inner namespace in the outer one. */
const PARAMS = '"name":"far-work","arguments":{"n":1.0}';

/** A call at a legacy upstream of one namespace, made through another namespace with a forward to the first one. */
async function chained() {
  const { upstream, url: inner } = await live();
  const client = new InteractiveClient(await register(inner, { prefix: 'far-' }));
  const first = client.send({ params: PARAMS });
  const call = await upstream.calls.next();
  call.begin();
  const retry = (pending: InputRequired) => client.retry(pending.state, inputResponses(pending), { params: PARAMS });
  return { upstream, call, first, retry };
}

describe('a forward that is another namespace of the same service', () => {
  it('suspends its calls there, in several rounds, with its own states', async () => {
    const { upstream, call, first, retry } = await chained();
    let reading = first;
    for (const round of [1, 2, 3]) {
      call.request(String(round), 'roots/list');
      reading = retry(await inputRequired(reading));
      await expect.poll(upstream.answers).toHaveLength(round);
    }
    call.end('done');
    expect(await resultText(reading)).toBe('done');
    expect(upstream.calls.all).toHaveLength(1);
    expect(upstream.answers()[2]).toBe('{"jsonrpc":"2.0","id":3,"result":{"roots":[]}}');
  });

  it('reports itself that a call is no longer suspended', async () => {
    const { upstream, call, first, retry } = await chained();
    call.request('1', 'roots/list');
    const pending = await inputRequired(first);
    const last = retry(pending);
    await expect.poll(upstream.answers).toHaveLength(1);
    const twice = { status: 200, code: -32603, data: { kind: 'not_held' } };
    expect(await failure(retry(pending))).toMatchObject(twice);
    call.end('done');
    expect(await resultText(last)).toBe('done');
    expect(upstream.calls.all).toHaveLength(1);
  });
});
