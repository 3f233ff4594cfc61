import { paramText } from '@sluice/protocol/mcp/message';
import { describe, expect, it } from 'vitest';
import { textResultText } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import { answerTo, liveTests } from '../../../../testing/live.ts';
import { Reading } from '../../../../testing/session-client.ts';
import { type Asking, askingOf, inputRequired, rootsUnder } from './fixtures/asking.ts';

const asking = askingOf(liveTests());

const DONE = textResultText('done');
const idOf = (message: string): unknown => JSON.parse(message).id;

/** What the upstream was told in round `number` (from 0), each as JSON text. */
function told({ rounds }: Asking, number: number) {
  const { body = '', id } = rounds()[number] ?? {};
  return { id, responses: paramText(body, 'inputResponses'), state: paramText(body, 'requestState') };
}

describe('what a modern upstream needs to know', () => {
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
  ])('the client is asked on the call’s stream, and its answer sent on: %s', async (method, params, result) => {
    const session = await asking([inputRequired(`{"k":{"method":"${method}","params":${params}}}`), DONE]);
    const { client } = session;
    const reading = client.call('"c"');
    const asked = await reading.message(0);
    expect(asked).toBe(`{"jsonrpc":"2.0","id":${JSON.stringify(idOf(asked))},"method":"${method}","params":${params}}`);
    expect(await client.post(answerTo(asked, `"result":${result}`))).toMatchObject({ status: 202, text: '' });
    expect(await reading.message(1)).toBe(`{"jsonrpc":"2.0","id":"c","result":${DONE}}`);
    expect(await reading.over).toBe(true);
    expect(told(session, 1)).toMatchObject({ responses: `{"k":${result}}`, state: undefined });
    expect(session.rounds()).toHaveLength(2);
  });

  it('may be several things at once: the upstream is asked again when all are answered, in whatever order', async () => {
    const keys = ['b', 'a', '1', 'ä "\\\n', '__proto__', ''];
    const session = await asking([inputRequired(rootsUnder(...keys)), DONE]);
    const { client, rounds } = session;
    const reading = client.call('1');
    await reading.message(keys.length - 1);
    expect(new Set(reading.messages.map(idOf)).size).toBe(keys.length);
    for (const [at, asked] of [...reading.messages.entries()].reverse()) {
      expect(rounds()).toHaveLength(1);
      await client.post(answerTo(asked, `"result":{"at":${at}}`));
    }
    expect(await reading.message(keys.length)).toContain('done');
    expect(rounds()).toHaveLength(2);
    const responses = JSON.parse(told(session, 1).responses ?? '');
    expect(Object.entries(responses).toSorted()).toEqual(keys.map((key, at) => [key, { at }]).toSorted());
  });

  it('may be up to 32 things at once', async () => {
    const keys = Array.from({ length: 32 }, (_, at) => `k${at}`);
    const session = await asking([inputRequired(rootsUnder(...keys)), DONE]);
    const reading = session.client.call('1');
    await reading.message(31);
    for (const asked of [...reading.messages]) await session.client.post(answerTo(asked));
    expect(await reading.message(32)).toContain('done');
    expect(Object.keys(JSON.parse(told(session, 1).responses ?? ''))).toHaveLength(32);
  });

  it('may take ten rounds, each a request of its own with a state of its own', async () => {
    const answers = Array.from({ length: 10 }, (_, at) => inputRequired(rootsUnder(`k${at}`), `"s${at}"`));
    const session = await asking([...answers, DONE]);
    const { client, rounds } = session;
    const reading = client.call('"c"');
    for (let at = 0; at < 10; at++) {
      await client.post(answerTo(await reading.message(at), `"result":{"round":${at}}`));
    }
    expect(await reading.message(10)).toBe(`{"jsonrpc":"2.0","id":"c","result":${DONE}}`);
    expect(told(session, 0)).toMatchObject({ responses: undefined, state: undefined });
    for (let at = 0; at < 10; at++) {
      expect(told(session, at + 1)).toMatchObject({ responses: `{"k${at}":{"round":${at}}}`, state: `"s${at}"` });
    }
    expect(new Set(rounds().map(({ id }) => id)).size).toBe(11);
    expect(new Set(rounds().map(({ body }) => paramText(body, 'name')))).toEqual(new Set(['"work"']));
  });
});

