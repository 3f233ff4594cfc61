import { describe, expect, it } from 'vitest';
import { LEGACY, post } from '../../../../../../test/fixtures/raw-client.ts';
import type { ScriptedResponse } from '../../../../../../test/fixtures/raw-upstream/message.ts';
import { LIST_END, textResultText } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import { capabilityScripts } from '../../../../testing/capability-scripts.ts';
import { ALL_CAPABILITIES } from '../../../../testing/interactive-client.ts';
import { liveTests, responseTo } from '../../../../testing/live-tests.ts';
import { callText, sessionClient } from '../../../../testing/session-client.ts';
import { inputRequired, multiRoundStarter, rootsRequests } from './fixtures/multi-round.ts';

const startSession = multiRoundStarter(liveTests());

const FORM = '{"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object"}}}';
const VISIT = '{"method":"elicitation/create","params":{"mode":"url","message":"m","url":"https://x.example/"}}';
const SAMPLE = '{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}';
const WITH_TOOLS = '{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1,"tools":[]}}';
const ROOTS = '{"method":"roots/list"}';

const failed = (what: string) => ({ code: -32603, message: `forwarded tool call failed: ${what}` });
const notOffered = (method: string) =>
  failed(`the upstream sent an input request that the client does not support (${method})`);

/** The error of a call of a client with these capabilities, if it is the first message. */
async function errorAtOnce(response: string | ScriptedResponse, capabilities = ALL_CAPABILITIES) {
  const { client, rounds } = await startSession([response], { capabilities });
  const reading = client.call('"c"');
  expect(await reading.ended).toBe(true);
  expect(reading.messages).toHaveLength(1);
  expect(rounds()).toHaveLength(1);
  const { id, error } = JSON.parse(reading.messages[0] ?? '');
  expect(id).toBe('c');
  return error;
}

describe('invalid input requests fail the call, and none is sent', () => {
  it.each([
    [
      'neither an input request nor a state',
      inputRequired(),
      'the upstream required input without inputRequests or requestState',
    ],
    [
      'no question and no state',
      inputRequired('{}'),
      'the upstream required input without inputRequests or requestState',
    ],
    ['questions in an array', inputRequired(`[${ROOTS}]`), 'the upstream sent inputRequests that are not an object'],
    ['null for questions', inputRequired('null', '"s"'), 'the upstream sent inputRequests that are not an object'],
    ['a text for questions', inputRequired('"roots/list"'), 'the upstream sent inputRequests that are not an object'],
    [
      'a number for a state',
      inputRequired(rootsRequests('k'), '1'),
      'the upstream sent a requestState that is not a string',
    ],
    [
      'an object for a state',
      inputRequired(undefined, '{"s":1}'),
      'the upstream sent a requestState that is not a string',
    ],
    [
      'null for a state',
      inputRequired(rootsRequests('k'), 'null'),
      'the upstream sent a requestState that is not a string',
    ],
    [
      'params that are not an object',
      inputRequired(`{"a":${ROOTS},"b":{"method":"roots/list","params":[]}}`),
      'the upstream sent an input request with params that are not an object (roots/list)',
    ],
    [
      '33 questions',
      inputRequired(rootsRequests(...Array.from({ length: 33 }, (_, at) => `k${at}`))),
      'the upstream sent 33 input requests at once: at most 32 are allowed',
    ],
  ])('%s', async (_what, response, message) => {
    expect(await errorAtOnce(response)).toEqual(failed(message));
  });

  it.each([
    ['ping', '{"method":"ping"}', 'ping'],
    ['tools/list', '{"method":"tools/list","params":{}}', 'tools/list'],
    ['a method that is not a text', '{"method":1}', 'no method'],
    ['a method that cannot be made a text', '{"method":{"toString":1,"valueOf":1}}', 'no method'],
    ['a method that is nested deeply', `{"method":${'['.repeat(5_000)}${']'.repeat(5_000)}}`, 'no method'],
    ['a method without an end', `{"method":"${'x'.repeat(10_000)}"}`, 'x'.repeat(200)],
    ['no method', '{"params":{}}', 'no method'],
    ['a question that is not an object', '"roots/list"', 'no method'],
    ['a question that is null', 'null', 'no method'],
    [
      'an elicitation of an unknown mode',
      '{"method":"elicitation/create","params":{"mode":"x"}}',
      'elicitation/create',
    ],
  ])('one invalid request among others: %s', async (_what, serverRequest, method) => {
    const requests = `{"a":${ROOTS},"b":${serverRequest},"c":${ROOTS}}`;
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
  ])('a capability that the client has not declared: %s %s of %s', async (method, serverRequest, capabilities) => {
    expect(await errorAtOnce(inputRequired(`{"k":${serverRequest}}`), capabilities)).toEqual(notOffered(method));
  });

  it('of two requests with one key the last counts', async () => {
    const { client, rounds } = await startSession([
      inputRequired(`{"k":{"method":"ping"},"k":${ROOTS}}`),
      textResultText('done'),
    ]);
    const reading = client.call('1');
    await client.post(responseTo(await reading.message(0)));
    expect(await reading.message(1)).toContain('done');
    expect(reading.messages[0]).toContain('roots/list');
    expect(rounds()).toHaveLength(2);
  });
});

