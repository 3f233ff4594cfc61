import { afterEach, describe, expect, it, vi } from 'vitest';
import { textResultText } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import { liveTests, notification, responseTo } from '../../../../testing/live-tests.ts';
import { startTestService, type TestService } from '../../../../testing/service.ts';
import { type ResponseReader, type SessionClient, sessionClient } from '../../../../testing/session-client.ts';
import { inputRequired, type MultiRoundSetup, multiRoundStarter, rootsRequests } from './fixtures/multi-round.ts';

const tests = liveTests();
const { onEnd } = tests;
const startSession = multiRoundStarter(tests);

const DONE = textResultText('done');
const TWO = inputRequired(rootsRequests('a', 'b'), '"s"');
const SILENCE = { kind: 'silence' } as const;

const idOf = (message: string | undefined): unknown => JSON.parse(message ?? '{}').id;
const sendCancellation = (client: SessionClient, id: string) =>
  client.post(notification('cancelled', `{"requestId":${id},"reason":"r"}`));
const errorOf = (message: string | undefined) => JSON.parse(message ?? '{}').error;

/** A call with two pending server requests. */
async function pending(session: MultiRoundSetup): Promise<ResponseReader> {
  const reading = session.client.call('"c"');
  await reading.message(1);
  return reading;
}

/** Messages that the client got after the server requests, in order. */
const after = (reading: ResponseReader, serverRequests = 2) =>
  reading.messages.slice(serverRequests).map((text) => JSON.parse(text));

/** The cancellations of these server requests. */
const canceled = (...serverRequests: readonly (string | undefined)[]) =>
  serverRequests.map((serverRequest) => ({
    jsonrpc: '2.0',
    method: 'notifications/cancelled',
    params: { requestId: idOf(serverRequest), reason: expect.any(String) },
  }));

/** A separate service with these limits in milliseconds and a clock that the test controls. */
async function limited(idle: string, whole = '60000'): Promise<TestService> {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
  const service = await startTestService({
    SERVICE_UPSTREAM_IDLE_TIMEOUT_MS: idle,
    SERVICE_UPSTREAM_MAX_TIMEOUT_MS: whole,
  });
  onEnd(() => service.stop(0));
  return service;
}

afterEach(() => {
  vi.useRealTimers();
});

describe('a client that responds with an error', () => {
  it.each([
    ['{"code":-1,"message":"User \\"rejected\\" ä","data":{}}', 'User "rejected" ä'],
    ['{"code":-32601,"message":""}', ''],
    ['{"code":1}', 'no reason'],
    ['{"code":1,"message":{"toString":1,"valueOf":1}}', 'no reason'],
    [`{"code":1,"message":"${'x'.repeat(1_000)}"}`, 'x'.repeat(200)],
  ])('fails its call, and pending server requests are canceled: %s', async (error, reason) => {
    const session = await startSession([TWO, DONE]);
    const { client, rounds } = session;
    const reading = await pending(session);
    const [first, second] = reading.messages;
    expect((await client.post(responseTo(second ?? '', `"error":${error}`))).status).toBe(202);
    expect(await reading.ended).toBe(true);
    const message = `forwarded tool call failed: the client did not provide the required input: ${reason}`;
    expect(after(reading)).toEqual([...canceled(first), { jsonrpc: '2.0', id: 'c', error: { code: -32603, message } }]);
    // A late response is ignored.
    expect((await client.post(responseTo(first ?? ''))).status).toBe(202);
    expect(rounds()).toHaveLength(1);
  });
});

describe('a call that its client cancels', () => {
  it('while server requests are pending: they are canceled, and there is no response', async () => {
    const session = await startSession([TWO, DONE]);
    const { client, rounds } = session;
    const reading = await pending(session);
    const [first, second] = reading.messages;
    await client.post(responseTo(first ?? ''));
    expect((await sendCancellation(client, '"c"')).status).toBe(202);
    expect(await reading.ended).toBe(true);
    expect(after(reading)).toEqual(canceled(second));
    await client.post(responseTo(second ?? ''));
    // The session stays open.
    const next = client.call('"d"');
    expect(await next.message(0)).toBe(`{"jsonrpc":"2.0","id":"d","result":${DONE}}`);
    expect(rounds()).toHaveLength(2);
  });

  it.each([
    ['first', [SILENCE]],
    ['second', [TWO, SILENCE]],
  ])('while the upstream is processing the %s round: its request is aborted', async (_which, responses) => {
    const { client, rounds } = await startSession(responses);
    const reading = client.call('"c"');
    for (let at = 0; at < 2 * (responses.length - 1); at++) await client.post(responseTo(await reading.message(at)));
    await expect.poll(rounds).toHaveLength(responses.length);
    await sendCancellation(client, '"c"');
    expect(await reading.ended).toBe(true);
    expect(reading.text).not.toMatch(/result|error/);
    await expect.poll(() => rounds().at(-1)?.isDisconnected).toBe(true);
    expect(rounds()).toHaveLength(responses.length);
  });

  it('is the one with the canceled id, and no other', async () => {
    const session = await startSession([TWO, TWO, DONE]);
    const { client, url } = session;
    const [mine, other] = [await pending(session), client.call('"d"')];
    await other.message(1);
    await sendCancellation(await sessionClient(url), '"c"');
    await sendCancellation(client, '"x"');
    await sendCancellation(client, '"d"');
    await other.ended;
    expect(after(mine)).toEqual([]);
    for (const serverRequest of [...mine.messages]) await client.post(responseTo(serverRequest));
    expect(await mine.message(2)).toBe(`{"jsonrpc":"2.0","id":"c","result":${DONE}}`);
  });
});

