import { afterEach, describe, expect, it, vi } from 'vitest';
import { textResultText } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import { answerTo, liveTests, notification } from '../../../../testing/live.ts';
import { startTestService, type TestService } from '../../../../testing/service.ts';
import { type Reading, type SessionClient, sessionClient } from '../../../../testing/session-client.ts';
import { type Asking, askingOf, inputRequired, rootsUnder } from './fixtures/asking.ts';

const tests = liveTests();
const { onEnd } = tests;
const asking = askingOf(tests);

const DONE = textResultText('done');
const TWO = inputRequired(rootsUnder('a', 'b'), '"s"');
const SILENCE = { kind: 'silence' } as const;

const idOf = (message: string | undefined): unknown => JSON.parse(message ?? '{}').id;
const cancelled = (client: SessionClient, id: string) =>
  client.post(notification('cancelled', `{"requestId":${id},"reason":"r"}`));
const errorOf = (message: string | undefined) => JSON.parse(message ?? '{}').error;

/** A call whose client has been asked two things. */
async function asked(session: Asking): Promise<Reading> {
  const reading = session.client.call('"c"');
  await reading.message(1);
  return reading;
}

/** What the client was told after its questions, in order. */
const after = (reading: Reading, questions = 2) => reading.messages.slice(questions).map((text) => JSON.parse(text));

/** That these questions are no longer open. */
const takenBack = (...questions: readonly (string | undefined)[]) =>
  questions.map((question) => ({
    jsonrpc: '2.0',
    method: 'notifications/cancelled',
    params: { requestId: idOf(question), reason: expect.any(String) },
  }));

/** A service of its own with these limits in milliseconds, for which the time passes as the test says. */
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

describe('a client that answers with an error', () => {
  it.each([
    ['{"code":-1,"message":"User \\"rejected\\" ä","data":{}}', 'User "rejected" ä'],
    ['{"code":-32601,"message":""}', ''],
    ['{"code":1}', 'no reason'],
    ['{"code":1,"message":{"toString":1,"valueOf":1}}', 'no reason'],
    [`{"code":1,"message":"${'x'.repeat(1_000)}"}`, 'x'.repeat(200)],
  ])('has its call fail, and is not asked the rest: %s', async (error, reason) => {
    const session = await asking([TWO, DONE]);
    const { client, rounds } = session;
    const reading = await asked(session);
    const [first, second] = reading.messages;
    expect((await client.post(answerTo(second ?? '', `"error":${error}`))).status).toBe(202);
    expect(await reading.over).toBe(true);
    const message = `forwarded tool call failed: the client did not give the input that the upstream asked for: ${reason}`;
    expect(after(reading)).toEqual([
      ...takenBack(first),
      { jsonrpc: '2.0', id: 'c', error: { code: -32603, message } },
    ]);
    // An answer that comes too late is nobody's.
    expect((await client.post(answerTo(first ?? ''))).status).toBe(202);
    expect(rounds()).toHaveLength(1);
  });
});

describe('a call that its client cancels', () => {
  it('while the client is asked: the questions are taken back, and there is no response', async () => {
    const session = await asking([TWO, DONE]);
    const { client, rounds } = session;
    const reading = await asked(session);
    const [first, second] = reading.messages;
    await client.post(answerTo(first ?? ''));
    expect((await cancelled(client, '"c"')).status).toBe(202);
    expect(await reading.over).toBe(true);
    expect(after(reading)).toEqual(takenBack(second));
    await client.post(answerTo(second ?? ''));
    // The session goes on.
    const next = client.call('"d"');
    expect(await next.message(0)).toBe(`{"jsonrpc":"2.0","id":"d","result":${DONE}}`);
    expect(rounds()).toHaveLength(2);
  });

  it.each([
    ['first', [SILENCE]],
    ['second', [TWO, SILENCE]],
  ])('while the upstream is at work in the %s round: its request is ended', async (_which, answers) => {
    const { client, rounds } = await asking(answers);
    const reading = client.call('"c"');
    for (let at = 0; at < 2 * (answers.length - 1); at++) await client.post(answerTo(await reading.message(at)));
    await expect.poll(rounds).toHaveLength(answers.length);
    await cancelled(client, '"c"');
    expect(await reading.over).toBe(true);
    expect(reading.text).not.toMatch(/result|error/);
    await expect.poll(() => rounds().at(-1)?.left).toBe(true);
    expect(rounds()).toHaveLength(answers.length);
  });

  it('is the one that was meant, and nobody else’s', async () => {
    const session = await asking([TWO, TWO, DONE]);
    const { client, url } = session;
    const [mine, other] = [await asked(session), client.call('"d"')];
    await other.message(1);
    await cancelled(await sessionClient(url), '"c"');
    await cancelled(client, '"x"');
    await cancelled(client, '"d"');
    await other.over;
    expect(after(mine)).toEqual([]);
    for (const question of [...mine.messages]) await client.post(answerTo(question));
    expect(await mine.message(2)).toBe(`{"jsonrpc":"2.0","id":"c","result":${DONE}}`);
  });
});

