import { randomBytes } from 'node:crypto';
import type { RequestMessage } from '@sluice/protocol/mcp/message';
import { TokenSealer } from '@sluice/protocol/seal';
import { afterEach, expect, it, vi } from 'vitest';
import { accessToWork, permitFor } from '../../../access/fixtures/access.ts';
import { ANONYMOUS, createUser } from '../../../identity/principal.ts';
import { WaitingClient } from '../../grpc/fixtures/waiting-client.ts';
import type { CallOutcome } from '../../response-sink.ts';
import { SuspendableCall } from './suspendable-call.ts';
import { SuspendedCalls } from './suspended-calls.ts';

const access = await accessToWork();
const SERVER_REQUEST = '{"jsonrpc":"2.0","id":1,"method":"roots/list"}';

afterEach(() => {
  vi.useRealTimers();
});

function suspendedCalls(limit = 1_000): SuspendedCalls {
  return new SuspendedCalls({
    sealer: new TokenSealer(randomBytes(32)),
    replica: 'r',
    limit,
    timeoutMs: 3_600_000,
  });
}

/** A client with its whole response. */
class Client extends WaitingClient {
  readonly #response = Promise.withResolvers<string>();
  readonly response = this.#response.promise;

  override complete(outcome: CallOutcome): void {
    if (outcome.kind === 'response') this.#response.resolve(outcome.text);
    else if (outcome.kind === 'result') this.#response.resolve(`{"result":${outcome.json}}`);
    else if (outcome.kind === 'failed') this.#response.reject(new Error(outcome.error.message));
  }
}

/** The response of the upstream with this result. */
const responseOf = (text: string): CallOutcome => {
  return { kind: 'response', text, value: { result: {} }, status: 200, isAscii: false };
};

/** A call with a request of this many characters. */
function suspendableCall(suspended: SuspendedCalls, characters = 100, user?: string, namespace = 'n') {
  const text = ' '.repeat(characters);
  const message: RequestMessage = {
    kind: 'request',
    text,
    idText: '1',
    idRange: { start: 0, end: 0 },
    method: 'tools/call',
    params: { name: 'work' },
    paramsRange: undefined,
    paramMembers: [],
  };
  const principal = user === undefined ? ANONYMOUS : createUser(user, 'proxy');
  const facts = { namespace, principal, capabilities: { roots: {} } };
  const client = new Client(facts);
  const answer = client.response;
  const call = new SuspendableCall(suspended, permitFor(access, message), client);
  const left = Promise.withResolvers<void>();
  call.onDisconnect(() => left.resolve());
  const refused: string[] = [];
  call.connect({
    onRejected: (pending) => void refused.push(pending),
    post: async () => {},
    fail: (error) => {
      throw error;
    },
  });
  const relayRequest = () => call.relay(SERVER_REQUEST, JSON.parse(SERVER_REQUEST));
  const retry = (retried = characters) => {
    const again = new Client(facts);
    call.resume(again, { ...message, text: ' '.repeat(retried) });
    return again.response;
  };
  return { answer, client, left: left.promise, relayRequest, refused, retry, call };
}

it('server requests in quick succession are sent to the client together', async () => {
  vi.useFakeTimers();
  const { answer, relayRequest } = suspendableCall(suspendedCalls());
  relayRequest();
  vi.advanceTimersByTime(9);
  relayRequest();
  vi.advanceTimersByTime(1);
  expect(Object.keys(JSON.parse(await answer).result.inputRequests)).toHaveLength(2);
});

it('a call that is about to be suspended during close is answered, and then expires', async () => {
  const suspended = suspendedCalls();
  const { answer, left, relayRequest } = suspendableCall(suspended);
  expect(relayRequest()).toBe(true);
  suspended.close();
  expect(JSON.parse(await answer).result).toMatchObject({ resultType: 'input_required' });
  await left;
});

it('no call is suspended after close', async () => {
  const suspended = suspendedCalls();
  const waiting = [suspendableCall(suspended), suspendableCall(suspended)];
  for (const { relayRequest, answer } of waiting) {
    expect(relayRequest()).toBe(true);
    await answer;
  }
  suspended.close();
  await Promise.all(waiting.map(({ left }) => left));
  expect(suspendableCall(suspended).relayRequest()).toBe(false);
});

