import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { evaluatorDefinition } from '../policy/fixtures/evaluator-definition.ts';
import { CONNECTIONS, namesIn, SECRETS, startEvaluatorApi, warningsIn } from './evaluators.fixture.ts';

/** The minimal submission. */
const SMALLEST = {
  name: 'guard',
  trigger: { method: 'tools/call' },
  llm: { operation: 'classify', prompt: 'Is it safe?', connection: 'model' },
  processor: { path: 'ok.wasm' },
};

describe('PUT /api/v1/evaluators', () => {
  test('before the first one there are no evaluators, with revision 0', async (context) => {
    const { get } = await startEvaluatorApi(context);
    const answer = await get();
    expect(answer.text).toBe('{"data":[],"error":null}');
    expect(answer.headers.etag).toBe('"0"');
  });

  test('submitted evaluators are returned with all members, also by GET', async (context) => {
    const { get, put } = await startEvaluatorApi(context);
    const full = {
      name: 'full',
      trigger: { method: 'tools/list', namespace: 'finance' },
      llm: { operation: 'filter', prompt: '', connection: 'another', result_schema: { type: 'array' } },
      processor: { path: './ok.wasm' },
      on_error: 'block',
    };
    const answer = await put([SMALLEST, full]);
    expect(answer.status).toBe(200);
    expect(answer.headers.etag).toBe('"1"');
    expect(answer.data).toEqual([evaluatorDefinition('guard'), full]);
    expect(JSON.parse(answer.text)).not.toHaveProperty('warnings');
    const read = await get();
    expect([read.text, read.headers.etag]).toEqual([answer.text, '"1"']);
  });

  test('returned evaluators can be submitted, and numbers of a schema are unchanged', async (context) => {
    const { api, get } = await startEvaluatorApi(context);
    const schema = '{"maximum":9007199254740993,"minimum":1.0}';
    const text = JSON.stringify({ evaluators: [evaluatorDefinition('a')] }).replace(
      '"result_schema":null',
      `"result_schema":${schema}`,
    );
    expect((await api.call('PUT', '/api/v1/evaluators', text)).text).toContain(schema);
    const read = (await get()).text.slice('{"data":'.length, -',"error":null}'.length);
    const again = await api.call('PUT', '/api/v1/evaluators', `{"evaluators":${read}}`);
    expect(again.text).toBe((await get()).text);
    expect((await get('/revisions/active')).text).toContain(schema);
  });

  test('an empty list deletes them', async (context) => {
    const { get, put } = await startEvaluatorApi(context);
    await put([SMALLEST]);
    const answer = await put([]);
    expect([answer.status, answer.data, answer.headers.etag]).toEqual([200, [], '"2"']);
    expect((await get()).data).toEqual([]);
  });

  test('one of ten with an invalid action is skipped, with a warning', async (context) => {
    const { folder, get, put } = await startEvaluatorApi(context);
    const names = Array.from({ length: 10 }, (_, index) => `e${index}`);
    const answer = await put(names.map((name) => evaluatorDefinition(name, name === 'e4' ? 'broken.wasm' : 'ok.wasm')));
    const nine = names.filter((name) => name !== 'e4');
    expect(answer.status).toBe(200);
    expect(namesIn(answer)).toEqual(nine);
    expect(warningsIn(answer)).toEqual([
      { evaluator: 'e4', path: 'broken.wasm', code: 'WASM_COMPILE_FAILED', message: 'is not a component' },
    ]);
    expect(namesIn(await get())).toEqual(nine);
    expect(JSON.parse((await get()).text)).not.toHaveProperty('warnings');
    expect((await get('/revisions/active')).data).toMatchObject({ skipped: ['e4'], evaluators: { length: 10 } });

    // A changed file takes effect with the next request.
    await writeFile(join(folder, 'broken.wasm'), 'ok by now');
    expect(namesIn(await get())).toEqual(nine);
    expect(namesIn(await put(names.map((name) => evaluatorDefinition(name, 'broken.wasm'))))).toEqual(names);
  });

  test('invalid files are skipped with their reasons', async (context) => {
    const { folder, put } = await startEvaluatorApi(context);
    const answer = await put([
      evaluatorDefinition('gone', 'gone.wasm'),
      evaluatorDefinition('folder', '.'),
      evaluatorDefinition('fine'),
    ]);
    expect(namesIn(answer)).toEqual(['fine']);
    expect(warningsIn(answer)).toMatchObject([
      { evaluator: 'gone', path: 'gone.wasm', message: expect.stringMatching(/^no such file \(relative paths/) },
      { evaluator: 'folder', path: '.', message: 'is not a file' },
    ]);
    expect(answer.text).not.toContain(folder);
  });

  test('the same content is compiled once, for any number of files and submissions', async (context) => {
    const { compiler, folder, put } = await startEvaluatorApi(context);
    await writeFile(join(folder, 'copy.wasm'), 'ok');
    await put([
      evaluatorDefinition('a'),
      evaluatorDefinition('b'),
      evaluatorDefinition('c', 'copy.wasm'),
      evaluatorDefinition('d', 'broken.wasm'),
    ]);
    expect(compiler.compiled.toSorted()).toEqual(['broken', 'ok']);
    await put([evaluatorDefinition('a')]);
    expect(compiler.compiled).toHaveLength(2);
  });
});

type Change = (evaluator: ReturnType<typeof evaluatorDefinition>) => object;

const inLlm =
  (members: object): Change =>
  (evaluator) => ({ ...evaluator, llm: { ...evaluator.llm, ...members } });

describe('400: nothing changes, and no revision is created', () => {
  test.for<[string, Change, string]>([
    ['model inline', inLlm({ model: SECRETS[1] }), 'llm.model is not a known field'],
    ['url inline', inLlm({ url: `http://${SECRETS[2]}` }), 'llm.url is not a known field'],
    ['api_key inline', inLlm({ api_key: SECRETS[0] }), 'llm.api_key is not a known field'],
    ['another unknown key under llm', inLlm({ temperature: 0 }), 'llm.temperature is not a known field'],
    ['an unknown operation', inLlm({ operation: 'guess' }), 'llm.operation '],
    ['an unknown on_error', (one) => ({ ...one, on_error: 'stop' }), 'on_error '],
    ['a name that is none', (one) => ({ ...one, name: 5 }), 'name '],
    ['no trigger', ({ trigger: _, ...one }) => one, 'trigger is required'],
    ['no path', (one) => ({ ...one, processor: {} }), 'processor.path is required'],
    ['a schema that is text', inLlm({ result_schema: '{}' }), 'llm.result_schema '],
  ])('%s', async ([_what, change, problem], context) => {
    const { api, get, put } = await startEvaluatorApi(context);
    await put([evaluatorDefinition('before')]);
    // Rejections with other codes are not tested here.
    const broken = change(evaluatorDefinition('x', 'broken.wasm'));
    const answer = await put([evaluatorDefinition('x'), broken], { expected_revision: 7 });
    expect(answer.status).toBe(400);
    expect(answer.error).toMatchObject({ code: 'BAD_REQUEST' });
    expect(JSON.stringify(answer.error)).toContain(`invalid evaluators: evaluators.1.${problem}`);
    expect(namesIn(await get())).toEqual(['before']);
    expect((await get('/revisions')).data).toHaveLength(1);
    for (const secret of SECRETS) expect(answer.text + api.log.join('')).not.toContain(secret);
  });

  test('a path that leaves SERVICE_ACTIONS_PATH', async (context) => {
    const { get, put, restart, folder } = await startEvaluatorApi(context);
    await restart({ actionsPath: join(folder, 'inside') });
    for (const path of ['ok.wasm', '/etc/passwd', 'inside/../ok.wasm', 'none.wasm']) {
      const answer = await put([{ ...evaluatorDefinition('a', path), name: '' }], { expected_revision: 7 });
      expect(answer.status, path).toBe(400);
      const message = 'is not inside SERVICE_ACTIONS_PATH';
      expect(answer.error).toEqual({
        code: 'BAD_REQUEST',
        message: `invalid evaluators: evaluators.0.processor.path ${message}`,
        details: [{ path: 'evaluators.0.processor.path', message }],
      });
    }
    expect((await get('/revisions')).data).toEqual([]);
  });
});

describe('409', () => {
  test('if the active revision is not the expected one, nothing is changed or stored', async (context) => {
    const { get, put } = await startEvaluatorApi(context);
    expect((await put([], { expected_revision: 1 })).status).toBe(409);
    expect((await put([evaluatorDefinition('a')], { expected_revision: 0 })).status).toBe(200);
    const stale = await put([{ ...evaluatorDefinition('b'), name: '' }], { expected_revision: 0 });
    expect(stale.status).toBe(409);
    expect(stale.error).toEqual({
      code: 'CONFLICT',
      message: 'expected revision 0, but revision 1 is active',
      details: { expected_revision: 0, active_revision: 1 },
    });
    expect(namesIn(await get())).toEqual(['a']);
    expect((await get('/revisions')).data).toHaveLength(1);
    expect((await put([evaluatorDefinition('b')], { expected_revision: 1 })).headers.etag).toBe('"2"');
  });

  test('one of several concurrent updates with the same expected revision succeeds', async (context) => {
    const { get, put } = await startEvaluatorApi(context);
    const names = Array.from({ length: 10 }, (_, index) => `e${index}`);
    const answers = await Promise.all(names.map((name) => put([evaluatorDefinition(name)], { expected_revision: 0 })));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, ...names.slice(1).map(() => 409)]);
    const winner = answers.find(({ status }) => status === 200);
    expect((await get()).data).toEqual(winner?.data);
    expect((await get('/revisions')).data).toHaveLength(1);
  });
});