describe('a client that loses its connection', () => {
  it('while it is asked can come back, answer, and get what comes of it', async () => {
    const session = await asking([TWO, inputRequired(rootsUnder('c')), DONE]);
    const { client, rounds } = session;
    const reading = client.call('"c"');
    await reading.message(1);
    const [first, second] = reading.events;
    reading.leave();
    await reading.over;
    // It has seen the first question alone.
    const back = client.listen(first?.id);
    expect(await back.message(0)).toBe(second?.data);
    for (const question of [first?.data, second?.data]) await client.post(answerTo(question ?? ''));
    await client.post(answerTo(await back.message(1)));
    expect(await back.message(2)).toBe(`{"jsonrpc":"2.0","id":"c","result":${DONE}}`);
    expect(await back.over).toBe(true);
    expect(rounds()).toHaveLength(3);
  });

  it('can answer while it is away, and gets the rest when it is back', async () => {
    const session = await asking([TWO, inputRequired(rootsUnder('c')), DONE]);
    const { client, rounds } = session;
    const reading = await asked(session);
    reading.leave();
    await reading.over;
    for (const question of [...reading.messages]) await client.post(answerTo(question));
    await expect.poll(rounds).toHaveLength(2);
    const back = client.listen(reading.lastId);
    await client.post(answerTo(await back.message(0)));
    expect(await back.message(1)).toContain('done');
  });
});

describe('a session that is ended', () => {
  it('while its client is asked: the call fails, and the upstream is not asked again', async () => {
    const session = await asking([TWO, DONE]);
    const { client, rounds } = session;
    const reading = await asked(session);
    const [, second] = reading.messages;
    expect(await client.end()).toBe(204);
    expect(await reading.over).toBe(true);
    expect(after(reading)).toEqual([
      ...takenBack(second),
      { jsonrpc: '2.0', id: 'c', error: { code: -32603, message: expect.stringContaining('has left') } },
    ]);
    expect(rounds()).toHaveLength(1);
  });

  it('while the upstream is at work: nothing is asked any more', async () => {
    const ended = Promise.withResolvers<string>();
    const { client, rounds } = await asking([() => ended.promise, DONE]);
    const reading = client.call('"c"');
    await expect.poll(rounds).toHaveLength(1);
    expect(await client.end()).toBe(204);
    ended.resolve(TWO);
    expect(await reading.over).toBe(true);
    expect(reading.messages.map(errorOf)).toEqual([
      { code: -32603, message: 'forwarded tool call failed: the client cannot be asked: its session has ended' },
    ]);
    expect(rounds()).toHaveLength(1);
  });
});

describe('the limits of a call', () => {
  it('count no silence while the client is asked, but that of the upstream before and after', async () => {
    const session = await asking([TWO, SILENCE], { on: await limited('300') });
    const { client, rounds } = session;
    const reading = await asked(session);
    const questions = [...reading.messages];
    // Calls that are asked nothing end meanwhile, one after the other.
    for (const [at, id] of ['"x"', '"y"'].entries()) {
      const other = client.call(id);
      await expect.poll(rounds, { interval: 1 }).toHaveLength(2 + at);
      vi.advanceTimersByTime(400);
      await other.over;
      expect(other.text).toContain('sent nothing for 0.3 s');
    }
    expect(after(reading)).toEqual([]);
    for (const question of questions) await client.post(answerTo(question));
    await expect.poll(rounds, { interval: 1 }).toHaveLength(4);
    vi.advanceTimersByTime(200);
    await client.ask('ping');
    expect(after(reading)).toEqual([]);
    vi.advanceTimersByTime(200);
    expect(errorOf(await reading.message(2)).message).toContain('sent nothing for 0.3 s');
    await expect.poll(() => rounds().every(({ left }, at) => left === at > 0)).toBe(true);
  });

  it('count the whole length over all rounds, also while the client is asked', async () => {
    const session = await asking([TWO], { on: await limited('100', '1000') });
    const reading = await asked(session);
    vi.advanceTimersByTime(500);
    for (const question of [...reading.messages]) await session.client.post(answerTo(question));
    await reading.message(3);
    vi.advanceTimersByTime(500);
    await session.client.ask('ping');
    expect(reading.messages).toHaveLength(4);
    vi.advanceTimersByTime(100);
    expect(await reading.over).toBe(true);
    const [, , third, fourth] = reading.messages;
    expect(after(reading, 4)).toEqual([
      ...takenBack(third, fourth),
      {
        jsonrpc: '2.0',
        id: 'c',
        error: { code: -32603, message: 'forwarded tool call failed: it did not finish within 1 s' },
      },
    ]);
    expect(session.rounds()).toHaveLength(2);
  });
});
