import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { evaluatorDefinition } from '../policy/fixtures/evaluator-definition.ts';
import type { RevisionStore } from '../registry/store/revision-store.ts';
import { NO_REVISIONS } from '../registry/store/revisions.ts';
import { CONNECTIONS, namesIn, startEvaluatorApi, warningsIn } from './evaluators.fixture.ts';

const ISO = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);

/** Stores revisions across restarts like a file, without the delays of a disk. */
function keptByTest(): RevisionStore {
  let kept = NO_REVISIONS;
  return {
    load: async () => kept,
    save: async (revisions) => {
      kept = revisions;
    },
  };
}

describe('revisions', () => {
  test('list the status of every submission, newest first, without its evaluators', async (context) => {
    const { get, put } = await startEvaluatorApi(context);
    expect((await get('/revisions')).data).toEqual([]);
    await put([evaluatorDefinition('a'), evaluatorDefinition('b', 'broken.wasm')], {}, { 'x-forwarded-user': 'ann' });
    await put([evaluatorDefinition('')]);
    await put([evaluatorDefinition('c')]);
    const metadata = {
      created_at: ISO,
      checksum: expect.stringMatching(/^[0-9a-f]{16}$/),
      origin: 'api',
    };
    const { data } = await get('/revisions');
    expect(data).toEqual([
      { id: 3, ...metadata, activated_at: ISO, status: 'active' },
      { id: 2, ...metadata, status: 'rejected', failure_reason: 'evaluators.0.name must not be empty' },
      { id: 1, ...metadata, activated_at: ISO, status: 'superseded', actor: 'ann' },
    ]);
    const [newest, , oldest] = Object(data);
    expect((await get('/revisions/1')).data).toEqual({
      ...oldest,
      evaluators: [evaluatorDefinition('a'), evaluatorDefinition('b', 'broken.wasm')],
      skipped: ['b'],
    });
    const active = { ...newest, evaluators: [evaluatorDefinition('c')], skipped: [] };
    expect((await get('/revisions/3')).data).toEqual(active);
    expect((await get('/revisions/active')).data).toEqual(active);
  });

  test('are returned exactly as submitted, before and after a restart', async (context) => {
    const { api, get, restart } = await startEvaluatorApi(context);
    const schema = '{"b":1.0,"a":[9007199254740993,-0,1E2,{}],"\\"\\u001fé😀":{"__proto__":null}}';
    const told =
      `[{"name":"a","trigger":{"method":"m","namespace":null},"llm":{"operation":"classify","prompt":"\\\\ \\n€",` +
      `"connection":"model","result_schema":${schema}},"processor":{"path":"broken.wasm"},"on_error":"continue"}]`;
    const body = `{ "evaluators": ${told.replace('€', '\\u20ac').replace(',"on_error":"continue"', ', "more": 1')} }`;
    await api.call('PUT', '/api/v1/evaluators', body, { 'x-forwarded-user': 'ann' });
    await api.call('PUT', '/api/v1/evaluators', body.replace('"model"', '"none"'));
    await api.call('POST', '/api/v1/evaluators/revisions/1/activate');
    const { data } = await get('/revisions');
    for (const starts of [1, 2]) {
      for (const [id, content, skipped] of [
        [1, told, '["a"]'],
        [2, told.replace('"model"', '"none"'), '[]'],
        [3, told, '["a"]'],
      ] as const) {
        const metadata = JSON.stringify(Object(data)[3 - id]).slice(0, -1);
        const text = `{"data":${metadata},"evaluators":${content},"skipped":${skipped}},"error":null}`;
        expect((await get(`/revisions/${id}`)).text, `${id}, start ${starts}`).toBe(text);
      }
      await restart();
    }
  });

  test.for([
    // Neither user: the client may have sent one of them.
    [{ 'x-forwarded-user': 'ann', 'x-auth-request-user': 'bob' }, '["ann","bob"]'],
    [{ 'x-auth-request-user': 'bob' }, 'bob'],
    [{ 'x-forwarded-user': 'ann', 'x-auth-request-user': 'ann' }, 'ann'],
    [{ 'x-forwarded-user': 'a'.repeat(300) }, 'a'.repeat(256)],
    [{ 'x-forwarded-user': 'a'.repeat(257) }, 'a'.repeat(256)],
    [{}, undefined],
  ] as const)('contain the actor, from %j', async ([headers, actor], context) => {
    const { api, get, put } = await startEvaluatorApi(context);
    await put([], {}, { ...headers });
    await api.call('POST', '/api/v1/evaluators/revisions/1/activate', {}, { ...headers });
    for (const id of [1, 2]) expect(Object((await get(`/revisions/${id}`)).data).actor).toBe(actor);
  });

  test('that do not exist are 404, for any number', async (context) => {
    const { api, get, put } = await startEvaluatorApi(context);
    expect((await get('/revisions/active')).error).toEqual({ code: 'NOT_FOUND', message: 'no revision is active' });
    await put([]);
    for (const id of ['0', '2', '01', '1.0', '+1', '1e0', '-1', 'x', '99999999999999999999']) {
      const message = `revision not found: ${id}`;
      expect((await get(`/revisions/${id}`)).error, id).toEqual({ code: 'NOT_FOUND', message });
      const activation = await api.call('POST', `/api/v1/evaluators/revisions/${id}/activate`);
      expect(activation.error, id).toEqual({ code: 'NOT_FOUND', message });
    }
    expect((await api.call('POST', '/api/v1/evaluators/revisions/active/activate')).status).toBe(404);
    expect((await get('/revisions')).data).toHaveLength(1);
  });

  test('are limited to 50 including the active one, also after a restart', async (context) => {
    const { get, put, restart } = await startEvaluatorApi(context, { revisions: keptByTest() });
    await put([evaluatorDefinition('first')]);
    await put([evaluatorDefinition('active')]);
    for (let count = 0; count < 60; count++) expect((await put([evaluatorDefinition('')])).status).toBe(422);
    for (let starts = 0; starts < 2; starts++) {
      const { data } = await get('/revisions');
      const ids = Object(data).map(({ id }: { id: number }) => id);
      expect(ids).toEqual([...Array.from({ length: 49 }, (_, index) => 62 - index), 2]);
      expect((await get('/revisions/1')).status).toBe(404);
      expect(namesIn(await get())).toEqual(['active']);
      await restart();
    }
  });
});

