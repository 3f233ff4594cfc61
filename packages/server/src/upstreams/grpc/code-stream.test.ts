import { Client, credentials, status } from '@grpc/grpc-js';
import { afterEach, expect, onTestFinished, test, vi } from 'vitest';
import { startCodeService } from '../../../testing/code-service.ts';
import { loadProtocols } from './channel.ts';
import { callStream } from './code-request.ts';

const SETTINGS = { deadlineMs: 10_000, maxRetries: 3, retryDelayMs: 1 };

afterEach(() => {
  vi.useRealTimers();
});

async function setUp(refusals = 0) {
  const engine = await startCodeService(refusals);
  onTestFinished(() => engine.close());
  const client = new Client(`127.0.0.1:${engine.port}`, credentials.createInsecure());
  onTestFinished(() => client.close());
  const { ExecuteCode } = loadProtocols().codeExecutor;
  const replies = (settings = SETTINGS, signal?: AbortSignal) =>
    callStream(client, ExecuteCode, { code: 'x' }, { requestId: 'r', signal }, settings);
  return { engine, replies };
}

test('a stream that takes too long ends as DEADLINE_EXCEEDED, at the service as well, and is not repeated', async () => {
  const { engine, replies } = await setUp();
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const stream = replies();
  const first = stream.next();
  const execution = await engine.next();
  execution.reply({ content: ['begun'] });
  expect(await first).toMatchObject({ value: { content: ['begun'] } });
  vi.advanceTimersByTime(SETTINGS.deadlineMs);
  await expect(stream.next()).rejects.toMatchObject({ code: status.DEADLINE_EXCEEDED });
  await execution.cancelled;
  expect(engine.executions).toHaveLength(1);
});

test('a loop that is left ends the stream at the service', async () => {
  const { engine, replies } = await setUp();
  const stream = replies();
  const first = stream.next();
  const execution = await engine.next();
  execution.reply({ content: ['enough'] });
  await first;
  await stream.return();
  await execution.cancelled;
});

test('an abort ends the stream at the service', async () => {
  const { engine, replies } = await setUp();
  const ending = new AbortController();
  const first = replies(SETTINGS, ending.signal).next();
  const execution = await engine.next();
  ending.abort();
  await expect(first).rejects.toMatchObject({ code: status.CANCELLED });
  await execution.cancelled;
});

test('a call that was aborted before it began asks nobody', async () => {
  const { engine, replies } = await setUp();
  await expect(replies(SETTINGS, AbortSignal.abort()).next()).rejects.toMatchObject({ code: status.CANCELLED });
  expect(engine.executions).toEqual([]);
});

test('an abort while a repetition is waited for ends the wait', async () => {
  const { engine, replies } = await setUp(1);
  const ending = new AbortController();
  const first = replies({ ...SETTINGS, retryDelayMs: 600_000 }, ending.signal).next();
  await engine.refused;
  ending.abort();
  await expect(first).rejects.toThrow();
  expect(engine.executions).toEqual([]);
});

test('as many attempts are made as are set, all of them refused', async () => {
  const { engine, replies } = await setUp(3);
  await expect(replies({ ...SETTINGS, maxRetries: 2 }).next()).rejects.toMatchObject({ code: status.UNAVAILABLE });
  const next = replies().next();
  (await engine.next()).end();
  expect(await next).toMatchObject({ done: true });
});
