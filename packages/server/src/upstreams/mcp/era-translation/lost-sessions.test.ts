import { describe, expect, it } from 'vitest';
import { failure, InteractiveClient, inputRequired, resultText } from '../../../../testing/interactive-client.ts';
import { liveTests } from '../../../../testing/live-tests.ts';
import type { LiveCall } from '../../../../testing/live-upstream.ts';
import { inputResponses } from './fixtures/suspended-call.ts';

const { live } = liveTests();

const ROOTS = '{"jsonrpc":"2.0","id":1,"method":"roots/list"}';
const failed = (status: number) => ({
  status: 200,
  code: -32603,
  message: expect.stringMatching(new RegExp(`^forwarded tool call failed: .* answered tools/call with HTTP ${status}`)),
});

/** The responses of servers to an unknown session. */
const responses: readonly (readonly [number, (call: LiveCall) => void])[] = [
  [404, (call) => call.reject(404)],
  [
    400,
    ({ response }) => {
      const error = '{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"No valid session ID provided"}}';
      response.writeHead(400, { 'content-type': 'application/json' }).end(error);
    },
  ],
];

/** A call without a response yet, and the stream of its session. */
async function called(capabilities?: string) {
  const { upstream, url } = await live();
  const client = new InteractiveClient(url, capabilities);
  const first = client.send();
  return { upstream, client, first, call: await upstream.calls.next(), stream: await upstream.streams.next() };
}

describe.each(responses)('an upstream that rejects a call with HTTP %i before executing it', (status, lost) => {
  it('gets it again in a new session', async () => {
    const { upstream, first, call } = await called();
    lost(call);
    const next = await upstream.calls.next();
    expect(next.session).not.toBe(call.session);
    next.json('done');
    expect(await resultText(first)).toBe('done');
    expect(upstream.calls.all).toHaveLength(2);
  });

  it('does not get it again after it sent a request', async () => {
    const { upstream, client, first, call, stream } = await called();
    stream.send(ROOTS);
    const pending = await inputRequired(first);
    lost(call);
    expect(await failure(client.retry(pending.state, '{}'))).toEqual(failed(status));
    expect(upstream.calls.all).toHaveLength(1);
  });

  it('does not get it again after it got a response to its request', async () => {
    const { upstream, client, first, call, stream } = await called();
    stream.send(ROOTS);
    const pending = await inputRequired(first);
    const last = client.retry(pending.state, inputResponses(pending));
    await expect.poll(upstream.answers).toHaveLength(1);
    lost(call);
    expect(await failure(last)).toEqual(failed(status));
    expect(upstream.calls.all).toHaveLength(1);
  });

  it('does not get it again after it sent a request that the client does not support', async () => {
    const { upstream, first, call, stream } = await called('{"sampling":{}}');
    stream.send(ROOTS);
    await expect.poll(upstream.answers).toHaveLength(1);
    lost(call);
    expect(await failure(first)).toEqual(failed(status));
    expect(upstream.calls.all).toHaveLength(1);
  });
});
