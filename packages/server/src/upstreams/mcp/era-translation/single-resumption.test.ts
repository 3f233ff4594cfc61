import { describe, expect, it } from 'vitest';
import {
  failure,
  InteractiveClient,
  inputRequired,
  lastMessage,
  resultText,
} from '../../../../testing/interactive-client.ts';
import { liveTests } from '../../../../testing/live-tests.ts';
import { startTestService, type TestService } from '../../../../testing/service.ts';
import { PARAMS, suspendedCallOfAnn } from './fixtures/call-of-user.ts';
import { inputResponses, suspendedCall } from './fixtures/suspended-call.ts';

const tests = liveTests();
const { live, onEnd } = tests;

const NOT_GIVEN = { status: 200, code: -32602 };
const NOT_HELD = { status: 200, code: -32603, data: { kind: 'not_held' } };
const KEY = Buffer.alloc(32, 7).toString('base64');

describe('a requestState is accepted once', () => {
  it('and is invalid after that', async () => {
    const { client, call, pending, answers, upstream } = await suspendedCall(live);
    const second = client.retry(pending.state, answers);
    await expect.poll(upstream.answers).toHaveLength(1);
    const twice = await failure(client.retry(pending.state, answers));
    expect(twice).toMatchObject({ ...NOT_HELD, message: expect.stringContaining('resumed already') });
    call.end('done');
    expect(await resultText(second)).toBe('done');
    expect(await failure(client.retry(pending.state, answers))).toMatchObject(NOT_HELD);
    expect(upstream.answers()).toHaveLength(1);
  });

  it('by one of several concurrent retries', async () => {
    const { client, call, pending, answers, upstream } = await suspendedCall(live);
    const retries = [1, 2, 3, 4, 5].map(() => client.retry(pending.state, answers));
    await expect.poll(upstream.answers).toHaveLength(1);
    call.end('done');
    await Promise.all(retries.map(({ ended }) => ended));
    expect(retries.filter(({ text }) => text.includes('"done"'))).toHaveLength(1);
    expect(retries.filter(({ text }) => text.includes('"not_held"'))).toHaveLength(4);
    expect(upstream.answers()).toHaveLength(1);
  });

  it('also while further server requests may follow', async () => {
    const { client, pending, upstream } = await suspendedCall(live);
    const retries = [1, 2, 3].map(() => client.retry(pending.state, '{}'));
    const texts = await Promise.all(retries.map(lastMessage));
    expect(texts.filter((text) => text.includes('"input_required"'))).toHaveLength(1);
    expect(texts.filter((text) => text.includes('"not_held"'))).toHaveLength(2);
    expect(upstream.of('notifications/cancelled')).toEqual([]);
  });

  it('in its own round only: not after the call was suspended again', async () => {
    const { client, call, pending, upstream } = await suspendedCall(live);
    const again = await inputRequired(client.retry(pending.state, '{}'));
    expect(await failure(client.retry(pending.state, inputResponses(again)))).toMatchObject(NOT_HELD);
    expect(upstream.answers()).toEqual([]);
    const last = client.retry(again.state, inputResponses(again));
    await expect.poll(upstream.answers).toHaveLength(1);
    call.end('done');
    expect(await resultText(last)).toBe('done');
  });
});

describe('a requestState of another process', () => {
  it('is valid with the same key, but its call is not suspended', async () => {
    const [one, two] = [await keyed(), await keyed()];
    const { upstream, url, pending, expectResumable } = await suspendedCallOfAnn(tests, one);
    const namespace = new URL(url).pathname.split('/')[1] ?? '';
    await two.register('forwards', { name: namespace, address: upstream.url, namespace });
    const there = new InteractiveClient(two.url(namespace), undefined, { 'x-forwarded-user': 'ann' });
    expect(await failure(there.retry(pending.state, inputResponses(pending), { params: PARAMS }))).toEqual({
      ...NOT_HELD,
      message:
        'the call is no longer suspended: the service was restarted; send the request again without requestState',
    });
    await expectResumable();
  });

  it('is invalid with another key', async () => {
    const two = await startTestService();
    onEnd(() => two.stop(0));
    const { upstream, url, pending, expectResumable } = await suspendedCallOfAnn(tests);
    const namespace = new URL(url).pathname.split('/')[1] ?? '';
    await two.register('forwards', { name: namespace, address: upstream.url, namespace });
    const there = new InteractiveClient(two.url(namespace), undefined, { 'x-forwarded-user': 'ann' });
    expect(await failure(there.retry(pending.state, inputResponses(pending), { params: PARAMS }))).toMatchObject(
      NOT_GIVEN,
    );
    await expectResumable();
  });
});

async function keyed(): Promise<TestService> {
  const service = await startTestService({ SERVICE_SESSION_KEY: KEY });
  onEnd(() => service.stop(0));
  return service;
}