describe('If-Match', () => {
  const APART = ['"0"', '"01"', 'W/"1"', '"2", "3"', '"x"'];

  test('names the expected active revision, like expected_revision', async (context) => {
    const { get, put } = await startEvaluatorApi(context);
    const matching = (ifMatch: string, more = {}) => put([evaluatorDefinition('b')], more, { 'if-match': ifMatch });
    const none = await matching('*');
    expect([none.status, none.error]).toEqual([
      409,
      {
        code: 'CONFLICT',
        message: 'If-Match does not match: no revision is active',
        details: { active_revision: 0 },
      },
    ]);
    expect((await matching('"0"')).headers.etag).toBe('"1"');
    for (const ifMatch of APART) {
      const stale = await matching(ifMatch);
      expect(stale.status, ifMatch).toBe(409);
      expect(stale.error, ifMatch).toMatchObject({ code: 'CONFLICT', details: { active_revision: 1 } });
    }
    expect((await matching('"7"')).error).toEqual({
      code: 'CONFLICT',
      message: 'expected revision 7, but revision 1 is active',
      details: { expected_revision: 7, active_revision: 1 },
    });
    expect((await get('/revisions')).data).toHaveLength(1);
    expect((await matching(String((await get()).headers.etag))).headers.etag).toBe('"2"');
    expect((await matching('"1", "2"')).headers.etag).toBe('"3"');
    expect((await matching('*')).headers.etag).toBe('"4"');
  });

  test('applies in addition to expected_revision', async (context) => {
    const { put } = await startEvaluatorApi(context);
    await put([]);
    for (const [expected_revision, ifMatch, status] of [
      [1, '"0"', 409],
      [0, '"1"', 409],
      [0, '*', 409],
      [1, '"1"', 200],
    ] as const) {
      expect((await put([], { expected_revision }, { 'if-match': ifMatch })).status, ifMatch).toBe(status);
    }
  });

  test.for(['1', '"1', '', '"1" "2"', '*, "1"'])('that is none, such as %j, is 400', async (ifMatch, context) => {
    const { get, put } = await startEvaluatorApi(context);
    const answer = await put([], { expected_revision: 7 }, { 'if-match': ifMatch });
    expect([answer.status, answer.error]).toEqual([
      400,
      {
        code: 'BAD_REQUEST',
        message: 'invalid If-Match header: expected the ETag value or *',
      },
    ]);
    expect((await get('/revisions')).data).toEqual([]);
  });
});