describe('the state of a round', () => {
  it.each([
    ['escapes and odd characters', '"\\u0000\\/\\ud83d \\"\\\\ \u2028 😀 $& $1 {},[]:"'],
    ['nothing in it', '""'],
    ['much in it', `"${'ab+/='.repeat(20_000)}"`],
  ])('goes back as it came, with %s', async (_what, state) => {
    const session = await asking([inputRequired(rootsUnder('k'), state), DONE]);
    const reading = session.client.call('1');
    await session.client.post(answerTo(await reading.message(0)));
    expect(await reading.message(1)).toContain('done');
    expect(told(session, 1)).toMatchObject({ responses: '{"k":{}}', state });
  });

  it('goes back at once where nothing else is asked', async () => {
    const session = await asking([inputRequired(undefined, '"wait"'), inputRequired('{}', '"more"'), DONE]);
    const reading = session.client.call('1');
    expect(await reading.over).toBe(true);
    expect(reading.messages).toEqual([`{"jsonrpc":"2.0","id":1,"result":${DONE}}`]);
    expect([0, 1, 2].map((round) => told(session, round).state)).toEqual([undefined, '"wait"', '"more"']);
    expect([1, 2].map((round) => told(session, round).responses)).toEqual([undefined, undefined]);
    expect(new Set(session.rounds().map(({ id }) => id)).size).toBe(3);
  });

  it('is not carried into the next round, nor are its answers', async () => {
    const session = await asking([inputRequired(rootsUnder('a'), '"s"'), inputRequired(rootsUnder('b')), DONE]);
    const reading = session.client.call('1');
    for (const number of [0, 1]) await session.client.post(answerTo(await reading.message(number)));
    expect(await reading.message(2)).toContain('done');
    expect(told(session, 2)).toMatchObject({ responses: '{"b":{}}', state: undefined });
  });
});

it('an address to be visited gets the id that the legacy era demands, a new one each time', async () => {
  const visit = '{"method":"elicitation/create","params":{"mode":"url","message":"m","url":"https://x.example/"}}';
  const { client } = await asking([inputRequired(`{"a":${visit},"b":${visit}}`), DONE]);
  const reading = client.call('1');
  await reading.message(1);
  const asked = reading.messages.map((message) => JSON.parse(message).params);
  expect(asked).toEqual(
    [1, 2].map(() => ({
      mode: 'url',
      message: 'm',
      url: 'https://x.example/',
      elicitationId: expect.stringMatching(/^[0-9a-f-]{36}$/),
    })),
  );
  expect(asked[0].elicitationId).not.toBe(asked[1].elicitationId);
  for (const message of [...reading.messages]) await client.post(answerTo(message));
  expect(await reading.message(2)).toContain('done');
});

it.each([
  ['prompts/get', '{"name":"p","arguments":{"n":"1"}}', '{"messages":[],"n":1.0}'],
  ['resources/read', '{"uri":"x:a"}', '{"contents":[{"uri":"x:a","text":"t"}],"ttlMs":5,"cacheScope":"public"}'],
])('%s can ask, too', async (method, params, result) => {
  const session = await asking([inputRequired(rootsUnder('k'), '"s"'), result], {
    method,
    scripts: {
      'prompts/list': '{"prompts":[{"name":"p"}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}',
      'resources/list':
        '{"resources":[{"uri":"x:a","name":"a"}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}',
    },
  });
  const { url, client } = session;
  const reading = new Reading(
    url,
    'POST',
    { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...client.headers },
    `{"jsonrpc":"2.0","id":7,"method":"${method}","params":${params}}`,
  );
  await client.post(answerTo(await reading.message(0), '"result":{"roots":[]}'));
  expect(await reading.message(1)).toBe(`{"jsonrpc":"2.0","id":7,"result":${result}}`);
  expect(told(session, 1)).toMatchObject({ responses: '{"k":{"roots":[]}}', state: '"s"' });
});

it('a call in a batch can ask: all goes to the batch’s stream', async () => {
  const session = await asking([inputRequired(rootsUnder('k')), DONE], { version: '2025-03-26' });
  const { client, url } = session;
  const call = '{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{"name":"work"}}';
  const reading = new Reading(
    url,
    'POST',
    { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...client.headers },
    `[${call},{"jsonrpc":"2.0","id":"p","method":"ping"}]`,
  );
  await reading.message(1);
  const asked = reading.messages.find((message) => message.includes('roots/list')) ?? '';
  expect(reading.messages).toContain('{"jsonrpc":"2.0","id":"p","result":{}}');
  await client.post(answerTo(asked));
  expect(await reading.message(2)).toBe(`{"jsonrpc":"2.0","id":"c","result":${DONE}}`);
  expect(await reading.over).toBe(true);
  expect(told(session, 1).responses).toBe('{"k":{}}');
});
