import { expect, test, vi } from 'vitest';
import { WaitingClient } from './grpc/fixtures/waiting-client.ts';
import { progressSender } from './operation.ts';

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
  const send = progressSender(client, '1', { signal: new AbortController().signal, forMs: 6_000 });
  let notified = false;
  const telling = send('a').then(() => {
    notified = true;
  });
  await vi.advanceTimersByTimeAsync(5_999);
  expect(notified).toBe(false);
  await vi.advanceTimersByTimeAsync(1);
  await telling;
  await send('b');
  expect(sent).toHaveLength(1);
});