describe('422: nothing changes, and a rejected revision contains the reason', () => {
  test.for<[string, Change, string]>([
    [
      'an unknown connection',
      inLlm({ connection: 'gpt' }),
      'llm.connection is an unknown connection "gpt"; known connections: ',
    ],
    ['an empty name', (one) => ({ ...one, name: ' ' }), 'name must not be empty'],
    ['a name that is taken', (one) => ({ ...one, name: 'first' }), 'name is the name of an earlier evaluator'],
    ['an empty trigger', (one) => ({ ...one, trigger: { method: '' } }), 'trigger.method must not be empty'],
    [
      'an invalid namespace',
      (one) => ({ ...one, trigger: { method: 'm', namespace: 'Finance' } }),
      'trigger.namespace must consist of lowercase letters',
    ],
    ['an empty path', (one) => ({ ...one, processor: { path: '' } }), 'processor.path must not be empty'],
    ['a schema that cannot be used', inLlm({ result_schema: { type: 'nothing' } }), 'llm.result_schema '],
    [
      'a schema with a reference elsewhere',
      inLlm({ result_schema: { $ref: 'https://schemas.example/one.json' } }),
      'llm.result_schema ',
    ],
  ])('%s', async ([_what, change, problem], context) => {
    const { compiler, get, put } = await startEvaluatorApi(context);
    await put([evaluatorDefinition('before')]);
    const submitted = [evaluatorDefinition('first'), change(evaluatorDefinition('x', 'broken.wasm'))];
    const answer = await put(submitted, { expected_revision: 1 });
    expect(answer.status).toBe(422);
    expect(answer.error).toMatchObject({
      code: 'UNPROCESSABLE',
      message: expect.stringContaining(`invalid evaluators: evaluators.1.${problem}`),
      details: [{ path: expect.stringMatching(/^evaluators\.1\./), message: expect.any(String) }],
    });
    expect(namesIn(await get())).toEqual(['before']);
    expect(compiler.compiled).toEqual(['ok']);

    const [rejected, active] = Object((await get('/revisions')).data);
    expect(active).toMatchObject({ id: 1, status: 'active' });
    expect(rejected).toMatchObject({
      id: 2,
      status: 'rejected',
      origin: 'api',
      failure_reason: expect.stringContaining(`evaluators.1.${problem}`),
    });
    expect(rejected).not.toHaveProperty('activated_at');
    expect((await get('/revisions/2')).data).toMatchObject({ evaluators: { length: 2 }, skipped: [] });
    // The active one is expected, not the latest.
    expect((await put([], { expected_revision: 1 })).headers.etag).toBe('"3"');
  });

  test('all problems are reported at once', async (context) => {
    const { put } = await startEvaluatorApi(context);
    const answer = await put([
      { ...evaluatorDefinition(''), trigger: { method: '', namespace: '-' } },
      inLlm({ connection: '', result_schema: { type: 1 } })(evaluatorDefinition('b')),
    ]);
    expect(Object(answer.error).details.map(({ path }: { path: string }) => path)).toEqual([
      'evaluators.0.name',
      'evaluators.0.trigger.method',
      'evaluators.0.trigger.namespace',
      'evaluators.1.llm.connection',
      'evaluators.1.llm.result_schema',
    ]);
  });
});

