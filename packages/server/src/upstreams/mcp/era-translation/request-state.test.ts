import { describe, expect, it } from 'vitest';
import { legacyClient } from '../../../../../../test/fixtures/raw-client.ts';
import {
  failure,
  InteractiveClient,
  inputRequired,
  type RequestFields,
} from '../../../../testing/interactive-client.ts';
import { liveTests } from '../../../../testing/live-tests.ts';
import type { LiveUpstream } from '../../../../testing/live-upstream.ts';
import { sessionClient } from '../../../../testing/session-client.ts';
import { PARAMS, suspendedCallOfAnn } from './fixtures/call-of-user.ts';
import { inputResponses, suspendedCall } from './fixtures/suspended-call.ts';

const tests = liveTests();
const { live, onEnd } = tests;

const NOT_GIVEN = {
  status: 200,
  code: -32602,
  message: 'parameter "requestState" was not issued for this request',
};

/** `requestState` of a request, as JSON text. */
const state = (text: string) => `"requestState":${text}`;

describe('a requestState is accepted from no other caller', () => {
  it.each([
    ['another user', 'bob'],
    ['a user with different case', 'Ann'],
    ['a caller without a user', undefined],
  ])('%s', async (_who, user) => {
    const { url, pending, expectResumable } = await suspendedCallOfAnn(tests);
    const other = new InteractiveClient(url, undefined, user === undefined ? {} : { 'x-forwarded-user': user });
    expect(await failure(other.retry(pending.state, inputResponses(pending), { params: PARAMS }))).toEqual(NOT_GIVEN);
    await expectResumable();
  });

  it('a user, if it was issued to a caller without one', async () => {
    const { url, client, pending, answers, upstream } = await suspendedCall(live);
    const other = new InteractiveClient(url, undefined, { 'x-auth-request-user': 'ann' });
    expect(await failure(other.retry(pending.state, answers))).toEqual(NOT_GIVEN);
    expect(upstream.answers()).toEqual([]);
    expect((await inputRequired(client.retry(pending.state, '{}'))).keys).toHaveLength(1);
  });

  it('the same user in another namespace that has the same tool', async () => {
    const { upstream, pending, expectResumable } = await suspendedCallOfAnn(tests);
    await tests.service.register('forwards', { name: 'twin', address: upstream.url, namespace: 'twin' });
    onEnd(() => tests.service.manage('DELETE', '/namespaces/twin?cascade=true'));
    const other = new InteractiveClient(tests.service.url('twin'), undefined, { 'x-forwarded-user': 'ann' });
    expect(await failure(other.retry(pending.state, inputResponses(pending), { params: PARAMS }))).toEqual(NOT_GIVEN);
    await expectResumable();
  });
});

describe('a requestState is accepted for no other request', () => {
  it.each<[string, RequestFields]>([
    ['other arguments', { params: PARAMS.replace('1.0', '1.1') }],
    ['arguments in another spelling', { params: PARAMS.replace('1.0', '1') }],
    ['no arguments', { params: '"name":"work"' }],
    ['one member more', { params: `${PARAMS},"x":null` }],
    ['another tool', { params: PARAMS.replace('work', 'other') }],
    ['another method', { method: 'prompts/get', params: PARAMS }],
  ])('%s', async (_what, fields) => {
    const { upstream, ann, pending, expectResumable } = await suspendedCallOfAnn(tests);
    const name = `more${upstream.url.replace(/\D/g, '')}`;
    const namespace = new URL(ann.url).pathname.split('/')[1];
    const more = await live({ tool: 'other', prompts: ['work'], capabilities: '{"tools":{},"prompts":{}}' });
    await tests.service.register('forwards', { name, address: more.upstream.url, namespace });
    expect(await failure(ann.retry(pending.state, inputResponses(pending), fields))).toEqual(NOT_GIVEN);
    await expectResumable();
  });

  it('except the same one with its members in another order', async () => {
    const { ann, pending, upstream } = await suspendedCallOfAnn(tests);
    const [name, ...rest] = PARAMS.split(',');
    const swapped = `${rest.join(',')},${name}`;
    ann.retry(pending.state, inputResponses(pending), { params: swapped });
    await expect.poll(upstream.answers).toHaveLength(1);
  });
});

