import { randomBytes } from 'node:crypto';
import type { RequestMessage } from '@sluice/protocol/mcp/message';
import { TokenSealer } from '@sluice/protocol/seal';
import { afterEach, expect, it, vi } from 'vitest';
import { type AskedClient, SuspendableCall } from './parkable-call.ts';
import { ParkedCalls } from './parked-calls.ts';

const QUESTION = '{"jsonrpc":"2.0","id":1,"method":"roots/list"}';

afterEach(() => {
  vi.useRealTimers();
});

function parkedCalls(limit = 1_000): ParkedCalls {
  return new ParkedCalls({ sealer: new TokenSealer(randomBytes(32)), replica: 'r', limit, timeoutMs: 3_600_000 });
}

/** A client, and the answer that it gets. */
function clientOf() {
  const answer = Promise.withResolvers<string>();
  const client: AskedClient = {
    idText: '1',
    streaming: false,
    onLeave: () => {},
    onDrain: () => {},
    beginStream: () => {},
    event: () => true,
    poll: () => {},
    result: (json) => answer.resolve(`{"result":${json}}`),
    response: (text) => answer.resolve(text),
    error: ({ message }) => answer.reject(new Error(message)),
    cancelled: () => answer.reject(new Error('cancelled')),
  };
  return { client, answer: answer.promise };
}

/** A call with a request of so many characters, and what is seen of it. */
function callOf(parked: ParkedCalls, characters = 100, user?: string) {
  const { client, answer } = clientOf();
  const text = ' '.repeat(characters);
  const message: RequestMessage = {
    kind: 'request',
    text,
    idText: '1',
    idRange: { start: 0, end: 0 },
    method: 'tools/call',
    params: {},
    paramsRange: undefined,
  };
  const owner = { namespace: 'n', user };
  const attempt = { message, capabilities: { roots: {} }, headers: [], streams: true, json: true };
  const call = new SuspendableCall({ place: parked, attempt, owner, continueWith: () => {} }, client);
  const left = Promise.withResolvers<void>();
  call.onLeave(() => left.resolve());
  const refused: string[] = [];
  call.connect({
    refused: (asked) => void refused.push(asked),
    deliver: async () => {},
    fail: (error) => {
      throw error;
    },
  });
  const ask = () => call.ask(QUESTION, JSON.parse(QUESTION));
  const retry = (retried = characters) => {
    const again = clientOf();
    call.resume(again.client, { ...attempt, message: { ...message, text: ' '.repeat(retried) } });
    return again.answer;
  };
  return { answer, left: left.promise, ask, refused, retry, call };
}

it('what is asked within a moment, the client is asked at once', async () => {
  vi.useFakeTimers();
  const { answer, ask } = callOf(parkedCalls());
  ask();
  vi.advanceTimersByTime(9);
  ask();
  vi.advanceTimersByTime(1);
  expect(Object.keys(JSON.parse(await answer).result.inputRequests)).toHaveLength(2);
});

it('a call that was about to be parked when all are given up is answered, and then given up', async () => {
  const parked = parkedCalls();
  const { answer, left, ask } = callOf(parked);
  expect(ask()).toBe(true);
  parked.close();
  expect(JSON.parse(await answer).result).toMatchObject({ resultType: 'input_required' });
  await left;
});

it('when all are given up, no other call is parked', async () => {
  const parked = parkedCalls();
  const waiting = [callOf(parked), callOf(parked)];
  for (const { ask, answer } of waiting) {
    expect(ask()).toBe(true);
    await answer;
  }
  parked.close();
  await Promise.all(waiting.map(({ left }) => left));
  expect(callOf(parked).ask()).toBe(false);
});

it('the requests of all parked calls together have a bound, and what a call has taken up it gives back', () => {
  const parked = parkedCalls();
  const large = [callOf(parked, 30 * 1024 * 1024), callOf(parked, 30 * 1024 * 1024)];
  for (const { ask } of large) expect([ask(), ask()]).toEqual([true, true]);
  const another = callOf(parked, 30 * 1024 * 1024);
  expect(another.ask()).toBe(false);
  expect(callOf(parked, 1_000).ask()).toBe(true);
  large[0]?.call.withdrawAll();
  expect(another.ask()).toBe(true);
});

it('what upstreams send to parked calls has its part in that bound: an answer that has no room is lost', async () => {
  const parked = parkedCalls();
  const [one, two, another] = [callOf(parked), callOf(parked), callOf(parked, 40 * 1024 * 1024)];
  for (const { ask, answer } of [one, two]) {
    expect(ask()).toBe(true);
    await answer;
  }
  const response = `{"id":null,"result":{"text":"${'x'.repeat(30 * 1024 * 1024)}"}}`;
  for (const { call } of [one, two]) {
    call.withdrawAll();
    call.response(response, false, 200, true);
  }
  expect(another.ask()).toBe(false);
  expect(await one.retry()).toBe(response.replace('null', '1'));
  expect(another.ask()).toBe(false);
  expect(await two.retry()).toBe(response.replace('null', '1'));
  expect(another.ask()).toBe(true);
  await another.answer;
  another.call.withdrawAll();
  another.call.response(`{"id":null,"result":{"text":"${'x'.repeat(40 * 1024 * 1024)}"}}`, false, 200, true);
  const late = callOf(parked);
  expect(late.ask()).toBe(true);
  await late.answer;
  late.call.response(response, false, 200, true);
  await expect(late.retry()).rejects.toThrow('more than can be held');
  // An ordinary one has room in any case.
  const small = callOf(parked);
  expect(small.ask()).toBe(true);
  await small.answer;
  const ordinary = `{"id":null,"result":{"text":"${'x'.repeat(30 * 1024)}"}}`;
  small.call.response(ordinary, false, 200, true);
  expect(await small.retry()).toBe(ordinary.replace('null', '1'));
});

it('nobody takes all places: half of them are left to other users and namespaces', () => {
  const parked = parkedCalls(4);
  const asks = [undefined, undefined, undefined, 'ann', 'ann', 'ann', 'bob'].map((user) =>
    callOf(parked, 1, user).ask(),
  );
  expect(asks).toEqual([true, true, false, true, true, false, false]);
});

it('of a request only what a retry needs is held: large ones do not keep others from being parked', async () => {
  const parked = parkedCalls();
  for (let at = 0; at < 4; at++) {
    const { ask, answer } = callOf(parked, 40 * 1024 * 1024);
    expect(ask()).toBe(true);
    await answer;
  }
});

it('a call whose questions were taken back before it was parked leaves its place to another', () => {
  const parked = parkedCalls(1);
  const [one, two] = [callOf(parked), callOf(parked)];
  expect([one.ask(), two.ask()]).toEqual([true, false]);
  one.call.takenBack('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}');
  expect(two.ask()).toBe(true);
});

it('a retry that is too large to be held is asked nothing any more, and what it brings has its part in the bound', async () => {
  const parked = parkedCalls();
  const { ask, answer, retry, refused, call } = callOf(parked);
  expect(ask()).toBe(true);
  await answer;
  await retry(50 * 1024 * 1024);
  expect(refused).toEqual([]);
  const last = retry(70 * 1024 * 1024);
  expect(refused).toEqual(['roots/list']);
  call.response('{"id":null,"result":{}}', false, 200, true);
  expect(await last).toBe('{"id":null,"result":{}}');
  expect(callOf(parked, 60 * 1024 * 1024).ask()).toBe(true);
});
