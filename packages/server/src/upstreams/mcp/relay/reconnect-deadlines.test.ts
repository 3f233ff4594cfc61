import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { liveTests } from '../../../../testing/live-tests.ts';
import { startTestService, type TestService } from '../../../../testing/service.ts';
import { type SessionClient, sessionClient } from '../../../../testing/session-client.ts';

const { live } = liveTests();

const SILENCE_MS = 300;

let service: TestService;
beforeAll(async () => {
  // The tests control the clock.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'performance'] });
  service = await startTestService({ SERVICE_UPSTREAM_IDLE_TIMEOUT_MS: String(SILENCE_MS) });
});
afterAll(() => {
  vi.useRealTimers();
  return service.stop(0);
});

/** Advances the clock until the condition is met, with time for reads in between. */
async function passes(until: () => boolean): Promise<void> {
  await expect
    .poll(() => {
      vi.advanceTimersByTime(20);
      return until();
    })
    .toBe(true);
}

/** The text of a call's response, after any number of reconnects of the client. */
async function responseTo(client: SessionClient, id: string): Promise<string> {
  let reading = client.call(id);
  for (;;) {
    await reading.ended;
    const found = reading.messages.find((text) => text.includes(`"id":${id}`));
    if (found !== undefined) return found;
    reading = client.listen(reading.lastId);
  }
}

it('the retry time of an upstream does not count as silence', async () => {
  const { upstream, url } = await live({}, service);
  const response = responseTo(await sessionClient(url), '"c"');
  const call = await upstream.calls.next();
  call.begin();
  call.response.end(`id: e-1\nretry: ${3 * SILENCE_MS}\n\n`);
  await passes(() => upstream.resumptions.all.length > 0);
  const again = await upstream.resumptions.next();
  expect(again.headers['last-event-id']).toBe('e-1');
  again.begin();
  again.send(call.answerText('late'));
  again.response.end();
  expect(await response).toContain('late');
});

it('an upstream that closes the stream repeatedly without a message is silent', async () => {
  const { upstream, url } = await live({}, service);
  let responded = false;
  const response = responseTo(await sessionClient(url), '"c"').finally(() => {
    responded = true;
  });
  const call = await upstream.calls.next();
  call.begin();
  call.response.end('id: e-1\nretry: 100\n\n');
  void (async () => {
    for (;;) {
      const again = await upstream.resumptions.next();
      again.begin();
      again.response.end('id: e-2\n\n');
    }
  })();
  await passes(() => responded);
  expect(JSON.parse(await response)).toMatchObject({
    error: { message: expect.stringContaining('sent nothing for 0.3 s') },
  });
  expect(upstream.resumptions.all.length).toBeLessThan(6);
});

it('an event id that is not a valid header value is not sent', async () => {
  const { upstream, url } = await live({}, service);
  const response = responseTo(await sessionClient(url), '"c"');
  const call = await upstream.calls.next();
  call.begin();
  call.response.end('id: naïve ☃\nretry: 100\n\n');
  expect(JSON.parse(await response)).toMatchObject({
    error: { message: expect.stringContaining('ended the event stream') },
  });
});