it('the requests of all suspended calls have a common limit, which a released call does not count towards', () => {
  const suspended = suspendedCalls();
  const large = [suspendableCall(suspended, 20 * 1024 * 1024), suspendableCall(suspended, 20 * 1024 * 1024)];
  for (const { relayRequest } of large) expect([relayRequest(), relayRequest()]).toEqual([true, true]);
  const another = suspendableCall(suspended, 20 * 1024 * 1024);
  expect(another.relayRequest()).toBe(false);
  expect(suspendableCall(suspended, 1_000).relayRequest()).toBe(true);
  large[0]?.call.cancelAll();
  expect(another.relayRequest()).toBe(true);
});

it('messages to suspended calls count towards the limit: a response beyond it becomes an error', async () => {
  const suspended = suspendedCalls();
  const [one, two, another] = [
    suspendableCall(suspended),
    suspendableCall(suspended),
    suspendableCall(suspended, 40 * 1024 * 1024),
  ];
  for (const { relayRequest, answer } of [one, two]) {
    expect(relayRequest()).toBe(true);
    await answer;
  }
  const response = `{"id":null,"result":{"text":"${'x'.repeat(20 * 1024 * 1024)}"}}`;
  for (const { call } of [one, two]) {
    call.cancelAll();
    call.complete(responseOf(response));
  }
  expect(another.relayRequest()).toBe(false);
  expect(await one.retry()).toBe(response.replace('null', '1'));
  expect(another.relayRequest()).toBe(false);
  expect(await two.retry()).toBe(response.replace('null', '1'));
  expect(another.relayRequest()).toBe(true);
  await another.answer;
  another.call.cancelAll();
  another.call.complete(responseOf(`{"id":null,"result":{"text":"${'x'.repeat(40 * 1024 * 1024)}"}}`));
  const late = suspendableCall(suspended);
  expect(late.relayRequest()).toBe(true);
  await late.answer;
  late.call.complete(responseOf(response));
  await expect(late.retry()).rejects.toThrow('too large to be stored');
  // An ordinary one is stored in any case.
  const small = suspendableCall(suspended);
  expect(small.relayRequest()).toBe(true);
  await small.answer;
  const ordinary = `{"id":null,"result":{"text":"${'x'.repeat(30 * 1024)}"}}`;
  small.call.complete(responseOf(ordinary));
  expect(await small.retry()).toBe(ordinary.replace('null', '1'));
});

it('a user whose calls are as many as may be suspended keeps no other from suspending one, and loses none to it', async () => {
  const suspended = suspendedCalls(5);
  const calls = [1, 2, 3].map(() => suspendableCall(suspended, 1, 'ann'));
  for (const { relayRequest } of calls) expect(relayRequest()).toBe(true);
  await Promise.all(calls.map(({ answer }) => answer));
  const ended: string[] = [];
  for (const { left } of calls) void left.then(() => ended.push('ended'));
  expect(suspendableCall(suspended, 1, 'ann').relayRequest()).toBe(false);
  expect(suspendableCall(suspended, 1, 'ann', 'other').relayRequest()).toBe(false);
  expect([1, 2].map(() => suspendableCall(suspended, 1, 'bob').relayRequest())).toEqual([true, false]);
  await Promise.resolve();
  expect(ended).toEqual([]);
});

it('large calls of one user leave memory for those of others', async () => {
  const suspended = suspendedCalls();
  const large = suspendableCall(suspended, 40 * 1024 * 1024, 'ann');
  expect(large.relayRequest()).toBe(true);
  expect(suspendableCall(suspended, 10 * 1024 * 1024, 'ann').relayRequest()).toBe(false);
  expect(suspendableCall(suspended, 10 * 1024 * 1024, 'bob').relayRequest()).toBe(true);
  await large.answer;
  large.call.cancelAll();
  const response = `{"id":null,"result":"${'x'.repeat(30 * 1024 * 1024)}"}`;
  large.call.complete(responseOf(response));
  expect(suspendableCall(suspended, 10 * 1024 * 1024, 'ann').relayRequest()).toBe(false);
  expect(suspendableCall(suspended, 2 * 1024 * 1024, 'eve').relayRequest()).toBe(true);
  expect(await large.retry()).toBe(response.replace('null', '1'));
});