describe('the call of a client that does not support server requests fails', () => {
  const inputRequests = inputRequired(rootsRequests('k'));

  it('without a session', async () => {
    const { url, rounds } = await startSession([inputRequests]);
    const response = await post(url, callText('"c"'), { 'mcp-protocol-version': LEGACY });
    expect(JSON.parse(response.text)).toEqual({ jsonrpc: '2.0', id: 'c', error: notOffered('roots/list') });
    expect(rounds()).toHaveLength(1);
  });

  it('that accepts JSON only', async () => {
    const { url, rounds } = await startSession([inputRequests]);
    const { headers } = await sessionClient(url, { capabilities: ALL_CAPABILITIES });
    const response = await post(url, callText('"c"'), { ...headers, accept: 'application/json' });
    expect(JSON.parse(response.text)).toEqual({ jsonrpc: '2.0', id: 'c', error: notOffered('roots/list') });
    expect(rounds()).toHaveLength(1);
  });

  it('except for rounds without input requests', async () => {
    const { url, rounds } = await startSession([inputRequired(undefined, '"s"'), textResultText('done')]);
    const response = await post(url, callText('"c"'), { 'mcp-protocol-version': LEGACY, accept: 'application/json' });
    expect(JSON.parse(response.text)).toMatchObject({ id: 'c', result: { content: [{ text: 'done' }] } });
    expect(rounds()).toHaveLength(2);
  });
});

describe('more than ten rounds fail the call', () => {
  it.each([
    ['with questions', inputRequired(rootsRequests('k'), '"s"'), 10],
    ['with a state alone', inputRequired(undefined, '"s"'), 0],
  ])('%s', async (_what, response, serverRequests) => {
    const { client, rounds } = await startSession([response]);
    const reading = client.call('"c"');
    for (let at = 0; at < serverRequests; at++) await client.post(responseTo(await reading.message(at)));
    expect(JSON.parse(await reading.message(serverRequests))).toEqual({
      jsonrpc: '2.0',
      id: 'c',
      error: failed('the upstream required input more than 10 times'),
    });
    expect(rounds()).toHaveLength(11);
  });
});

it.each([
  ['"job"', '"job"'],
  ['1.0', '1'],
  ['null', 'null'],
  ['{"input_required":1}', '{"input_required":1}'],
])('a result of the unknown type %s is an error', async (type, received) => {
  const response = `{"resultType":${type},"content":[]}`;
  expect(await errorAtOnce(response)).toEqual(failed(`the upstream answered with a result of type ${received}`));
});

it.each([
  ['with questions', inputRequired(rootsRequests('k'), '"s"')],
  ['with a state alone', inputRequired(undefined, '"s"')],
])('a completion cannot require input and fails: %s', async (_what, response) => {
  const { client, rounds } = await startSession([response], {
    method: 'completion/complete',
    scripts: {
      ...capabilityScripts('{"prompts":{},"completions":{}}'),
      'prompts/list': `{"prompts":[{"name":"p"}],${LIST_END}`,
    },
  });
  const params = '{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"v"}}';
  expect(await client.request('completion/complete', params)).toMatchObject({
    error: {
      code: -32603,
      message: 'forwarded completion failed: the upstream answered with a result of type "input_required"',
    },
  });
  expect(rounds()).toHaveLength(1);
});

it('a result without a type is complete', async () => {
  const { client } = await startSession(['{"content":[]}']);
  const reading = client.call('1');
  await reading.ended;
  expect(reading.messages).toEqual(['{"jsonrpc":"2.0","id":1,"result":{"content":[]}}']);
});

it.each([
  ['-32021', '{"code":-32021,"message":"needs \\u00e4","data":{"requiredCapabilities":{"sampling":{}},"n":1.0}}', 400],
  ['-32602', '{"code":-32602,"message":"no","data":[9223372036854775807]}', 200],
  ['-32601', '{"code":-32601,"message":"no","x":1.0}', 404],
  ['one of its own', '{"code":-1.0,"message":"no"}', 500],
])('an upstream error is returned unchanged, in the second round as in the first: %s', async (_code, text, status) => {
  const error: ScriptedResponse = { kind: 'error', text, status };
  const { client } = await startSession([error, inputRequired(rootsRequests('k')), error]);
  const at = client.call('1');
  expect(await at.message(0)).toBe(`{"jsonrpc":"2.0","id":1,"error":${text}}`);
  expect((await at.head).statusCode).toBe(200);
  const reading = client.call('2');
  await client.post(responseTo(await reading.message(0)));
  expect(await reading.message(1)).toBe(`{"jsonrpc":"2.0","id":2,"error":${text}}`);
});
