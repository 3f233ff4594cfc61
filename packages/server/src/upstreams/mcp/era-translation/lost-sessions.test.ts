import { describe, expect, it } from 'vitest';
import { AskableClient, failure, inputRequired, resultText } from '../../../../testing/askable-client.ts';
import { liveTests } from '../../../../testing/live.ts';
import type { LiveCall } from '../../../../testing/live-upstream.ts';
import { answering } from './fixtures/calling.ts';

const { live } = liveTests();

const ROOTS = '{"jsonrpc":"2.0","id":1,"method":"roots/list"}';
const failed = (status: number) => ({
  status: 200,
  code: -32603,
  message: expect.stringMatching(new RegExp(`^forwarded tool call failed: .* answered with HTTP ${status}$`)),
});

/** Both ways in which servers say that they have no such session. */
const answers: readonly (readonly [number, (call: LiveCall) => void])[] = [
  [404, (call) => call.refuse(404)],
  [
    400,
    ({ response }) => {
      const error = '{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"No valid session ID provided"}}';
      response.writeHead(400, { 'content-type': 'application/json' }).end(error);
    },
  ],
];

/** A call, before the upstream has answered it, and the stream of its session. */
async function called(capabilities?: string) {
  const { upstream, url } = await live();
  const client = new AskableClient(url, capabilities);
  const first = client.send();
  return { upstream, client, first, call: await upstream.calls.next(), stream: await upstream.streams.next() };
}

describe.each(answers)(
  'an upstream that answers a call with HTTP %i, as if it had not looked at it',
  (status, lost) => {
    it('is sent it once more in a new session', async () => {
      const { upstream, first, call } = await called();
      lost(call);
      const next = await upstream.calls.next();
      expect(next.session).not.toBe(call.session);
      next.json('done');
      expect(await resultText(first)).toBe('done');
      expect(upstream.calls.all).toHaveLength(2);
    });

    it('is not sent it again once it has asked something', async () => {
      const { upstream, client, first, call, stream } = await called();
      stream.send(ROOTS);
      const asked = await inputRequired(first);
      lost(call);
      expect(await failure(client.retry(asked.state, '{}'))).toEqual(failed(status));
      expect(upstream.calls.all).toHaveLength(1);
    });

    it('is not sent it again once it was given what it had asked for', async () => {
      const { upstream, client, first, call, stream } = await called();
      stream.send(ROOTS);
      const asked = await inputRequired(first);
      const last = client.retry(asked.state, answering(asked));
      await expect.poll(upstream.answers).toHaveLength(1);
      lost(call);
      expect(await failure(last)).toEqual(failed(status));
      expect(upstream.calls.all).toHaveLength(1);
    });

    it('is not sent it again once it has asked what the client cannot be asked', async () => {
      const { upstream, first, call, stream } = await called('{"sampling":{}}');
      stream.send(ROOTS);
      await expect.poll(upstream.answers).toHaveLength(1);
      lost(call);
      expect(await failure(first)).toEqual(failed(status));
      expect(upstream.calls.all).toHaveLength(1);
    });
  },
);