test('connections are listed by name only, sorted', async (context) => {
  const { get } = await startEvaluatorApi(context);
  expect((await get('/llm-connections')).text).toBe('{"data":["another","model"],"error":null}');
});

test('the settings of a connection appear in no response, revision or log line', async (context) => {
  const it = await startEvaluatorApi(context);
  const { folder, get, put, restart } = it;
  const answers = [
    await put([evaluatorDefinition('a'), evaluatorDefinition('b', 'broken.wasm')]),
    await put([inLlm({ connection: 'none' })(evaluatorDefinition('a'))]),
    await put([], { expected_revision: 9 }),
    await put([evaluatorDefinition('c')]),
    await it.api.call('POST', '/api/v1/evaluators/revisions/1/activate'),
  ];
  expect(answers.map(({ status }) => status)).toEqual([200, 422, 409, 200, 200]);
  for (const path of ['', '/llm-connections', '/namespaces', '/revisions', '/revisions/active', '/revisions/1']) {
    answers.push(await get(path));
  }
  const lines = [...it.api.log];
  const unknown = evaluatorDefinition('e');
  await restart({
    configured: [evaluatorDefinition('d'), { ...unknown, llm: { ...unknown.llm, connection: 'none' } }],
  });
  answers.push(await get());
  lines.push(...it.api.log);
  expect(lines.join('')).toContain('evaluators replaced');
  const kept = await readFile(join(folder, 'records.snapshot'), 'utf8');
  expect(kept).toContain('connection\\":\\"model');
  const told = [...answers.map(({ text }) => text), ...lines, kept].join('\n');
  for (const secret of SECRETS) expect(told).not.toContain(secret);
  expect(JSON.stringify(CONNECTIONS)).toContain(SECRETS[0]);
});
