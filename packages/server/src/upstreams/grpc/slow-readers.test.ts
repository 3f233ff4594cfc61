import { expect, test, vi } from 'vitest';
import type { CallResponse } from '../downstream.ts';
import { CodeProgress } from './code-execution.ts';

/** A client that takes nothing any more, and what it was sent. */
function stuckClient() {
  const sent: string[] = [];
  const client: CallResponse = {
    idText: '1',
    streaming: true,
    onLeave: () => undefined,
    onDrain: () => undefined,
    beginStream: () => undefined,
    event: (data) => {
      sent.push(data);
      return false;
    },
    poll: () => undefined,
    response: () => undefined,
    error: () => undefined,
    cancelled: () => undefined,
  };
  return { client, sent };
}

test('a client that does not read is waited for until the time of its code is over, and told nothing then', async (context) => {
  vi.useFakeTimers();
  context.onTestFinished(() => void vi.useRealTimers());
  const { client, sent } = stuckClient();
  const progress = new CodeProgress(client, '1', new AbortController().signal, 6_000);
  let told = false;
  const telling = progress.tell('a').then(() => {
    told = true;
  });
  await vi.advanceTimersByTimeAsync(5_999);
  expect(told).toBe(false);
  await vi.advanceTimersByTimeAsync(1);
  await telling;
  await progress.tell('b');
  expect(sent).toHaveLength(1);
});
