import { beforeAll, beforeEach, describe, expect, it, test } from 'vitest';
import type { CompletionScript, ScriptedCompletion } from '../packages/server/testing/chat-completions.ts';
import {
  API_KEY,
  type EvaluatedService,
  echoOf,
  errorOf,
  evaluator,
  MODEL,
  startEvaluatedService,
} from './fixtures/evaluated/evaluated-service.ts';
import { modernClient, type RawClient } from './fixtures/raw-client.ts';

// LLM calls of evaluators and their results.

let evaluated: EvaluatedService;
let client: RawClient;
beforeAll(async () => {
  evaluated = await startEvaluatedService();
  client = modernClient(evaluated.service.url());
  return () => evaluated.close();
}, 120_000);

const echo = (parts: object = {}) => evaluator('gate', { method: 'vendor/asked', action: 'echo', ...parts });
const sendRequest = () => client.call('vendor/asked', '{"q":"x"}');
/** Error of an unknown tool, after an evaluator has passed the request. */
const PASSED = { code: -32601, message: expect.stringContaining('vendor/asked') };
const FAILED = {
  code: -32603,
  message: 'evaluator llm operation failed',
  data: { evaluator: 'gate', kind: 'llm_failure' },
};

describe('an LLM call', () => {
  test.each(['classify', 'filter', 'augment'] as const)('is the same for %s', async (operation) => {
    await evaluated.apply(echo({ llmOutput: 'Judge!', operation }));
    await sendRequest();
    const { method, path, headers, text } = evaluated.llm.requests.at(-1) ?? {};
    expect([method, path]).toEqual(['POST', '/v1/chat/completions']);
    expect(headers).toMatchObject({ authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' });
    const messages = [
      { role: 'system', content: 'Judge!' },
      { role: 'user', content: '# Request\nmethod: vendor/asked\nnamespace: default\narguments:\n  q: x' },
    ];
    expect(JSON.parse(text ?? '')).toEqual({ model: MODEL, messages, temperature: 0, stream: false });
  });

  test('has no bearer token if the key of the connection is empty', async () => {
    await evaluated.apply(echo({ connection: 'keyless' }));
    await sendRequest();
    expect(evaluated.llm.requests.at(-1)?.headers).not.toHaveProperty('authorization');
    expect(evaluated.llm.requests.at(-1)?.path).toBe('/v1/chat/completions');
  });

  test('has no headers of the client', async () => {
    await evaluated.apply(echo());
    await client.call('vendor/asked', '{}', { authorization: 'Bearer of-the-client', cookie: 'a=b' });
    const { headers } = evaluated.llm.requests.at(-1) ?? {};
    expect(JSON.stringify(headers)).not.toMatch(/of-the-client|a=b/);
  });
});

describe('a result', () => {
  test.each(['allow', '{"a": 1}', '```json\n{"a":1}\n```', ' \n ', 'Zoë 😀\u0000', ''])(
    'is passed to the action unchanged: %j',
    async (content) => {
      await evaluated.apply(echo());
      evaluated.llm.script({ content });
      expect(echoOf(await sendRequest()).llmResult).toBe(content);
    },
  );

  test('that is empty is valid, and counted', async () => {
    await evaluated.apply(echo({ on_error: 'block' }));
    const before = (await evaluated.metrics()).evaluators.gate?.llm;
    evaluated.llm.script({ content: '' });
    await sendRequest();
    const after = (await evaluated.metrics()).evaluators.gate?.llm;
    expect(after?.empty_results).toBe((before?.empty_results ?? 0) + 1);
    expect(after?.calls_success).toBe((before?.calls_success ?? 0) + 1);
    expect(after?.calls_failure).toBe(before?.calls_failure);
  });
});

const FAILURES: Readonly<Record<string, CompletionScript>> = {
  'an HTTP status of 500': { status: 500, content: 'pass' },
  'an HTTP status of 401': { status: 401, content: 'pass' },
  'an HTTP status of 429': { status: 429, content: 'pass' },
  'no content at all': { status: 204, body: '' },
  'a redirect to itself': { status: 307, headers: { location: '/v1/chat/completions' } },
  'a broken JSON text': { body: '{"choices":[{"message":{"content":"pass"}}' },
  'an empty body': { body: '' },
  'no choices': { body: '{"choices":[]}' },
  'no message': { body: '{"choices":[{}]}' },
  'no text': { content: null },
  'parts without text': { content: [{ type: 'image', text: 'pass' }] },
  'a list': { body: '["pass"]' },
  'bytes that are not text': { body: Buffer.from([0x22, 0xff, 0x22]) },
  'a connection that breaks before the head': { stopsIn: 'head', hangsUp: true },
  'a connection that breaks in the body': { stopsIn: 'body', hangsUp: true },
};

describe.each(['continue', 'block', undefined] as const)('when the LLM call fails, with on_error %s', (on_error) => {
  const expected = on_error === 'block' ? FAILED : PASSED;
  beforeEach(() => evaluated.apply(echo(on_error && { on_error })));

  it.each(Object.keys(FAILURES))('%s', async (name) => {
    const before = evaluated.llm.requests.length;
    evaluated.llm.script(FAILURES[name] ?? '');
    const response = await sendRequest();
    // Unknown methods have HTTP 404; rejections of evaluators have 200.
    expect([response.status, errorOf(response)]).toEqual([on_error === 'block' ? 200 : 404, expected]);
    expect(evaluated.llm.requests.length - before).toBe(1);
    const line = evaluated.lines().at(-1);
    expect(line).toMatchObject({ level: 'warn', msg: 'evaluator failed', decision: 'llm_failure' });
    expect(line).toMatchObject({ evaluator: 'gate', on_error: on_error ?? 'continue' });
  });

  it('the connection is refused', async () => {
    await evaluated.apply(echo({ connection: 'nobody', ...(on_error && { on_error }) }));
    expect(errorOf(await sendRequest())).toEqual(expected);
  });
});

test('an LLM call times out after ten seconds', async () => {
  const next = (method: string) => evaluator('next', { method, action: 'echo', llmOutput: 'next' });
  const waiting = evaluator('waiting', { method: 'vendor/waiting', llmOutput: 'silent', on_error: 'continue' });
  await evaluated.apply(echo({ on_error: 'block' }), waiting, next('vendor/waiting'));
  evaluated.llm.defaultResult = ({ messages: [system] }) =>
    system?.content === 'next' ? 'next' : { stopsIn: system?.content === 'silent' ? 'head' : 'body' };
  const startedAt = performance.now();
  const [blocked, continued] = await Promise.all([sendRequest(), client.call('vendor/waiting')]);
  // Not much earlier; the timeout of the test limits how late.
  expect(performance.now() - startedAt).toBeGreaterThan(9_000);
  expect(errorOf(blocked)).toEqual(FAILED);
  expect(echoOf(continued)).toMatchObject({ llmResult: 'next' });
  evaluated.llm.defaultResult = ({ messages: [system] }) => system?.content ?? '';
});

test('a failure with on_error continue runs the next evaluator', async () => {
  await evaluated.apply(
    evaluator('broken', { method: 'vendor/asked', connection: 'nobody', on_error: 'continue' }),
    echo({ llmOutput: 'x' }),
  );
  expect(echoOf(await sendRequest())).toMatchObject({ llmResult: 'x' });
});

test('a failure with on_error block rejects the request', async () => {
  await evaluated.apply(echo({ connection: 'nobody', on_error: 'block' }), {
    ...echo({ llmOutput: 'x' }),
    name: 'next',
  });
  const before = evaluated.llm.requests.length;
  expect(errorOf(await sendRequest())).toEqual(FAILED);
  expect(evaluated.llm.requests.length).toBe(before);
});

describe('with a result_schema', () => {
  const schema = { type: 'object', required: ['verdict'], properties: { verdict: { enum: ['yes', 'no'] } } };
  const VALID = '{"verdict":"yes"}';

  /** Evaluates with these LLM results, all of which must be requested; returns the input of the action and the prompts. */
  async function evaluateWith(...responses: ScriptedCompletion[]) {
    const before = evaluated.llm.requests.length;
    const counted = (await evaluated.metrics()).evaluators.gate?.schema;
    evaluated.llm.script(...responses);
    const answer = await sendRequest();
    const requested = evaluated.llm.requests.slice(before);
    expect(requested).toHaveLength(responses.length);
    const now = (await evaluated.metrics()).evaluators.gate?.schema;
    const increments = Object.entries(now ?? {}).map(([name, count]) => [
      name,
      count - (Object.entries(counted ?? {}).find(([other]) => other === name)?.[1] ?? 0),
    ]);
    return { answer, prompts: requested.map(({ messages }) => messages), counts: Object.fromEntries(increments) };
  }
  const counts = (pass: number, fail: number, success: number, failure: number) => ({
    validations_pass: pass,
    validations_fail: fail,
    retries_success: success,
    retries_failure: failure,
  });

  beforeEach(() => evaluated.apply(echo({ llmOutput: 'Judge!', schema, on_error: 'block' })));

  it.each([VALID, ` ${VALID}\n`, `\`\`\`json\n${VALID}\n\`\`\``, `\`\`\`\n{"verdict":"no","more":1}\n\`\`\``])(
    'a valid result is requested once and passed on raw: %j',
    async (text) => {
      const { answer, counts: gained } = await evaluateWith(text);
      expect(echoOf(answer).llmResult).toBe(text);
      expect(gained).toEqual(counts(1, 0, 0, 0));
    },
  );

  it('an invalid result causes one correction with the error, the schema and the result', async () => {
    const { answer, prompts, counts: gained } = await evaluateWith('{"verdict":"perhaps"}', `\`\`\`\n${VALID}\n\`\`\``);
    expect(echoOf(answer).llmResult).toBe(`\`\`\`\n${VALID}\n\`\`\``);
    expect(gained).toEqual(counts(1, 1, 1, 0));
    const systems = prompts.map(([system]) => system);
    expect(systems).toEqual(Array.from({ length: 2 }, () => ({ role: 'system', content: 'Judge!' })));
    const [first = '', second = ''] = prompts.map(([, user]) => user?.content);
    expect(second.startsWith(`${first}\n\n`)).toBe(true);
    const section = second.slice(first.length);
    expect(section).toContain(JSON.stringify(schema));
    expect(section).toContain('{"verdict":"perhaps"}');
    expect(section).toMatch(/verdict.*must be equal to one of the allowed values/);
    expect(section).toMatch(/Answer with JSON/);
  });

  it.each([
    ['no JSON', 'I would say yes'],
    ['prose around it', `Well: ${VALID}`],
    ['two fences', `\`\`\`\n\`\`\`json\n${VALID}\n\`\`\`\n\`\`\``],
    ['nothing', ''],
  ])('%s is invalid', async (_which, text) => {
    const { answer, counts: gained } = await evaluateWith({ content: text }, VALID);
    expect(echoOf(answer).llmResult).toBe(VALID);
    expect(gained).toEqual(counts(1, 1, 1, 0));
  });

  it('the action receives the second of two invalid results', async () => {
    const { answer, counts: gained } = await evaluateWith('first', '```\nsecond\n```');
    expect(echoOf(answer).llmResult).toBe('```\nsecond\n```');
    expect(gained).toEqual(counts(0, 2, 0, 1));
  });

  it.each(['an HTTP status of 500', 'no text', 'a connection that breaks before the head'])(
    'the first result is passed to the action when the second call fails: %s',
    async (name) => {
      const { answer, counts: gained } = await evaluateWith('first', FAILURES[name] ?? '');
      expect(echoOf(answer).llmResult).toBe('first');
      expect(gained).toEqual(counts(0, 1, 0, 1));
    },
  );

  it('all errors are included, joined with "; "', async () => {
    const two = { type: 'object', required: ['a', 'b'] };
    await evaluated.apply(echo({ llmOutput: 'Judge!', schema: two }));
    const { prompts } = await evaluateWith('{}', '{"a":1,"b":2}');
    expect(prompts[1]?.[1]?.content).toMatch(/must have required property 'a'; .*must have required property 'b'/);
  });

  it('the draft of a schema is used', async () => {
    const draft = { $schema: 'http://json-schema.org/draft-07/schema#', items: [{ type: 'string' }] };
    await evaluated.apply(echo({ llmOutput: 'Judge!', schema: draft }));
    const { answer } = await evaluateWith('[1]', '["a", 1]');
    expect(echoOf(answer).llmResult).toBe('["a", 1]');
  });

  it('the action receives the result of a schema that rejects everything', async () => {
    await evaluated.apply(echo({ llmOutput: 'Judge!', schema: { not: {} } }));
    const { answer, counts: gained } = await evaluateWith('{}', '[]');
    expect(echoOf(answer).llmResult).toBe('[]');
    expect(gained).toEqual(counts(0, 2, 0, 1));
  });
});

test('diagnostics name an evaluator whose last evaluations have all failed, with the reason in identifiers', async () => {
  await evaluated.apply({ ...echo(), name: 'failing' });
  const check = async () => {
    const { data } = await evaluated.service.manage('POST', '/diagnostics');
    return Object(data).checks.find(({ name }: { readonly name: string }) => name === 'evaluators');
  };
  expect(await check()).toEqual({ name: 'evaluators', status: 'ok', message: '1 loaded' });
  const error = { message: `${MODEL} at ${evaluated.llm.url} with ${API_KEY}`, param: 'messages', code: MODEL };
  evaluated.llm.script({ status: 400, body: JSON.stringify({ error }) });
  await sendRequest();
  expect(await check()).toEqual({
    name: 'evaluators',
    status: 'failed',
    message: '1 loaded; all of the last evaluations failed: failing (status, HTTP 400, param messages)',
    remedy: expect.stringContaining('LLM connections'),
  });
  await sendRequest();
  expect(await check()).toMatchObject({ status: 'ok' });
});
