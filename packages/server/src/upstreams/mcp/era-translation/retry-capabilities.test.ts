import { describe, expect, it } from 'vitest';
import { event } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import {
  failure,
  InteractiveClient,
  inputRequired,
  lastMessage,
  resultText,
} from '../../../../testing/interactive-client.ts';
import { liveTests } from '../../../../testing/live-tests.ts';
import type { LiveCall } from '../../../../testing/live-upstream.ts';
import { inputResponses, type StartedCall, startCall, suspendedCall } from './fixtures/suspended-call.ts';

const { live } = liveTests();

const expectRejected = (id: unknown) => ({ jsonrpc: '2.0', id, error: { code: -32601, message: expect.any(String) } });
/** Responses received by the upstream, sorted by id: their order is not fixed. */
const received = ({ upstream }: Pick<StartedCall, 'upstream'>) =>
  upstream
    .answers()
    .map((text) => JSON.parse(text))
    .toSorted((a, b) => String(a.id).localeCompare(String(b.id)));

/** Server requests by capability, sorted by name. */
const SERVER_REQUESTS = [
  ['elicitation', 'elicitation/create', '{"message":"m","requestedSchema":{"type":"object"}}'],
  ['roots', 'roots/list', '{}'],
  ['sampling', 'sampling/createMessage', '{"messages":[],"maxTokens":1}'],
] as const;

/** The upstream sends all three requests in one chunk, so that the client gets them at once. */
function requestAll({ response }: LiveCall): void {
  const pending = SERVER_REQUESTS.map(
    ([name, method, params]) => `{"jsonrpc":"2.0","id":"${name}","method":"${method}","params":${params}}`,
  );
  response.write(pending.map((text) => event(text)).join(''));
}

/** The upstream responds with a tool error. */
function fail(call: LiveCall): void {
  call.send(`{"jsonrpc":"2.0","id":${call.id},"result":{"isError":true,"content":[]}}`);
}

describe('a retry that declares fewer capabilities than the previous request', () => {
  it.each(SERVER_REQUESTS)('gets input requests for %s, which it declares, and no others', async (name, method) => {
    const begun = await startCall(live);
    const { url, call, first } = begun;
    requestAll(call);
    const pending = await inputRequired(first);
    expect(pending.keys).toHaveLength(3);
    const less = new InteractiveClient(url, `{"${name}":{}}`);
    const again = await inputRequired(less.retry(pending.state, '{}'));
    expect(Object.values(again.requests).map((request) => request.method)).toEqual([method]);
    const others = SERVER_REQUESTS.filter(([other]) => other !== name).map(([other]) => expectRejected(other));
    await expect.poll(() => received(begun)).toEqual(others);
    const last = less.retry(again.state, inputResponses(again));
    await expect.poll(() => received(begun)).toHaveLength(3);
    call.end('done');
    expect(await resultText(last)).toBe('done');
  });

  it('gets its response at once if it supports no server requests', async () => {
    const begun = await suspendedCall(live);
    const last = new InteractiveClient(begun.url, '{}').retry(begun.pending.state, '{}');
    await expect.poll(() => received(begun)).toEqual([expectRejected(7)]);
    begun.call.end('went on');
    expect(await resultText(last)).toBe('went on');
  });

  it('can contain input for capabilities that it does not declare', async () => {
    const begun = await suspendedCall(live);
    const last = new InteractiveClient(begun.url, '{}').retry(begun.pending.state, begun.answers);
    await expect.poll(() => received(begun)).toEqual([{ jsonrpc: '2.0', id: 7, result: { roots: [] } }]);
    begun.call.end('done');
    expect(await resultText(last)).toBe('done');
  });

  it('gets the missing capability if the call fails', async () => {
    const begun = await suspendedCall(live);
    const last = new InteractiveClient(begun.url, '{"sampling":{}}').retry(begun.pending.state, '{}');
    await expect.poll(() => received(begun)).toEqual([expectRejected(7)]);
    fail(begun.call);
    expect(await failure(last)).toMatchObject({
      status: 400,
      code: -32021,
      data: { requiredCapabilities: { roots: {} } },
    });
  });
});

describe('a retry that declares more capabilities than the previous request', () => {
  it('gets input requests that the first request did not support', async () => {
    const begun = await startCall(live, { capabilities: '{"roots":{}}' });
    const { url, call, first } = begun;
    requestAll(call);
    const pending = await inputRequired(first);
    expect(Object.values(pending.requests).map(({ method }) => method)).toEqual(['roots/list']);
    await expect.poll(() => received(begun)).toEqual([expectRejected('elicitation'), expectRejected('sampling')]);
    const more = new InteractiveClient(url);
    const second = more.retry(pending.state, inputResponses(pending));
    await expect.poll(() => received(begun)).toHaveLength(3);
    requestAll(call);
    const again = await inputRequired(second);
    expect(Object.values(again.requests).map(({ method }) => method)).toEqual(
      SERVER_REQUESTS.map(([, method]) => method),
    );
    const last = more.retry(again.state, inputResponses(again));
    await expect.poll(() => received(begun)).toHaveLength(6);
    call.end('done');
    expect(await resultText(last)).toBe('done');
  });

  it('does not get a capability that it declares as missing', async () => {
    const begun = await startCall(live, { capabilities: '{"roots":{}}' });
    const { url, call, first } = begun;
    requestAll(call);
    const pending = await inputRequired(first);
    const last = new InteractiveClient(url).retry(pending.state, inputResponses(pending));
    await expect.poll(() => received(begun)).toHaveLength(3);
    fail(call);
    expect(JSON.parse(await lastMessage(last)).result).toEqual({ resultType: 'complete', isError: true, content: [] });
  });
});

describe('a retry that declares the same capabilities', () => {
  it('gets the missing capability if the call fails, whichever request it was rejected for', async () => {
    const begun = await startCall(live, { capabilities: '{"roots":{}}' });
    const { client, call, first } = begun;
    requestAll(call);
    const pending = await inputRequired(first);
    const last = client.retry(pending.state, inputResponses(pending));
    await expect.poll(() => received(begun)).toHaveLength(3);
    fail(call);
    expect(await failure(last)).toMatchObject({
      status: 400,
      code: -32021,
      data: { requiredCapabilities: { elicitation: {} } },
    });
  });
});
