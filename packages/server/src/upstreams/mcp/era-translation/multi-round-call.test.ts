import { paramText } from '@sluice/protocol/mcp/message-text';
import { describe, expect, it } from 'vitest';
import { textResultText } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import { liveTests, responseTo } from '../../../../testing/live-tests.ts';
import { ResponseReader } from '../../../../testing/session-client.ts';
import { inputRequired, type MultiRoundSetup, multiRoundStarter, rootsRequests } from './fixtures/multi-round.ts';

const startSession = multiRoundStarter(liveTests());

const DONE = textResultText('done');
const idOf = (message: string): unknown => JSON.parse(message).id;

/** `inputResponses` and `requestState` that the upstream got in round `number` (from 0), as JSON text. */
function received({ rounds }: MultiRoundSetup, number: number) {
  const { body = '', id } = rounds()[number] ?? {};
  return { id, responses: paramText(body, 'inputResponses'), state: paramText(body, 'requestState') };
}

describe('input that a modern upstream requires', () => {
  it.each([
    ['roots/list', '{"_meta":{"example.com/n":1.0}}', '{"roots":[{"uri":"file:///\\u00e4","name":"x"}]}'],
    [
      'sampling/createMessage',
      '{"messages":[{"role":"user","content":{"type":"text","text":"ä\\n"}}],"maxTokens":9223372036854775807,"x":[ ]}',
      '{"role":"assistant","model":"m","content":{"type":"text","text":"\\ud83d\\ude00"},"n":9223372036854775807}',
    ],
    [
      'elicitation/create',
      '{"message":"m","requestedSchema":{"type":"object","properties":{"n":{"type":"number","minimum":1.0}}}}',
      '{"action":"accept","content":{ "n" : 1.50 },"_meta":{"x":1e2}}',
    ],
    ['elicitation/create', '{"mode":"form","message":"m","requestedSchema":{"type":"object"}}', '{"action":"decline"}'],
    ['elicitation/create', '{"mode":"url","message":"m","url":"https://x.example/","elicitationId":"e"}', '{"x":1}'],
  ])('is requested on the stream of the call, and the response sent upstream: %s', async (method, params, result) => {
    const session = await startSession([inputRequired(`{"k":{"method":"${method}","params":${params}}}`), DONE]);
    const { client } = session;
    const reading = client.call('"c"');
    const pending = await reading.message(0);
    expect(pending).toBe(
      `{"jsonrpc":"2.0","id":${JSON.stringify(idOf(pending))},"method":"${method}","params":${params}}`,
    );
    expect(await client.post(responseTo(pending, `"result":${result}`))).toMatchObject({ status: 202, text: '' });
    expect(await reading.message(1)).toBe(`{"jsonrpc":"2.0","id":"c","result":${DONE}}`);
    expect(await reading.ended).toBe(true);
    expect(received(session, 1)).toMatchObject({ responses: `{"k":${result}}`, state: undefined });
    expect(session.rounds()).toHaveLength(2);
  });

  it('is requested with params, which some clients require, also if the upstream sent none', async () => {
    const { client } = await startSession([inputRequired(rootsRequests('k')), DONE]);
    const reading = client.call('"c"');
    const pending = await reading.message(0);
    expect(pending).toBe(`{"jsonrpc":"2.0","id":${JSON.stringify(idOf(pending))},"method":"roots/list","params":{}}`);
    await client.post(responseTo(pending));
    await reading.ended;
  });

  it('may be several requests at once: the upstream gets a retry after all responses, in any order', async () => {
    const keys = ['b', 'a', '1', 'ä "\\\n', '__proto__', ''];
    const session = await startSession([inputRequired(rootsRequests(...keys)), DONE]);
    const { client, rounds } = session;
    const reading = client.call('1');
    await reading.message(keys.length - 1);
    expect(new Set(reading.messages.map(idOf)).size).toBe(keys.length);
    for (const [at, pending] of [...reading.messages.entries()].reverse()) {
      expect(rounds()).toHaveLength(1);
      await client.post(responseTo(pending, `"result":{"at":${at}}`));
    }
    expect(await reading.message(keys.length)).toContain('done');
    expect(rounds()).toHaveLength(2);
    const responses = JSON.parse(received(session, 1).responses ?? '');
    expect(Object.entries(responses).toSorted()).toEqual(keys.map((key, at) => [key, { at }]).toSorted());
  });

  it('may be up to 32 requests at once', async () => {
    const keys = Array.from({ length: 32 }, (_, at) => `k${at}`);
    const session = await startSession([inputRequired(rootsRequests(...keys)), DONE]);
    const reading = session.client.call('1');
    await reading.message(31);
    for (const pending of [...reading.messages]) await session.client.post(responseTo(pending));
    expect(await reading.message(32)).toContain('done');
    expect(Object.keys(JSON.parse(received(session, 1).responses ?? ''))).toHaveLength(32);
  });

  it('may take ten rounds, each a request with its own state', async () => {
    const responses = Array.from({ length: 10 }, (_, at) => inputRequired(rootsRequests(`k${at}`), `"s${at}"`));
    const session = await startSession([...responses, DONE]);
    const { client, rounds } = session;
    const reading = client.call('"c"');
    for (let at = 0; at < 10; at++) {
      await client.post(responseTo(await reading.message(at), `"result":{"round":${at}}`));
    }
    expect(await reading.message(10)).toBe(`{"jsonrpc":"2.0","id":"c","result":${DONE}}`);
    expect(received(session, 0)).toMatchObject({ responses: undefined, state: undefined });
    for (let at = 0; at < 10; at++) {
      expect(received(session, at + 1)).toMatchObject({ responses: `{"k${at}":{"round":${at}}}`, state: `"s${at}"` });
    }
    expect(new Set(rounds().map(({ id }) => id)).size).toBe(11);
    expect(new Set(rounds().map(({ body }) => paramText(body, 'name')))).toEqual(new Set(['"work"']));
  });
});