describe('a client that loses its connection', () => {
  it('during a server request can reconnect, respond, and get the result', async () => {
    const session = await startSession([TWO, inputRequired(rootsRequests('c')), DONE]);
    const { client, rounds } = session;
    const reading = client.call('"c"');
    await reading.message(1);
    const [first, second] = reading.events;
    reading.disconnect();
    await reading.ended;
    // It has seen only the first server request.
    const back = client.listen(first?.id);
    expect(await back.message(0)).toBe(second?.data);
    for (const serverRequest of [first?.data, second?.data]) await client.post(responseTo(serverRequest ?? ''));
    await client.post(responseTo(await back.message(1)));
    expect(await back.message(2)).toBe(`{"jsonrpc":"2.0","id":"c","result":${DONE}}`);
    expect(await back.ended).toBe(true);
    expect(rounds()).toHaveLength(3);
  });

  it('can respond while disconnected, and gets the rest when it resumes', async () => {
    const session = await startSession([TWO, inputRequired(rootsRequests('c')), DONE]);
    const { client, rounds } = session;
    const reading = await pending(session);
    reading.disconnect();
    await reading.ended;
    for (const serverRequest of [...reading.messages]) await client.post(responseTo(serverRequest));
    await expect.poll(rounds).toHaveLength(2);
    const back = client.listen(reading.lastId);
    await client.post(responseTo(await back.message(0)));
    expect(await back.message(1)).toContain('done');
  });
});

describe('a session that ends', () => {
  it('while server requests are pending: the call fails, and the upstream gets no retry', async () => {
    const session = await startSession([TWO, DONE]);
    const { client, rounds } = session;
    const reading = await pending(session);
    const [, second] = reading.messages;
    expect(await client.end()).toBe(204);
    expect(await reading.ended).toBe(true);
    expect(after(reading)).toEqual([
      ...canceled(second),
      { jsonrpc: '2.0', id: 'c', error: { code: -32603, message: expect.stringContaining('disconnected') } },
    ]);
    expect(rounds()).toHaveLength(1);
  });

  it('while the upstream is processing: no more server requests are sent', async () => {
    const ended = Promise.withResolvers<string>();
    const { client, rounds } = await startSession([() => ended.promise, DONE]);
    const reading = client.call('"c"');
    await expect.poll(rounds).toHaveLength(1);
    expect(await client.end()).toBe(204);
    ended.resolve(TWO);
    expect(await reading.ended).toBe(true);
    expect(reading.messages.map(errorOf)).toEqual([
      { code: -32603, message: 'forwarded tool call failed: the session of the client has ended' },
    ]);
    expect(rounds()).toHaveLength(1);
  });
});

describe('the limits of a call', () => {
  it('exclude silence while server requests are pending, but not that of the upstream before and after', async () => {
    const session = await startSession([TWO, SILENCE], { on: await limited('300') });
    const { client, rounds } = session;
    const reading = await pending(session);
    const serverRequests = [...reading.messages];
    // Calls without server requests end meanwhile, one after another.
    for (const [at, id] of ['"x"', '"y"'].entries()) {
      const other = client.call(id);
      await expect.poll(rounds, { interval: 1 }).toHaveLength(2 + at);
      vi.advanceTimersByTime(400);
      await other.ended;
      expect(other.text).toContain('sent nothing for 0.3 s');
    }
    expect(after(reading)).toEqual([]);
    for (const serverRequest of serverRequests) await client.post(responseTo(serverRequest));
    await expect.poll(rounds, { interval: 1 }).toHaveLength(4);
    vi.advanceTimersByTime(200);
    await client.request('ping');
    expect(after(reading)).toEqual([]);
    vi.advanceTimersByTime(200);
    expect(errorOf(await reading.message(2)).message).toContain('sent nothing for 0.3 s');
    await expect.poll(() => rounds().every(({ isDisconnected }, at) => isDisconnected === at > 0)).toBe(true);
  });

  it('include the time of all rounds and of server requests', async () => {
    const session = await startSession([TWO], { on: await limited('100', '1000') });
    const reading = await pending(session);
    vi.advanceTimersByTime(500);
    for (const serverRequest of [...reading.messages]) await session.client.post(responseTo(serverRequest));
    await reading.message(3);
    vi.advanceTimersByTime(500);
    await session.client.request('ping');
    expect(reading.messages).toHaveLength(4);
    vi.advanceTimersByTime(100);
    expect(await reading.ended).toBe(true);
    const [, , third, fourth] = reading.messages;
    expect(after(reading, 4)).toEqual([
      ...canceled(third, fourth),
      {
        jsonrpc: '2.0',
        id: 'c',
        error: { code: -32603, message: 'forwarded tool call failed: it did not finish within 1 s' },
      },
    ]);
    expect(session.rounds()).toHaveLength(2);
  });
});
