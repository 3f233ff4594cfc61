import { copyFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, it, test } from 'vitest';
import {
  type EvaluatedService,
  echoOf,
  errorOf,
  evaluator,
  startEvaluatedService,
} from './fixtures/evaluated/evaluated-service.ts';
import { modernClient, type RawClient, type RawResponse } from './fixtures/raw-client.ts';
import { parseObject } from './fixtures/raw-upstream/message.ts';

// Requests while evaluators are replaced.

let evaluated: EvaluatedService;
let client: RawClient;
beforeAll(async () => {
  evaluated = await startEvaluatedService();
  client = modernClient(evaluated.service.url());
  return () => evaluated.close();
}, 120_000);

const METHOD = 'vendor/asked';
const gate = (name: string, llmOutput: string) => evaluator(name, { method: METHOD, llmOutput });
const sendRequest = (id = 0) => client.call(METHOD, `{"id":${id}}`);
const messageOf = (response: RawResponse) => parseObject(errorOf(response)).message;
/** Whole response to a PUT. */
async function put(body: unknown, query = '') {
  const response = await fetch(`${evaluated.service.management}/api/v1/evaluators${query}`, {
    method: 'PUT',
    headers: { connection: 'close' },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  return { status: response.status, etag: response.headers.get('etag'), envelope: parseObject(await response.text()) };
}
/** Warnings without those about triggers: of a vendor's method it is not known whether an upstream has it. */
function skips(warnings: unknown): unknown[] {
  if (!Array.isArray(warnings)) throw new Error('no warnings');
  return warnings.filter((warning) => parseObject(JSON.stringify(warning)).code !== 'TRIGGER_NEVER_MATCHES');
}
/** An LLM result that the test releases. */
function pending(content: string) {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { script: { content, after: promise }, release: () => resolve() };
}

/** Takes all pending entries. */
async function request(count: number) {
  await expect.poll(() => evaluated.llm.requests.length - before, { timeout: 20_000 }).toBe(count);
}
let before: number;
beforeEach(() => {
  before = evaluated.llm.requests.length;
});

test('a broken file among ten skips its evaluator only, with a warning', async () => {
  await writeFile(join(evaluated.folder, 'broken.wasm'), Buffer.from('0061736d0d000100ffff', 'hex'));
  const ten = Array.from({ length: 10 }, (_, at) => gate(`gate-${at}`, at === 9 ? 'block:last' : 'pass'));
  ten[4] = { ...gate('gate-4', 'block:of the broken one'), processor: { path: 'broken.wasm' } };
  const { status, envelope } = await put({ evaluators: ten });
  const names = [0, 1, 2, 3, 5, 6, 7, 8, 9].map((at) => expect.objectContaining({ name: `gate-${at}` }));
  expect([status, envelope.data, envelope.error]).toEqual([200, names, null]);
  const code = 'WASM_COMPILE_FAILED';
  expect(skips(envelope.warnings)).toEqual([
    { evaluator: 'gate-4', path: 'broken.wasm', code, message: expect.any(String) },
  ]);
  expect(messageOf(await sendRequest())).toBe('last');
  await request(9);
  expect((await evaluated.metrics()).gauges).toMatchObject({ evaluators_loaded: 9, wasm_compiled: 1 });
});

const core = Buffer.from('0061736d01000000', 'hex');
test.each([
  ['a core module', 'core.wasm', core],
  ['no WebAssembly', 'text.wasm', Buffer.from('export function evaluate() {}')],
  ['a file of no bytes', 'empty.wasm', Buffer.alloc(0)],
  ['no file', 'missing.wasm', undefined],
])('%s is skipped, and its requests pass', async (_which, path, bytes) => {
  if (bytes) await writeFile(join(evaluated.folder, path), bytes);
  const { status, envelope } = await put({ evaluators: [{ ...gate('gate', 'block:no'), processor: { path } }] });
  expect([status, envelope.data, skips(envelope.warnings)]).toEqual([
    200,
    [],
    [expect.objectContaining({ evaluator: 'gate', path })],
  ]);
  expect(errorOf(await sendRequest())).toMatchObject({ code: -32601 });
  await request(0);
});

const llm = { operation: 'classify', prompt: 'p', connection: 'judge' };
test.each([
  [
    'an unknown connection',
    422,
    { evaluators: [gate('a', 'pass'), { ...gate('b', 'pass'), llm: { ...llm, connection: 'x' } }] },
  ],
  ['two of one name', 422, { evaluators: [gate('a', 'pass'), gate('a', 'pass')] }],
  [
    'a schema that is none',
    422,
    { evaluators: [{ ...gate('a', 'pass'), llm: { ...llm, result_schema: { type: 'x' } } }] },
  ],
  ['an empty trigger', 422, { evaluators: [{ ...gate('a', 'pass'), trigger: { method: '' } }] }],
  ['a model inline', 400, { evaluators: [{ ...gate('a', 'pass'), llm: { ...llm, model: 'm' } }] }],
  ['an address inline', 400, { evaluators: [{ ...gate('a', 'pass'), llm: { ...llm, url: 'http://x' } }] }],
  ['a key inline', 400, { evaluators: [{ ...gate('a', 'pass'), llm: { ...llm, api_key: 'sk-inline' } }] }],
  ['a stale revision', 409, { evaluators: [], expected_revision: 1_000 }],
  ['no JSON', 400, '{"evaluators":['],
] as const)('a rejected update changes nothing: %s', async (_which, status, body) => {
  await evaluated.apply(gate('gate', 'block:as before'));
  const rejected = await put(body);
  expect([rejected.status, rejected.envelope.data]).toEqual([status, null]);
  expect(JSON.stringify(rejected.envelope)).not.toContain('sk-inline');
  expect(messageOf(await sendRequest())).toBe('as before');
});

test('with strict, an action that cannot be loaded rejects the update, and the revision is stored', async () => {
  await evaluated.apply(gate('gate', 'block:as before'));
  const broken = { ...gate('b', 'pass'), processor: { path: 'missing.wasm' } };
  const { status, envelope } = await put({ evaluators: [gate('a', 'pass'), broken] }, '?strict=true');
  expect([status, envelope]).toMatchObject([
    422,
    {
      data: null,
      error: {
        message: expect.stringContaining('evaluators.1.processor.path no such file'),
        details: [{ path: 'evaluators.1.processor.path', message: expect.stringContaining('no such file') }],
      },
    },
  ]);
  expect(messageOf(await sendRequest())).toBe('as before');
  const { data } = await evaluated.service.manage('GET', '/evaluators/revisions');
  expect(Array.isArray(data) && data.slice(0, 2)).toMatchObject([{ status: 'rejected' }, { status: 'active' }]);
  expect((await put({ evaluators: [] }, '?strict=yes')).status).toBe(400);
});

test('triggers that cannot match are warnings of the response', async () => {
  const never = (name: string, method: string, namespace?: string) =>
    evaluator(name, { method, ...(namespace !== undefined && { namespace }) });
  const { status, envelope } = await put({
    evaluators: [
      never('misspelled', 'tools/cal'),
      never('exempt', 'initialize'),
      never('notification', 'notifications/initialized'),
      never('server', 'sampling/createMessage'),
      never('namespace', 'tools/call', 'financ'),
      never('fine', 'tools/call', 'default'),
      never('extension', 'skills/list'),
    ],
  });
  expect([status, Array.isArray(envelope.data) && envelope.data.length]).toEqual([200, 7]);
  const code = 'TRIGGER_NEVER_MATCHES';
  expect(envelope.warnings).toEqual([
    { evaluator: 'exempt', code, message: '"initialize" is never evaluated' },
    { evaluator: 'notification', code, message: '"notifications/initialized" is never evaluated' },
    { evaluator: 'server', code, message: '"sampling/createMessage" is never evaluated' },
    { evaluator: 'namespace', code, message: 'namespace "financ" does not exist' },
  ]);
});

test('an empty list deletes all', async () => {
  await evaluated.apply(gate('gate', 'block:no'));
  expect(await put({ evaluators: [] })).toMatchObject({ status: 200, envelope: { data: [], error: null } });
  expect(errorOf(await sendRequest())).toMatchObject({ code: -32601 });
  await request(0);
});

test('a changed file is used from the next PUT on', async () => {
  const file = join(evaluated.folder, 'changing.wasm');
  const changing = { ...gate('gate', 'block:old'), processor: { path: 'changing.wasm' } };
  await copyFile(join(evaluated.folder, 'ordinary.wasm'), file);
  await evaluated.apply(changing);
  // Blocks with the context as the reason.
  await copyFile(join(evaluated.folder, 'echo.wasm'), file);
  expect(messageOf(await sendRequest())).toBe('old');
  await evaluated.apply(changing);
  expect(messageOf(await sendRequest())).toContain(METHOD);
});

describe('a request in progress', () => {
  it('finishes with the evaluators that it started with', async () => {
    await evaluated.apply(gate('first', 'pass'), gate('second', 'block:of the old set'));
    const first = pending('pass');
    evaluated.llm.script(first.script);
    const response = sendRequest();
    await request(1);
    await evaluated.apply(gate('first', 'block:of the new set'));
    expect(messageOf(await sendRequest())).toBe('of the new set');
    await evaluated.apply();
    first.release();
    expect(messageOf(await response)).toBe('of the old set');
  });

  it('runs the action that it started with, even after it was replaced', async () => {
    await evaluated.apply(evaluator('gate', { method: METHOD, action: 'echo' }));
    const responded = pending('said');
    evaluated.llm.script(responded.script);
    const response = sendRequest(7);
    await request(1);
    await evaluated.apply(gate('gate', 'pass'));
    await evaluated.apply();
    responded.release();
    expect(echoOf(await response)).toMatchObject({ llmResult: 'said', arguments: [['id', '7']] });
  });

  it('is not evaluated again by a new set', async () => {
    await evaluated.apply(gate('gate', 'pass'));
    const responded = pending('pass');
    evaluated.llm.script(responded.script);
    const response = sendRequest();
    await request(1);
    await evaluated.apply(gate('gate', 'block:no'), gate('other', 'block:no'));
    responded.release();
    expect(errorOf(await response)).toMatchObject({ code: -32601 });
    await request(1);
  });
});

test('under load and many updates no request is evaluated by two sets', async () => {
  const set = (number: number) => [
    gate('a', `warn:${number}`),
    gate('b', `none+log:${number}`),
    gate('c', `block:${number}`),
  ];
  await evaluated.apply(...set(0));
  let updating = true;
  let id = 1_000;
  const responses = new Map<number, unknown>();
  const clients = Array.from({ length: 4 }, async () => {
    while (updating) {
      const own = id++;
      responses.set(own, messageOf(await sendRequest(own)));
    }
  });
  const countOutcomes = () => new Set(responses.values()).size;
  for (let number = 1; number <= 40 || responses.size <= 4 || countOutcomes() === 1; number++)
    await evaluated.apply(...set(number));
  updating = false;
  await Promise.all(clients);
  const sets = new Map<number, unknown[]>();
  for (const { messages } of evaluated.llm.requests.slice(before)) {
    const own = Number(/ id: (\d+)$/.exec(messages[1]?.content ?? '')?.[1]);
    const number = /\d+$/.exec(messages[0]?.content ?? '')?.[0];
    sets.set(own, [...(sets.get(own) ?? []), number]);
  }
  expect(sets.size).toBe(responses.size);
  for (const [own, numbers] of sets) expect(numbers).toEqual(Array.from({ length: 3 }, () => responses.get(own)));
}, 120_000);

test('evaluators of the bootstrap file are active from the start', async () => {
  const broken = { ...gate('broken', 'block:no'), processor: { path: 'missing.wasm' } };
  const own = await startEvaluatedService({}, [], [broken, gate('gate', 'block:from the start')]);
  try {
    expect(messageOf(await modernClient(own.service.url()).call(METHOD))).toBe('from the start');
    expect(own.lines().filter(({ level }) => level === 'warn')).toMatchObject([
      { msg: expect.stringContaining('"broken"') },
    ]);
  } finally {
    await own.close();
  }
}, 60_000);
