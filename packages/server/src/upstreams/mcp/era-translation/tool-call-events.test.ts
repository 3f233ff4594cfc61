import { describe, expect, it } from 'vitest';
import { textResultText } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import { resultText } from '../../../../testing/interactive-client.ts';
import { liveTests, responseTo } from '../../../../testing/live-tests.ts';
import { startTestService } from '../../../../testing/service.ts';
import { eventsAt } from '../../../../testing/tool-call-events.ts';
import { inputRequired, multiRoundStarter, rootsRequests } from './fixtures/multi-round.ts';
import { inputResponses, suspendedCall } from './fixtures/suspended-call.ts';

const tests = liveTests();
const { live, onEnd } = tests;
const startSession = multiRoundStarter(tests);

const ASKS = inputRequired(rootsRequests('a'));
const DONE = textResultText('done');

/** The two events of the only call. */
async function toldOf(url: string, on = tests.service) {
  const events = await eventsAt(on, url);
  expect(events.map(({ eventType }) => eventType)).toEqual(['STARTED', expect.stringMatching(/^(COMPLETED|FAILED)$/)]);
  expect(events[1]?.eventId).toBe(events[0]?.eventId);
  return events[1];
}

/** A call with a pending server request. */
async function pending(responses = [ASKS, DONE]) {
  const session = await startSession(responses);
  const reading = session.client.call('"c"');
  return { ...session, reading, serverRequest: await reading.message(0) };
}

describe('a multi-round call', () => {
  it('is one call, with any number of server requests', async () => {
    const { url, client, reading, serverRequest } = await pending();
    expect((await eventsAt(tests.service, url)).map(({ eventType }) => eventType)).toEqual(['STARTED']);
    await client.post(responseTo(serverRequest));
    await reading.ended;
    expect(await toldOf(url)).toMatchObject({ eventType: 'COMPLETED', content: ['done'] });
  });

  it('fails if its client responds with an error', async () => {
    const { url, client, reading, serverRequest } = await pending();
    await client.post(responseTo(serverRequest, '"error":{"code":1,"message":"no"}'));
    await reading.ended;
    const errorMessage = expect.stringContaining('the client did not provide the required input');
    expect(await toldOf(url)).toMatchObject({ eventType: 'FAILED', errorCategory: 'UNKNOWN', errorMessage });
  });

  it('fails if input is required from a disconnected client', async () => {
    const { url, client, rounds, upstream } = await startSession([DONE]);
    const responded = Promise.withResolvers<string>();
    upstream.scripts['tools/call'] = () => responded.promise;
    const reading = client.call('"c"');
    await expect.poll(() => rounds().length).toBe(1);
    reading.disconnect();
    await reading.ended;
    await client.request('ping');
    responded.resolve(ASKS);
    await expect.poll(async () => (await eventsAt(tests.service, url)).length).toBe(2);
    expect(await toldOf(url)).toMatchObject({
      eventType: 'FAILED',
      errorCategory: 'UNKNOWN',
      errorMessage: 'the client has disconnected',
    });
  });

  it.each(['while a server request is pending', 'in a later round'])('fails if it is canceled %s', async (when) => {
    const { url, client, reading, serverRequest, rounds, upstream } = await pending();
    if (when === 'in a later round') {
      upstream.scripts['tools/call'] = { kind: 'silence' };
      await client.post(responseTo(serverRequest));
      await expect.poll(() => rounds().length).toBe(2);
    }
    await client.post('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"c"}}');
    await reading.ended;
    expect(await toldOf(url)).toMatchObject({
      eventType: 'FAILED',
      errorCategory: 'UNKNOWN',
      errorMessage: 'the client canceled the call',
    });
  });
});

describe('a suspended call', () => {
  it('is one call, with any number of suspensions', async () => {
    const { url, upstream, client, call, pending, answers } = await suspendedCall(live);
    expect((await eventsAt(tests.service, url)).map(({ eventType }) => eventType)).toEqual(['STARTED']);
    const last = client.retry(pending.state, answers);
    await expect.poll(upstream.answers).toHaveLength(1);
    call.end('done');
    expect(await resultText(last)).toBe('done');
    expect(await toldOf(url)).toMatchObject({ eventType: 'COMPLETED', content: ['done'] });
  });

  it('ends when its upstream has responded, not with the retry', async () => {
    const { url, client, call, pending, answers } = await suspendedCall(live);
    call.end('early');
    await expect.poll(async () => (await eventsAt(tests.service, url)).length).toBe(2);
    expect(await toldOf(url)).toMatchObject({ eventType: 'COMPLETED', content: ['early'] });
    expect(await resultText(client.retry(pending.state, answers))).toBe('early');
    await toldOf(url);
  });

  it('fails if there is no retry', async () => {
    const service = await startTestService({ SERVICE_SUSPENDED_CALL_TIMEOUT_MS: '200' });
    onEnd(() => service.stop(0));
    const { url } = await suspendedCall(live, { on: service });
    await expect.poll(async () => (await eventsAt(service, url)).length).toBe(2);
    expect(await toldOf(url, service)).toMatchObject({
      eventType: 'FAILED',
      errorCategory: 'UNKNOWN',
      errorMessage: 'the client has disconnected',
    });
  });

  it('has no further events after a rejected retry', async () => {
    const { url, client, call, pending } = await suspendedCall(live);
    const wrong = client.retry(pending.state, inputResponses(pending), {
      params: '"name":"work","arguments":{"other":1}',
    });
    await wrong.ended;
    expect((await eventsAt(tests.service, url)).map(({ eventType }) => eventType)).toEqual(['STARTED']);
    call.end('done');
  });
});
