import { describe, expect, it } from 'vitest';
import { LEGACY, post } from '../../../../../../test/fixtures/raw-client.ts';
import type { Answer } from '../../../../../../test/fixtures/raw-upstream/message.ts';
import { LIST_END, textResultText } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import { ASKABLE } from '../../../../testing/askable-client.ts';
import { declaring } from '../../../../testing/declaring.ts';
import { answerTo, liveTests } from '../../../../testing/live.ts';
import { callText, sessionClient } from '../../../../testing/session-client.ts';
import { askingOf, inputRequired, rootsUnder } from './fixtures/asking.ts';

const asking = askingOf(liveTests());

const FORM = '{"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object"}}}';
const VISIT = '{"method":"elicitation/create","params":{"mode":"url","message":"m","url":"https://x.example/"}}';
const SAMPLE = '{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}';
const WITH_TOOLS = '{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1,"tools":[]}}';
const ROOTS = '{"method":"roots/list"}';

const failed = (what: string) => ({ code: -32603, message: `forwarded tool call failed: ${what}` });
const notOffered = (method: string) =>
  failed(`the upstream asked for input that the client does not offer (${method})`);

/** The error that a call of a client with these capabilities ends with, before anything else was sent. */
async function errorAtOnce(answer: string | Answer, capabilities = ASKABLE) {
  const { client, rounds } = await asking([answer], { capabilities });
  const reading = client.call('"c"');
  expect(await reading.over).toBe(true);
  expect(reading.messages).toHaveLength(1);
  expect(rounds()).toHaveLength(1);
  const { id, error } = JSON.parse(reading.messages[0] ?? '');
  expect(id).toBe('c');
  return error;
}

describe('an upstream that asks what cannot be asked has the call fail, and nothing is asked', () => {
  it.each([
    ['neither a question nor a state', inputRequired(), 'the upstream asked for input without saying for what'],
    ['no question and no state', inputRequired('{}'), 'the upstream asked for input without saying for what'],
    [
      'questions in an array',
      inputRequired(`[${ROOTS}]`),
      'the upstream asked for input that is no object of requests',
    ],
    ['null for questions', inputRequired('null', '"s"'), 'the upstream asked for input that is no object of requests'],
    [
      'a text for questions',
      inputRequired('"roots/list"'),
      'the upstream asked for input that is no object of requests',
    ],
    [
      'a number for a state',
      inputRequired(rootsUnder('k'), '1'),
      'the upstream asked for input with a requestState that is no string',
    ],
    [
      'an object for a state',
      inputRequired(undefined, '{"s":1}'),
      'the upstream asked for input with a requestState that is no string',
    ],
    [
      'null for a state',
      inputRequired(rootsUnder('k'), 'null'),
      'the upstream asked for input with a requestState that is no string',
    ],
    [
      'params that are no object',
      inputRequired(`{"a":${ROOTS},"b":{"method":"roots/list","params":[]}}`),
      'the upstream asked for input with params that are no object (roots/list)',
    ],
    [
      '33 questions',
      inputRequired(rootsUnder(...Array.from({ length: 33 }, (_, at) => `k${at}`))),
      'the upstream asked for 33 things at once, and at most 32 can be',
    ],
  ])('%s', async (_what, answer, message) => {
    expect(await errorAtOnce(answer)).toEqual(failed(message));
  });

  it.each([
    ['ping', '{"method":"ping"}', 'ping'],
    ['tools/list', '{"method":"tools/list","params":{}}', 'tools/list'],
    ['a method that is no text', '{"method":1}', 'no method'],
    ['a method that cannot be made a text', '{"method":{"toString":1,"valueOf":1}}', 'no method'],
    ['a method that is nested deeply', `{"method":${'['.repeat(5_000)}${']'.repeat(5_000)}}`, 'no method'],
    ['a method without an end', `{"method":"${'x'.repeat(10_000)}"}`, 'x'.repeat(200)],
    ['no method', '{"params":{}}', 'no method'],
    ['a question that is no object', '"roots/list"', 'no method'],
    ['a question that is null', 'null', 'no method'],
    [
      'an elicitation of an unknown mode',
      '{"method":"elicitation/create","params":{"mode":"x"}}',
      'elicitation/create',
    ],
  ])('one question among others: %s', async (_what, question, method) => {
    const requests = `{"a":${ROOTS},"b":${question},"c":${ROOTS}}`;
    expect(await errorAtOnce(inputRequired(requests, '"s"'))).toEqual(notOffered(method));
  });

  it.each([
    ['elicitation/create', FORM, '{"sampling":{},"roots":{}}'],
    ['elicitation/create', FORM, '{"elicitation":{"url":{}}}'],
    ['elicitation/create', VISIT, '{"elicitation":{}}'],
    ['sampling/createMessage', SAMPLE, '{"elicitation":{},"roots":{}}'],
    ['sampling/createMessage', WITH_TOOLS, '{"sampling":{}}'],
    ['roots/list', ROOTS, '{"elicitation":{},"sampling":{}}'],
    ['roots/list', ROOTS, '{}'],
  ])('what the client has not declared: %s %s of %s', async (method, question, capabilities) => {
    expect(await errorAtOnce(inputRequired(`{"k":${question}}`), capabilities)).toEqual(notOffered(method));
  });

  it('two questions under one key are one, the last', async () => {
    const { client, rounds } = await asking([
      inputRequired(`{"k":{"method":"ping"},"k":${ROOTS}}`),
      textResultText('done'),
    ]);
    const reading = client.call('1');
    await client.post(answerTo(await reading.message(0)));
    expect(await reading.message(1)).toContain('done');
    expect(reading.messages[0]).toContain('roots/list');
    expect(rounds()).toHaveLength(2);
  });
});