describe('activation', () => {
  test('creates a new revision from an old one, and responds like a submission', async (context) => {
    const { api, compiler, folder, get, put } = await startEvaluatorApi(context);
    await put([evaluatorDefinition('a'), evaluatorDefinition('b', 'broken.wasm')]);
    await put([]);
    const answer = await api.call('POST', '/api/v1/evaluators/revisions/1/activate', { expected_revision: 2 });
    expect(answer.status).toBe(200);
    expect(namesIn(answer)).toEqual(['a']);
    expect(answer.headers.etag).toBe('"3"');
    expect(warningsIn(answer)).toMatchObject([{ evaluator: 'b', code: 'WASM_COMPILE_FAILED' }]);
    const [first, , third] = [1, 2, 3].map(async (id) => Object((await get(`/revisions/${id}`)).data));
    expect(await third).toMatchObject({ status: 'active', origin: 'api', skipped: ['b'] });
    expect(await first).toMatchObject({ status: 'superseded', checksum: (await third).checksum });

    // Its actions are compiled again.
    await writeFile(join(folder, 'broken.wasm'), 'ok again');
    const whole = await api.call('POST', '/api/v1/evaluators/revisions/1/activate');
    expect(namesIn(whole)).toEqual(['a', 'b']);
    expect(JSON.parse(whole.text)).not.toHaveProperty('warnings');
    expect(compiler.compiled).toContain('ok again');
  });

  test('is 409 if the active revision is not the expected one', async (context) => {
    const { api, get, put } = await startEvaluatorApi(context);
    await put([evaluatorDefinition('a')]);
    await put([evaluatorDefinition('b')]);
    const answer = await api.call('POST', '/api/v1/evaluators/revisions/1/activate', { expected_revision: 1 });
    expect(answer.status).toBe(409);
    expect(answer.error).toMatchObject({ details: { expected_revision: 1, active_revision: 2 } });
    expect(namesIn(await get())).toEqual(['b']);
    expect((await get('/revisions')).data).toHaveLength(2);
  });

  test('is 409 if the active revision is not that of If-Match, and 400 for an invalid one', async (context) => {
    const { api, get, put } = await startEvaluatorApi(context);
    await put([evaluatorDefinition('a')]);
    await put([evaluatorDefinition('b')]);
    const activate = (ifMatch: string, body: object = {}, id = '1') =>
      api.call('POST', `/api/v1/evaluators/revisions/${id}/activate`, body, { 'if-match': ifMatch });
    expect((await activate('"1"')).error).toMatchObject({ details: { expected_revision: 1, active_revision: 2 } });
    expect((await activate('"2"', { expected_revision: 1 })).status).toBe(409);
    expect((await activate('2')).status).toBe(400);
    expect((await activate('2', {}, 'x')).status).toBe(400);
    expect((await activate('"2"', {}, '9')).status).toBe(404);
    expect((await get('/revisions')).data).toHaveLength(2);
    expect((await activate('"2"', { expected_revision: 2 })).headers.etag).toBe('"3"');
    expect((await activate('*')).headers.etag).toBe('"4"');
  });

  test('is 422 if a connection no longer exists, and creates a rejected revision', async (context) => {
    const it = await startEvaluatorApi(context);
    const { get, put, restart } = it;
    const one = evaluatorDefinition('a');
    await put([{ ...one, llm: { ...one.llm, connection: 'another' } }]);
    await put([evaluatorDefinition('b')]);
    await restart({ connections: CONNECTIONS.slice(0, 1) });
    const answer = await it.api.call('POST', '/api/v1/evaluators/revisions/1/activate');
    expect(answer.status).toBe(422);
    const reason =
      'evaluators.0.llm.connection is an unknown connection "another"; known connections: model in llm_connections of the bootstrap file';
    expect(answer.error).toMatchObject({ message: `revision 1 cannot be activated: ${reason}` });
    expect(namesIn(await get())).toEqual(['b']);
    expect((await get('/revisions/3')).data).toMatchObject({ status: 'rejected', failure_reason: reason });
  });

  test('is 422 if an action is now outside of SERVICE_ACTIONS_PATH', async (context) => {
    const it = await startEvaluatorApi(context);
    const { folder, get, put, restart } = it;
    await put([evaluatorDefinition('a')]);
    await put([]);
    await mkdir(join(folder, 'inside'));
    await restart({ actionsPath: join(folder, 'inside') });
    const answer = await it.api.call('POST', '/api/v1/evaluators/revisions/1/activate');
    expect(answer.status).toBe(422);
    expect((await get('/revisions/active')).data).toMatchObject({ id: 2 });
  });

  test('requires no body, but rejects an invalid one', async (context) => {
    const { api, put } = await startEvaluatorApi(context);
    await put([]);
    const path = '/api/v1/evaluators/revisions/1/activate';
    for (const body of [undefined, '', ' ', '{}', '{"more":1}']) {
      expect((await api.call('POST', path, body)).status, String(body)).toBe(200);
    }
    for (const body of ['{', '[]', '{"expected_revision":"1"}', '{"expected_revision":-1}']) {
      expect((await api.call('POST', path, body)).status, body).toBe(400);
    }
  });
});

