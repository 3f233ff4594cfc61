import { expect, test, vi } from 'vitest';
import { CodeProgress } from './code-execution.ts';
import { WaitingClient } from './fixtures/waiting-client.ts';

/** A client that stops reading, and the data sent to it. */
function stuckClient() {
  const sent: string[] = [];
  class StuckClient extends WaitingClient {
    override sendMessage(text: string): boolean {
      sent.push(text);
      return false;
    }
  }
  return { client: new StuckClient(), sent };
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
