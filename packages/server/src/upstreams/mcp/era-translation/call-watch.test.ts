import { describe, expect, it } from 'vitest';
import { textResultText } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import { resultText } from '../../../../testing/askable-client.ts';
import { answerTo, liveTests } from '../../../../testing/live.ts';
import { startTestService } from '../../../../testing/service.ts';
import { eventsAt } from '../../../../testing/tool-call-events.ts';
import { askingOf, inputRequired, rootsUnder } from './fixtures/asking.ts';
import { answering, parked } from './fixtures/calling.ts';

const tests = liveTests();
const { live, onEnd } = tests;
const asking = askingOf(tests);

const ASKS = inputRequired(rootsUnder('a'));
const DONE = textResultText('done');

/** The two events that are told of the one call there was. */
async function toldOf(url: string, on = tests.service) {
  const events = await eventsAt(on, url);
  expect(events.map(({ eventType }) => eventType)).toEqual(['STARTED', expect.stringMatching(/^(COMPLETED|FAILED)$/)]);
  expect(events[1]?.eventId).toBe(events[0]?.eventId);
  return events[1];
}

/** A call whose client is being asked. */
async function asked(answers = [ASKS, DONE]) {
  const session = await asking(answers);
  const reading = session.client.call('"c"');
  return { ...session, reading, question: await reading.message(0) };
}

describe('a call in rounds', () => {
  it('is one call, however often its client is asked', async () => {
    const { url, client, reading, question } = await asked();
    expect((await eventsAt(tests.service, url)).map(({ eventType }) => eventType)).toEqual(['STARTED']);
    await client.post(answerTo(question));
    await reading.over;
    expect(await toldOf(url)).toMatchObject({ eventType: 'COMPLETED', content: ['done'] });
  });

  it('fails when its client refuses to answer', async () => {
    const { url, client, reading, question } = await asked();
    await client.post(answerTo(question, '"error":{"code":1,"message":"no"}'));
    await reading.over;
    const errorMessage = expect.stringContaining('the client did not give the input');
    expect(await toldOf(url)).toMatchObject({ eventType: 'FAILED', errorCategory: 'UNKNOWN', errorMessage });
  });

  it('fails when input is needed of a client that has left', async () => {
    const { url, client, rounds, upstream } = await asking([DONE]);
    const answered = Promise.withResolvers<string>();
    upstream.scripts['tools/call'] = () => answered.promise;
    const reading = client.call('"c"');
    await expect.poll(() => rounds().length).toBe(1);
    reading.leave();
    await reading.over;
    await client.ask('ping');
    answered.resolve(ASKS);
    await expect.poll(async () => (await eventsAt(tests.service, url)).length).toBe(2);
    expect(await toldOf(url)).toMatchObject({
      eventType: 'FAILED',
      errorCategory: 'UNKNOWN',
      errorMessage: 'the client has left',
    });
  });

  it.each(['while its client is asked', 'in a later round'])('fails when it is cancelled %s', async (when) => {
    const { url, client, reading, question, rounds, upstream } = await asked();
    if (when === 'in a later round') {
      upstream.scripts['tools/call'] = { kind: 'silence' };
      await client.post(answerTo(question));
      await expect.poll(() => rounds().length).toBe(2);
    }
    await client.post('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"c"}}');
    await reading.over;
    expect(await toldOf(url)).toMatchObject({
      eventType: 'FAILED',
      errorCategory: 'UNKNOWN',
      errorMessage: 'the client cancelled the call',
    });
  });
});

describe('a parked call', () => {
  it('is one call, however often it is parked', async () => {
    const { url, upstream, client, call, asked, answers } = await parked(live);
    expect((await eventsAt(tests.service, url)).map(({ eventType }) => eventType)).toEqual(['STARTED']);
    const last = client.retry(asked.state, answers);
    await expect.poll(upstream.answers).toHaveLength(1);
    call.end('done');
    expect(await resultText(last)).toBe('done');
    expect(await toldOf(url)).toMatchObject({ eventType: 'COMPLETED', content: ['done'] });
  });

  it('is told when its upstream has answered, not when its client comes back', async () => {
    const { url, client, call, asked, answers } = await parked(live);
    call.end('early');
    await expect.poll(async () => (await eventsAt(tests.service, url)).length).toBe(2);
    expect(await toldOf(url)).toMatchObject({ eventType: 'COMPLETED', content: ['early'] });
    expect(await resultText(client.retry(asked.state, answers))).toBe('early');
    await toldOf(url);
  });

  it('fails when nobody comes back for it', async () => {
    const service = await startTestService({ SERVICE_PARKED_CALL_TIMEOUT_MS: '200' });
    onEnd(() => service.stop(0));
    const { url } = await parked(live, { on: service });
    await expect.poll(async () => (await eventsAt(service, url)).length).toBe(2);
    expect(await toldOf(url, service)).toMatchObject({
      eventType: 'FAILED',
      errorCategory: 'UNKNOWN',
      errorMessage: 'the client has left',
    });
  });

  it('whose retry is refused is not told of again', async () => {
    const { url, client, call, asked } = await parked(live);
    const wrong = client.retry(asked.state, answering(asked), { params: '"name":"work","arguments":{"other":1}' });
    await wrong.over;
    expect((await eventsAt(tests.service, url)).map(({ eventType }) => eventType)).toEqual(['STARTED']);
    call.end('done');
  });
});
