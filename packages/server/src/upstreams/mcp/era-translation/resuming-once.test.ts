import { describe, expect, it } from 'vitest';
import { AskableClient, failure, inputRequired, lastMessage, resultText } from '../../../../testing/askable-client.ts';
import { liveTests } from '../../../../testing/live.ts';
import { startTestService, type TestService } from '../../../../testing/service.ts';
import { annsCall, PARAMS } from './fixtures/anns-call.ts';
import { answering, parked } from './fixtures/calling.ts';

const tests = liveTests();
const { live, onEnd } = tests;

const NOT_GIVEN = { status: 200, code: -32602 };
const NOT_HELD = { status: 200, code: -32603, data: { kind: 'not_held' } };
const KEY = Buffer.alloc(32, 7).toString('base64');

describe('a requestState is accepted once', () => {
  it('and belongs to no call any more after that', async () => {
    const { client, call, asked, answers, upstream } = await parked(live);
    const second = client.retry(asked.state, answers);
    await expect.poll(upstream.answers).toHaveLength(1);
    const twice = await failure(client.retry(asked.state, answers));
    expect(twice).toMatchObject({ ...NOT_HELD, message: expect.stringContaining('gone on since') });
    call.end('done');
    expect(await resultText(second)).toBe('done');
    expect(await failure(client.retry(asked.state, answers))).toMatchObject(NOT_HELD);
    expect(upstream.answers()).toHaveLength(1);
  });

  it('however many retries come at once', async () => {
    const { client, call, asked, answers, upstream } = await parked(live);
    const retries = [1, 2, 3, 4, 5].map(() => client.retry(asked.state, answers));
    await expect.poll(upstream.answers).toHaveLength(1);
    call.end('done');
    await Promise.all(retries.map(({ over }) => over));
    expect(retries.filter(({ text }) => text.includes('"done"'))).toHaveLength(1);
    expect(retries.filter(({ text }) => text.includes('"not_held"'))).toHaveLength(4);
    expect(upstream.answers()).toHaveLength(1);
  });

  it('also while it is not decided yet whether the client is asked again', async () => {
    const { client, asked, upstream } = await parked(live);
    const retries = [1, 2, 3].map(() => client.retry(asked.state, '{}'));
    const texts = await Promise.all(retries.map(lastMessage));
    expect(texts.filter((text) => text.includes('"input_required"'))).toHaveLength(1);
    expect(texts.filter((text) => text.includes('"not_held"'))).toHaveLength(2);
    expect(upstream.of('notifications/cancelled')).toEqual([]);
  });

  it('in its own round: not when the call has been parked anew', async () => {
    const { client, call, asked, upstream } = await parked(live);
    const again = await inputRequired(client.retry(asked.state, '{}'));
    expect(await failure(client.retry(asked.state, answering(again)))).toMatchObject(NOT_HELD);
    expect(upstream.answers()).toEqual([]);
    const last = client.retry(again.state, answering(again));
    await expect.poll(upstream.answers).toHaveLength(1);
    call.end('done');
    expect(await resultText(last)).toBe('done');
  });
});

describe('a requestState of another process', () => {
  it('is known where the key is the same, and its call is not held', async () => {
    const [one, two] = [await keyed(), await keyed()];
    const { upstream, url, asked, goesOn } = await annsCall(tests, one);
    const namespace = new URL(url).pathname.split('/')[1] ?? '';
    await two.register('forwards', { name: namespace, address: upstream.url, namespace });
    const there = new AskableClient(two.url(namespace), undefined, { 'x-forwarded-user': 'ann' });
    expect(await failure(there.retry(asked.state, answering(asked), { params: PARAMS }))).toEqual({
      ...NOT_HELD,
      message: 'the call is no longer held: the service was restarted; send the request anew, without requestState',
    });
    await goesOn();
  });

  it('is not known where the key is another', async () => {
    const two = await startTestService();
    onEnd(() => two.stop(0));
    const { upstream, url, asked, goesOn } = await annsCall(tests);
    const namespace = new URL(url).pathname.split('/')[1] ?? '';
    await two.register('forwards', { name: namespace, address: upstream.url, namespace });
    const there = new AskableClient(two.url(namespace), undefined, { 'x-forwarded-user': 'ann' });
    expect(await failure(there.retry(asked.state, answering(asked), { params: PARAMS }))).toMatchObject(NOT_GIVEN);
    await goesOn();
  });
});

async function keyed(): Promise<TestService> {
  const service = await startTestService({ SERVICE_SESSION_KEY: KEY });
  onEnd(() => service.stop(0));
  return service;
}