it('a suspended call that its client ends, as one that has become a task can be, releases its place', async () => {
  const suspended = suspendedCalls(1);
  const [one, two] = [suspendableCall(suspended), suspendableCall(suspended)];
  expect(one.relayRequest()).toBe(true);
  await one.answer;
  expect(two.relayRequest()).toBe(false);
  one.client.leave();
  await one.left;
  one.call.cancelAll();
  expect(two.relayRequest()).toBe(true);
  await two.answer;
  two.call.complete(responseOf('{"id":null,"result":{}}'));
  expect(suspendableCall(suspended).relayRequest()).toBe(false);
  two.client.leave();
  expect(suspendableCall(suspended).relayRequest()).toBe(true);
});

it('a suspended call calls every listener when its client disconnects', async () => {
  const { call, client, left } = suspendableCall(suspendedCalls());
  const other = new Promise<void>((resolve) => call.onDisconnect(resolve));
  client.leave();
  await Promise.all([left, other]);
});

it('input requests of a suspended call whose upstream fails do not count any more, and its retry gets the error', async () => {
  const suspended = suspendedCalls();
  const { call, answer, retry } = suspendableCall(suspended);
  const request = { id: 1, method: 'roots/list', params: { text: 'x'.repeat(40 * 1024 * 1024) } };
  expect(call.relay(JSON.stringify(request), request)).toBe(true);
  await answer;
  const another = suspendableCall(suspended, 40 * 1024 * 1024);
  expect(another.relayRequest()).toBe(false);
  call.cancelAll();
  call.complete({ kind: 'failed', error: { code: -32603, message: 'connection lost' } });
  expect(another.relayRequest()).toBe(true);
  await expect(retry()).rejects.toThrow('connection lost');
});

it('only the outline of a request is stored: large ones do not prevent other suspensions', async () => {
  const suspended = suspendedCalls();
  for (let at = 0; at < 4; at++) {
    const { relayRequest, answer } = suspendableCall(suspended, 40 * 1024 * 1024);
    expect(relayRequest()).toBe(true);
    await answer;
  }
});

it('a call whose server requests were canceled before its suspension releases its reservation', () => {
  const suspended = suspendedCalls(1);
  const [one, two] = [suspendableCall(suspended), suspendableCall(suspended)];
  expect([one.relayRequest(), two.relayRequest()]).toEqual([true, false]);
  one.call.onCancelled('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}');
  expect(two.relayRequest()).toBe(true);
});

it('a retry that is too large to be stored gets no further input requests, and counts towards the limit', async () => {
  const suspended = suspendedCalls();
  const { relayRequest, answer, retry, refused, call } = suspendableCall(suspended);
  expect(relayRequest()).toBe(true);
  await answer;
  await retry(40 * 1024 * 1024);
  expect(refused).toEqual([]);
  const last = retry(70 * 1024 * 1024);
  expect(refused).toEqual(['roots/list']);
  call.complete(responseOf('{"id":null,"result":{}}'));
  expect(await last).toBe('{"id":null,"result":{}}');
  expect(suspendableCall(suspended, 40 * 1024 * 1024).relayRequest()).toBe(true);
});

it('names the process of suspended calls only', async () => {
  const suspended = suspendedCalls(10);
  const binding = { namespace: 'n', principal: ANONYMOUS, digest: 'd' };
  const { answer, relayRequest } = suspendableCall(suspended);
  relayRequest();
  const { requestState } = JSON.parse(await answer).result;
  expect(suspended.replicaOf(requestState)).toBe('r');
  expect(suspended.replicaOf(suspended.createTaskState('t.1', binding))).toBeUndefined();
  expect(suspended.replicaOf(suspended.createRestartState(binding))).toBeUndefined();
  expect(suspended.replicaOf('foreign')).toBeUndefined();
});
