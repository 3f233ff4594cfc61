import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { liveTests } from '../../../testing/live.ts';
import { startTestService, type TestService } from '../../../testing/service.ts';
import { type SessionClient, sessionClient } from '../../../testing/session-client.ts';

const { live } = liveTests();

const SILENCE_MS = 300;

let service: TestService;
beforeAll(async () => {
  // The time passes as the tests say.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'performance'] });
  service = await startTestService({ SERVICE_UPSTREAM_IDLE_TIMEOUT_MS: String(SILENCE_MS) });
});
afterAll(() => {
  vi.useRealTimers();
  return service.stop(0);
});

/** Lets the time pass until this is so, and what is sent be read meanwhile. */
async function passes(until: () => boolean): Promise<void> {
  await expect
    .poll(() => {
      vi.advanceTimersByTime(20);
      return until();
    })
    .toBe(true);
}

/** The text of a call's answer, however often the client has to come back for it. */
async function answerTo(client: SessionClient, id: string): Promise<string> {
  let reading = client.call(id);
  for (;;) {
    await reading.over;
    const found = reading.messages.find((text) => text.includes(`"id":${id}`));
    if (found !== undefined) return found;
    reading = client.listen(reading.lastId);
  }
}

it('an upstream that names a time to be asked after is not found silent before it', async () => {
  const { upstream, url } = await live({}, service);
  const answer = answerTo(await sessionClient(url), '"c"');
  const call = await upstream.calls.next();
  call.begin();
  call.response.end(`id: e-1\nretry: ${3 * SILENCE_MS}\n\n`);
  await passes(() => upstream.resumptions.all.length > 0);
  const again = await upstream.resumptions.next();
  expect(again.headers['last-event-id']).toBe('e-1');
  again.begin();
  again.send(call.answerText('late'));
  again.response.end();
  expect(await answer).toContain('late');
});

it('an upstream that sends us away again and again, without a message, is silent', async () => {
  const { upstream, url } = await live({}, service);
  let answered = false;
  const answer = answerTo(await sessionClient(url), '"c"').finally(() => {
    answered = true;
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
  await passes(() => answered);
  expect(JSON.parse(await answer)).toMatchObject({
    error: { message: expect.stringContaining('sent nothing for 0.3 s') },
  });
  expect(upstream.resumptions.all.length).toBeLessThan(6);
});

it('an event id that is no header is not sent back', async () => {
  const { upstream, url } = await live({}, service);
  const answer = answerTo(await sessionClient(url), '"c"');
  const call = await upstream.calls.next();
  call.begin();
  call.response.end('id: naïve ☃\nretry: 100\n\n');
  expect(JSON.parse(await answer)).toMatchObject({
    error: { message: expect.stringContaining('ended the event stream') },
  });
});