describe('a modified requestState is rejected', () => {
  it('with any one character changed', async () => {
    const { ann, pending, expectResumable } = await suspendedCallOfAnn(tests);
    const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    for (const [at, letter] of [...pending.state].entries()) {
      const changed = letters[(letters.indexOf(letter) + 1) % letters.length];
      const text = `${pending.state.slice(0, at)}${changed}${pending.state.slice(at + 1)}`;
      expect(await failure(ann.retry(text, inputResponses(pending), { params: PARAMS }))).toEqual(NOT_GIVEN);
    }
    await expectResumable();
  });

  it.each([
    ['empty', () => ''],
    ['cut off', (given: string) => given.slice(0, -1)],
    ['with more behind it', (given: string) => `${given}A`],
    ['padded', (given: string) => `${given}=`],
    ['twice', (given: string) => given + given],
    ['spelled otherwise', (given: string) => `${given.slice(0, 10)} ${given.slice(10)}`],
    ['made up', () => Buffer.from('["x.1",1,"default",null,"x"]').toString('base64url')],
    ['longer than any', (given: string) => given.padEnd(5 * 1024, 'A')],
  ])('%s', async (_what, altered) => {
    const { ann, pending, expectResumable } = await suspendedCallOfAnn(tests);
    expect(await failure(ann.retry(altered(pending.state), inputResponses(pending), { params: PARAMS }))).toEqual(
      NOT_GIVEN,
    );
    await expectResumable();
  });

  it.each(['null', '1', 'true', '{}', '["x"]'])('no string: %s', async (text) => {
    const { ann, expectResumable } = await suspendedCallOfAnn(tests);
    expect(await failure(ann.send({ params: PARAMS, more: state(text) }))).toEqual(NOT_GIVEN);
    await expectResumable();
  });

  it.each(['null', '1', '"x"', '[]'])('with inputResponses that are not an object: %s', async (text) => {
    const { ann, pending, expectResumable } = await suspendedCallOfAnn(tests);
    const more = `"inputResponses":${text},${state(JSON.stringify(pending.state))}`;
    expect(await failure(ann.send({ params: PARAMS, more }))).toEqual({
      status: 200,
      code: -32602,
      message: 'parameter "inputResponses" must be an object',
    });
    await expectResumable();
  });

  it('twice in one request', async () => {
    const { ann, pending, expectResumable } = await suspendedCallOfAnn(tests);
    const more = `${state(JSON.stringify(pending.state))},${state('"x"')}`;
    expect(await failure(ann.send({ params: PARAMS, more }))).toMatchObject({ status: 400, code: -32600 });
    await expectResumable();
  });

  it('that was sealed for another purpose: a session id, an event id', async () => {
    const { url, ann, upstream, expectResumable } = await suspendedCallOfAnn(tests);
    const legacy = await legacyClient(url);
    const session = String(legacy.headers['mcp-session-id']);
    expect(await failure(ann.retry(session, '{}', { params: PARAMS }))).toEqual(NOT_GIVEN);
    expect(await failure(ann.retry(await eventIdOf(upstream, url), '{}', { params: PARAMS }))).toEqual(NOT_GIVEN);
    await expectResumable();
  });
});

/** Id of an event on a legacy client's stream. */
async function eventIdOf(upstream: LiveUpstream, url: string): Promise<string> {
  const session = await sessionClient(url);
  const reading = session.call('1', '"progressToken":1');
  const call = await upstream.calls.next();
  call.begin();
  call.progress(1);
  await reading.message(0);
  call.end('x');
  await reading.ended;
  expect(reading.lastId).not.toBe('');
  return reading.lastId;
}