describe('the state of a round', () => {
  it.each([
    ['escapes and unusual characters', '"\\u0000\\/\\ud83d \\"\\\\ \u2028 😀 $& $1 {},[]:"'],
    ['empty', '""'],
    ['much in it', `"${'ab+/='.repeat(20_000)}"`],
  ])('is returned unchanged, with %s', async (_what, state) => {
    const session = await startSession([inputRequired(rootsRequests('k'), state), DONE]);
    const reading = session.client.call('1');
    await session.client.post(responseTo(await reading.message(0)));
    expect(await reading.message(1)).toContain('done');
    expect(received(session, 1)).toMatchObject({ responses: '{"k":{}}', state });
  });

  it('is returned at once if no input is requested', async () => {
    const session = await startSession([inputRequired(undefined, '"wait"'), inputRequired('{}', '"more"'), DONE]);
    const reading = session.client.call('1');
    expect(await reading.ended).toBe(true);
    expect(reading.messages).toEqual([`{"jsonrpc":"2.0","id":1,"result":${DONE}}`]);
    expect([0, 1, 2].map((round) => received(session, round).state)).toEqual([undefined, '"wait"', '"more"']);
    expect([1, 2].map((round) => received(session, round).responses)).toEqual([undefined, undefined]);
    expect(new Set(session.rounds().map(({ id }) => id)).size).toBe(3);
  });

  it('is not repeated in the next round, nor are its responses', async () => {
    const session = await startSession([
      inputRequired(rootsRequests('a'), '"s"'),
      inputRequired(rootsRequests('b')),
      DONE,
    ]);
    const reading = session.client.call('1');
    for (const number of [0, 1]) await session.client.post(responseTo(await reading.message(number)));
    expect(await reading.message(2)).toContain('done');
    expect(received(session, 2)).toMatchObject({ responses: '{"b":{}}', state: undefined });
  });
});

it('a URL elicitation gets the id that the legacy era requires, a new one each time', async () => {
  const visit = '{"method":"elicitation/create","params":{"mode":"url","message":"m","url":"https://x.example/"}}';
  const { client } = await startSession([inputRequired(`{"a":${visit},"b":${visit}}`), DONE]);
  const reading = client.call('1');
  await reading.message(1);
  const pending = reading.messages.map((message) => JSON.parse(message).params);
  expect(pending).toEqual(
    [1, 2].map(() => ({
      mode: 'url',
      message: 'm',
      url: 'https://x.example/',
      elicitationId: expect.stringMatching(/^[0-9a-f-]{36}$/),
    })),
  );
  expect(pending[0].elicitationId).not.toBe(pending[1].elicitationId);
  for (const message of [...reading.messages]) await client.post(responseTo(message));
  expect(await reading.message(2)).toContain('done');
});

it.each([
  ['prompts/get', '{"name":"p","arguments":{"n":"1"}}', '{"messages":[],"n":1.0}'],
  ['resources/read', '{"uri":"x:a"}', '{"contents":[{"uri":"x:a","text":"t"}],"ttlMs":5,"cacheScope":"public"}'],
])('%s may require input as well', async (method, params, result) => {
  const session = await startSession([inputRequired(rootsRequests('k'), '"s"'), result], {
    method,
    scripts: {
      'prompts/list': '{"prompts":[{"name":"p"}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}',
      'resources/list':
        '{"resources":[{"uri":"x:a","name":"a"}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}',
    },
  });
  const { url, client } = session;
  const reading = new ResponseReader(
    url,
    'POST',
    { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...client.headers },
    `{"jsonrpc":"2.0","id":7,"method":"${method}","params":${params}}`,
  );
  await client.post(responseTo(await reading.message(0), '"result":{"roots":[]}'));
  expect(await reading.message(1)).toBe(`{"jsonrpc":"2.0","id":7,"result":${result}}`);
  expect(received(session, 1)).toMatchObject({ responses: '{"k":{"roots":[]}}', state: '"s"' });
});

it('a call in a batch may require input: all messages are sent in the stream of the batch', async () => {
  const session = await startSession([inputRequired(rootsRequests('k')), DONE], { version: '2025-03-26' });
  const { client, url } = session;
  const call = '{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{"name":"work"}}';
  const reading = new ResponseReader(
    url,
    'POST',
    { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...client.headers },
    `[${call},{"jsonrpc":"2.0","id":"p","method":"ping"}]`,
  );
  await reading.message(1);
  const pending = reading.messages.find((message) => message.includes('roots/list')) ?? '';
  expect(reading.messages).toContain('{"jsonrpc":"2.0","id":"p","result":{}}');
  await client.post(responseTo(pending));
  expect(await reading.message(2)).toBe(`{"jsonrpc":"2.0","id":"c","result":${DONE}}`);
  expect(await reading.ended).toBe(true);
  expect(received(session, 1).responses).toBe('{"k":{}}');
});