describe('after a restart', () => {
  test('the active revision is active, and the others are listed', async (context) => {
    const { get, put, restart } = await startEvaluatorApi(context);
    await put([evaluatorDefinition('a')]);
    await put([evaluatorDefinition('b'), evaluatorDefinition('c', 'broken.wasm')]);
    await put([evaluatorDefinition('')]);
    const before = [await get(), await get('/revisions'), await get('/revisions/active')];
    await restart();
    const after = [await get(), await get('/revisions'), await get('/revisions/active')];
    expect(after.map(({ text }) => text)).toEqual(before.map(({ text }) => text));
    expect(after[0]?.headers.etag).toBe('"2"');
    expect((await put([], { expected_revision: 2 })).headers.etag).toBe('"4"');
  });

  test('evaluators that cannot be loaded anymore are skipped, with a warning in the log', async (context) => {
    const it = await startEvaluatorApi(context);
    const one = evaluatorDefinition('b');
    await it.put([
      evaluatorDefinition('a'),
      { ...one, llm: { ...one.llm, connection: 'another' } },
      evaluatorDefinition('c'),
    ]);
    await writeFile(join(it.folder, 'ok.wasm'), 'not any more');
    await it.restart({ connections: CONNECTIONS.slice(0, 1) });
    expect((await it.get()).data).toEqual([]);
    expect((await it.get()).headers.etag).toBe('"1"');
    for (const line of [
      'evaluator \\"a\\" skipped: ok.wasm: is not a component',
      'evaluator \\"b\\" skipped: llm.connection is an unknown connection \\"another\\"; known connections: model in llm_connections of the bootstrap file',
      'evaluator \\"c\\" skipped: ok.wasm: is not a component',
    ]) {
      expect(it.api.log.join('')).toContain(line);
    }
  });
});