describe('a client that cannot be asked is not, and its call fails', () => {
  const asks = inputRequired(rootsUnder('k'));

  it('without a session', async () => {
    const { url, rounds } = await asking([asks]);
    const answer = await post(url, callText('"c"'), { 'mcp-protocol-version': LEGACY });
    expect(JSON.parse(answer.text)).toEqual({ jsonrpc: '2.0', id: 'c', error: notOffered('roots/list') });
    expect(rounds()).toHaveLength(1);
  });

  it('that reads JSON only', async () => {
    const { url, rounds } = await asking([asks]);
    const { headers } = await sessionClient(url, { capabilities: ASKABLE });
    const answer = await post(url, callText('"c"'), { ...headers, accept: 'application/json' });
    expect(JSON.parse(answer.text)).toEqual({ jsonrpc: '2.0', id: 'c', error: notOffered('roots/list') });
    expect(rounds()).toHaveLength(1);
  });

  it('but can go through rounds that ask nothing', async () => {
    const { url, rounds } = await asking([inputRequired(undefined, '"s"'), textResultText('done')]);
    const answer = await post(url, callText('"c"'), { 'mcp-protocol-version': LEGACY, accept: 'application/json' });
    expect(JSON.parse(answer.text)).toMatchObject({ id: 'c', result: { content: [{ text: 'done' }] } });
    expect(rounds()).toHaveLength(2);
  });
});

describe('the eleventh round is one too many', () => {
  it.each([
    ['with questions', inputRequired(rootsUnder('k'), '"s"'), 10],
    ['with a state alone', inputRequired(undefined, '"s"'), 0],
  ])('%s', async (_what, answer, questions) => {
    const { client, rounds } = await asking([answer]);
    const reading = client.call('"c"');
    for (let at = 0; at < questions; at++) await client.post(answerTo(await reading.message(at)));
    expect(JSON.parse(await reading.message(questions))).toEqual({
      jsonrpc: '2.0',
      id: 'c',
      error: failed('the upstream asked for input more than 10 times'),
    });
    expect(rounds()).toHaveLength(11);
  });
});

it.each([
  ['"task"', '"task"'],
  ['1.0', '1'],
  ['null', 'null'],
  ['{"input_required":1}', '{"input_required":1}'],
])('a result of the type %s is an error, for none knows what it means', async (type, told) => {
  const answer = `{"resultType":${type},"content":[]}`;
  expect(await errorAtOnce(answer)).toEqual(failed(`the upstream answered with a result of type ${told}`));
});

it.each([
  ['with questions', inputRequired(rootsUnder('k'), '"s"')],
  ['with a state alone', inputRequired(undefined, '"s"')],
])(
  'a completion that is answered that input is needed fails, for it is none of the methods that may be: %s',
  async (_what, answer) => {
    const { client, rounds } = await asking([answer], {
      method: 'completion/complete',
      scripts: {
        ...declaring('{"prompts":{},"completions":{}}'),
        'prompts/list': `{"prompts":[{"name":"p"}],${LIST_END}`,
      },
    });
    const params = '{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"v"}}';
    expect(await client.ask('completion/complete', params)).toMatchObject({
      error: {
        code: -32603,
        message: 'forwarded completion failed: the upstream answered with a result of type "input_required"',
      },
    });
    expect(rounds()).toHaveLength(1);
  },
);

it('a result without a type is complete', async () => {
  const { client } = await asking(['{"content":[]}']);
  const reading = client.call('1');
  await reading.over;
  expect(reading.messages).toEqual(['{"jsonrpc":"2.0","id":1,"result":{"content":[]}}']);
});

it.each([
  ['-32021', '{"code":-32021,"message":"needs \\u00e4","data":{"requiredCapabilities":{"sampling":{}},"n":1.0}}', 400],
  ['-32602', '{"code":-32602,"message":"no","data":[9223372036854775807]}', 200],
  ['-32601', '{"code":-32601,"message":"no","x":1.0}', 404],
  ['one of its own', '{"code":-1.0,"message":"no"}', 500],
])(
  'an error of the upstream’s arrives as it is, in the second round as in the first: %s',
  async (_code, text, status) => {
    const error: Answer = { kind: 'error', text, status };
    const { client } = await asking([error, inputRequired(rootsUnder('k')), error]);
    const at = client.call('1');
    expect(await at.message(0)).toBe(`{"jsonrpc":"2.0","id":1,"error":${text}}`);
    expect((await at.head).statusCode).toBe(200);
    const reading = client.call('2');
    await client.post(answerTo(await reading.message(0)));
    expect(await reading.message(1)).toBe(`{"jsonrpc":"2.0","id":2,"error":${text}}`);
  },
);
