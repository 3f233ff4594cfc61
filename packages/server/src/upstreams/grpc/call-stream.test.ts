import { Client, credentials, status } from '@grpc/grpc-js';
import { afterEach, expect, onTestFinished, test, vi } from 'vitest';
import { startCodeService } from '../../../testing/code-service.ts';
import { loadProtocols } from './channels.ts';
import { callStream } from './grpc-client.ts';

const SETTINGS = { deadlineMs: 10_000, maxRetries: 3, retryDelayMs: 1 };

afterEach(() => {
  vi.useRealTimers();
});

async function setUp(rejections = 0) {
  const engine = await startCodeService(rejections);
  onTestFinished(() => engine.close());
  const client = new Client(`127.0.0.1:${engine.port}`, credentials.createInsecure());
  onTestFinished(() => client.close());
  const { ExecuteCode } = loadProtocols().codeExecutor;
  const replies = (settings = SETTINGS, signal?: AbortSignal) =>
    callStream(client, ExecuteCode, { code: 'x' }, { requestId: 'r', signal }, settings);
  return { engine, replies };
}

test('a stream over its deadline ends as DEADLINE_EXCEEDED, is canceled at the service and not retried', async () => {
  const { engine, replies } = await setUp();
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const stream = replies();
  const first = stream.next();
  const execution = await engine.next();
  execution.reply({ content: ['begun'] });
  expect(await first).toMatchObject({ value: { content: ['begun'] } });
  vi.advanceTimersByTime(SETTINGS.deadlineMs);
  await expect(stream.next()).rejects.toMatchObject({ code: status.DEADLINE_EXCEEDED });
  await execution.canceled;
  expect(engine.executions).toHaveLength(1);
});

test('leaving the loop cancels the stream at the service', async () => {
  const { engine, replies } = await setUp();
  const stream = replies();
  const first = stream.next();
  const execution = await engine.next();
  execution.reply({ content: ['enough'] });
  await first;
  await stream.return();
  await execution.canceled;
});

test('an abort cancels the stream at the service', async () => {
  const { engine, replies } = await setUp();
  const ending = new AbortController();
  const first = replies(SETTINGS, ending.signal).next();
  const execution = await engine.next();
  ending.abort();
  await expect(first).rejects.toMatchObject({ code: status.CANCELLED });
  await execution.canceled;
});

test('a call aborted before its start is not sent', async () => {
  const { engine, replies } = await setUp();
  await expect(replies(SETTINGS, AbortSignal.abort()).next()).rejects.toMatchObject({ code: status.CANCELLED });
  expect(engine.executions).toEqual([]);
});

test('an abort ends the wait for a retry', async () => {
  const { engine, replies } = await setUp(1);
  const ending = new AbortController();
  const first = replies({ ...SETTINGS, retryDelayMs: 600_000 }, ending.signal).next();
  await engine.rejected;
  ending.abort();
  await expect(first).rejects.toThrow();
  expect(engine.executions).toEqual([]);
});

test('the number of retries is limited', async () => {
  const { engine, replies } = await setUp(3);
  await expect(replies({ ...SETTINGS, maxRetries: 2 }).next()).rejects.toMatchObject({ code: status.UNAVAILABLE });
  const next = replies().next();
  (await engine.next()).end();
  expect(await next).toMatchObject({ done: true });
});
