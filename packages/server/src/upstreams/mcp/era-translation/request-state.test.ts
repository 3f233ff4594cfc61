import { describe, expect, it } from 'vitest';
import { legacyClient } from '../../../../../../test/fixtures/raw-client.ts';
import { AskableClient, failure, inputRequired, type RequestFields } from '../../../../testing/askable-client.ts';
import { liveTests } from '../../../../testing/live.ts';
import type { LiveUpstream } from '../../../../testing/live-upstream.ts';
import { sessionClient } from '../../../../testing/session-client.ts';
import { annsCall, PARAMS } from './fixtures/anns-call.ts';
import { answering, parked } from './fixtures/calling.ts';

const tests = liveTests();
const { live, onEnd } = tests;

const NOT_GIVEN = {
  status: 200,
  code: -32602,
  message: 'parameter "requestState" is not one that was given out for this request',
};

/** `requestState` of a request, as JSON text. */
const state = (text: string) => `"requestState":${text}`;

describe('a requestState is accepted from nobody else', () => {
  it.each([
    ['another user', 'bob'],
    ['a user in other letters', 'Ann'],
    ['somebody without a name', undefined],
  ])('%s', async (_who, user) => {
    const { url, asked, goesOn } = await annsCall(tests);
    const other = new AskableClient(url, undefined, user === undefined ? {} : { 'x-forwarded-user': user });
    expect(await failure(other.retry(asked.state, answering(asked), { params: PARAMS }))).toEqual(NOT_GIVEN);
    await goesOn();
  });

  it('a user, when it was given to nobody in particular', async () => {
    const { url, client, asked, answers, upstream } = await parked(live);
    const other = new AskableClient(url, undefined, { 'x-auth-request-user': 'ann' });
    expect(await failure(other.retry(asked.state, answers))).toEqual(NOT_GIVEN);
    expect(upstream.answers()).toEqual([]);
    expect((await inputRequired(client.retry(asked.state, '{}'))).keys).toHaveLength(1);
  });

  it('the same user in another namespace, where the same upstream offers the same tool', async () => {
    const { upstream, asked, goesOn } = await annsCall(tests);
    await tests.service.register('forwards', { name: 'twin', address: upstream.url, namespace: 'twin' });
    onEnd(() => tests.service.manage('DELETE', '/namespaces/twin?cascade=true'));
    const other = new AskableClient(tests.service.url('twin'), undefined, { 'x-forwarded-user': 'ann' });
    expect(await failure(other.retry(asked.state, answering(asked), { params: PARAMS }))).toEqual(NOT_GIVEN);
    await goesOn();
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
    const { upstream, ann, asked, goesOn } = await annsCall(tests);
    const name = `more${upstream.url.replace(/\D/g, '')}`;
    const namespace = new URL(ann.url).pathname.split('/')[1];
    const more = await live({ tool: 'other', prompts: ['work'], capabilities: '{"tools":{},"prompts":{}}' });
    await tests.service.register('forwards', { name, address: more.upstream.url, namespace });
    expect(await failure(ann.retry(asked.state, answering(asked), fields))).toEqual(NOT_GIVEN);
    await goesOn();
  });

  it('but for the same one with its members in another order', async () => {
    const { ann, asked, upstream } = await annsCall(tests);
    const [name, ...rest] = PARAMS.split(',');
    const swapped = `${rest.join(',')},${name}`;
    ann.retry(asked.state, answering(asked), { params: swapped });
    await expect.poll(upstream.answers).toHaveLength(1);
  });
});

describe('a requestState that is not as it was given out is refused', () => {
  it('with a change of any one character', async () => {
    const { ann, asked, goesOn } = await annsCall(tests);
    const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    for (const [at, letter] of [...asked.state].entries()) {
      const changed = letters[(letters.indexOf(letter) + 1) % letters.length];
      const text = `${asked.state.slice(0, at)}${changed}${asked.state.slice(at + 1)}`;
      expect(await failure(ann.retry(text, answering(asked), { params: PARAMS }))).toEqual(NOT_GIVEN);
    }
    await goesOn();
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
    const { ann, asked, goesOn } = await annsCall(tests);
    expect(await failure(ann.retry(altered(asked.state), answering(asked), { params: PARAMS }))).toEqual(NOT_GIVEN);
    await goesOn();
  });

  it.each(['null', '1', 'true', '{}', '["x"]'])('no string: %s', async (text) => {
    const { ann, goesOn } = await annsCall(tests);
    expect(await failure(ann.send({ params: PARAMS, more: state(text) }))).toEqual(NOT_GIVEN);
    await goesOn();
  });

  it.each(['null', '1', '"x"', '[]'])('with inputResponses that are no object: %s', async (text) => {
    const { ann, asked, goesOn } = await annsCall(tests);
    const more = `"inputResponses":${text},${state(JSON.stringify(asked.state))}`;
    expect(await failure(ann.send({ params: PARAMS, more }))).toEqual({
      status: 200,
      code: -32602,
      message: 'parameter "inputResponses" must be an object',
    });
    await goesOn();
  });

  it('given twice in one request', async () => {
    const { ann, asked, goesOn } = await annsCall(tests);
    const more = `${state(JSON.stringify(asked.state))},${state('"x"')}`;
    expect(await failure(ann.send({ params: PARAMS, more }))).toMatchObject({ status: 400, code: -32600 });
    await goesOn();
  });

  it('that was sealed for something else: a session’s id, an event’s id', async () => {
    const { url, ann, upstream, goesOn } = await annsCall(tests);
    const legacy = await legacyClient(url);
    const session = String(legacy.headers['mcp-session-id']);
    expect(await failure(ann.retry(session, '{}', { params: PARAMS }))).toEqual(NOT_GIVEN);
    expect(await failure(ann.retry(await eventIdOf(upstream, url), '{}', { params: PARAMS }))).toEqual(NOT_GIVEN);
    await goesOn();
  });
});

/** The id of an event of a legacy client's stream. */
async function eventIdOf(upstream: LiveUpstream, url: string): Promise<string> {
  const session = await sessionClient(url);
  const reading = session.call('1', '"progressToken":1');
  const call = await upstream.calls.next();
  call.begin();
  call.progress(1);
  await reading.message(0);
  call.end('x');
  await reading.over;
  expect(reading.lastId).not.toBe('');
  return reading.lastId;
}