describe('a set in the bootstrap file', () => {
  test('becomes the active revision, without evaluators that cannot be loaded', async (context) => {
    const bad = [
      evaluatorDefinition('a', 'broken.wasm'),
      evaluatorDefinition('b'),
      evaluatorDefinition('b'),
      { ...evaluatorDefinition('c') },
    ];
    const { api, get } = await startEvaluatorApi(context, { configured: bad });
    expect(namesIn(await get())).toEqual(['b', 'c']);
    expect((await get('/revisions/active')).data).toMatchObject({
      id: 1,
      status: 'active',
      origin: 'startup',
      evaluators: { length: 4 },
      // Of two evaluators named `b`, the first is used.
      skipped: ['a'],
    });
    expect(Object((await get('/revisions/1')).data)).not.toHaveProperty('actor');
    expect(api.log.join('')).toContain('evaluator \\"b\\" skipped: name is the name of an earlier evaluator');
    expect(api.log.join('')).toContain('evaluator \\"a\\" skipped: broken.wasm: is not a component');
  });

  test('that equals that of the last start does not replace a later active revision', async (context) => {
    const configured = [evaluatorDefinition('configured')];
    const { get, put, restart } = await startEvaluatorApi(context, { configured });
    await put([evaluatorDefinition('changed')]);
    await restart();
    expect(namesIn(await get())).toEqual(['changed']);
    expect((await get('/revisions')).data).toHaveLength(2);
    // The order of members has no meaning.
    const { name, ...rest } = evaluatorDefinition('configured');
    await restart({ configured: [{ ...rest, name }] });
    expect(namesIn(await get())).toEqual(['changed']);
  });

  test('that differs replaces a later active revision', async (context) => {
    const { get, put, restart } = await startEvaluatorApi(context, { configured: [evaluatorDefinition('configured')] });
    await put([evaluatorDefinition('changed')]);
    await restart({ configured: [evaluatorDefinition('new')] });
    expect(namesIn(await get())).toEqual(['new']);
    expect((await get('/revisions/3')).data).toMatchObject({ status: 'active', origin: 'startup' });
    // Back to the first: it differs from the latest revision of the configuration.
    await restart({ configured: [evaluatorDefinition('configured')] });
    expect(namesIn(await get())).toEqual(['configured']);
    expect((await get()).headers.etag).toBe('"4"');
  });

  test('that is missing leaves the active revision; an empty one deletes all evaluators', async (context) => {
    const { get, restart } = await startEvaluatorApi(context, { configured: [evaluatorDefinition('configured')] });
    await restart({});
    expect(namesIn(await get())).toEqual(['configured']);
    await restart({ configured: [] });
    expect((await get()).data).toEqual([]);
    expect((await get()).headers.etag).toBe('"2"');
  });

  test('is recognized after 50 other revisions', async (context) => {
    const configured = [evaluatorDefinition('configured')];
    const { get, put, restart } = await startEvaluatorApi(context, { configured, revisions: keptByTest() });
    for (let count = 0; count < 55; count++) await put([evaluatorDefinition('changed')]);
    await restart();
    expect(namesIn(await get())).toEqual(['changed']);
    expect((await get('/revisions')).data).toHaveLength(50);
  });
});

describe('a failed write', () => {
  // A folder in place of the file, since root may write everywhere.
  test.for([
    ['a submission', (it: Awaited<ReturnType<typeof startEvaluatorApi>>) => it.put([evaluatorDefinition('b')])],
    ['a rejected one', (it: Awaited<ReturnType<typeof startEvaluatorApi>>) => it.put([evaluatorDefinition('')])],
    [
      'an activation',
      ({ api }: Awaited<ReturnType<typeof startEvaluatorApi>>) =>
        api.call('POST', '/api/v1/evaluators/revisions/1/activate'),
    ],
  ] as const)('%s is 500 and changes nothing, now or after a restart', async ([_what, send], context) => {
    const it = await startEvaluatorApi(context);
    await it.put([evaluatorDefinition('a')]);
    await it.restart();
    // The next commit begins the journal after the compaction of the start.
    const path = join(it.folder, 'records.journal.2');
    const before = await readFile(join(it.folder, 'records.snapshot'), 'utf8');
    await mkdir(path);
    const answer = await send(it);
    expect(answer.status).toBe(500);
    expect(answer.text).not.toContain(it.folder);
    expect(it.api.log.join('')).toContain('records.journal.2 could not be written: E');
    expect(await readFile(join(it.folder, 'records.snapshot'), 'utf8')).toBe(before);
    expect(namesIn(await it.get())).toEqual(['a']);
    expect((await it.get('/revisions')).data).toHaveLength(1);
    await rm(path, { recursive: true });
    await it.restart();
    expect(namesIn(await it.get())).toEqual(['a']);
    expect((await it.put([evaluatorDefinition('b')])).headers.etag).toBe('"2"');
  });
});
