import { expect, test, vi } from 'vitest';
import type { CallResponse } from '../downstream.ts';
import { CodeProgress } from './code-execution.ts';

/** A client that stops reading, and the data sent to it. */
function stuckClient() {
  const sent: string[] = [];
  const client: CallResponse = {
    idText: '1',
    isStreaming: true,
    onDisconnect: () => undefined,
    onDrain: () => undefined,
    beginStream: () => undefined,
    sendEvent: (data) => {
      sent.push(data);
      return false;
    },
    disconnect: () => undefined,
    sendResponse: () => undefined,
    sendBytes: () => undefined,
    sendError: () => undefined,
    endWithoutResponse: () => undefined,
  };
  return { client, sent };
}

test('a client that does not read delays its call until the deadline of its code, without progress afterwards', async (context) => {
  vi.useFakeTimers();
  context.onTestFinished(() => void vi.useRealTimers());
  const { client, sent } = stuckClient();
  const progress = new CodeProgress(client, '1', new AbortController().signal, 6_000);
  let notified = false;
  const telling = progress.report('a').then(() => {
    notified = true;
  });
  await vi.advanceTimersByTimeAsync(5_999);
  expect(notified).toBe(false);
  await vi.advanceTimersByTimeAsync(1);
  await telling;
  await progress.report('b');
  expect(sent).toHaveLength(1);
});
