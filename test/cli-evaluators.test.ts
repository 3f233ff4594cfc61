import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, beforeEach, expect, test } from 'vitest';
import { run } from '../packages/cli/src/run.ts';
import { scriptedTerminal } from '../packages/cli/src/testing/scripted-terminal.ts';
import { listen } from '../packages/server/src/http/client/listening.fixture.ts';
import { type SharedApi, startSharedApi } from '../packages/server/src/management/api.fixture.ts';
import { ActionCompiler } from '../packages/server/src/policy/sandbox/compiler.ts';
import { toolchains } from '../packages/server/src/policy/sandbox/fixtures/ordinary-actions.ts';
import { cells, type Outcome } from './fixtures/command-line.ts';

const KEY = 'sk-s3cret';
const CONNECTIONS = [
  { name: 'remote', model: 'hidden-model', url: 'http://hidden.example/v1', apiKey: KEY },
  { name: 'local', model: 'hidden-model', url: 'http://127.0.0.1:9/v1' },
];

const GATE = {
  name: 'gate',
  trigger: { method: 'tools/call', namespace: 'finance' },
  llm: { operation: 'classify', prompt: 'Is it safe?', connection: 'local' },
  processor: { path: 'ordinary.wasm' },
  on_error: 'block',
};
const NOTES = { ...GATE, name: 'notes', trigger: { method: 'resources/read' }, on_error: undefined };
const BROKEN = { ...GATE, name: 'broken', processor: { path: 'broken.wasm' } };

const HEAD = ['NAME', 'METHOD', 'NAMESPACE', 'OPERATION', 'CONNECTION', 'ON ERROR', 'ACTION'];
const GATE_ROW = ['gate', 'tools/call', 'finance', 'classify', 'local', 'block', 'ordinary.wasm'];
const NOTES_ROW = ['notes', 'resources/read', '-', 'classify', 'local', 'continue', 'ordinary.wasm'];

let folder: string;
let api: SharedApi;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-cli-evaluators-'));
  await file('ordinary.wasm', await toolchains.wat());
  await file('broken.wasm', 'no component');
  const compiling = new ActionCompiler();
  api = await startSharedApi({ evaluators: { connections: CONNECTIONS, baseFolder: folder, compiling } });
  return async () => {
    await api.close();
    await compiling.close();
    await rm(folder, { recursive: true });
  };
});

beforeEach(async () => {
  await apply([]);
});

/** Writes a file into the working directory of commands, which is also the folder of actions; returns its name. */
async function file(name: string, content: string | Uint8Array): Promise<string> {
  await writeFile(join(folder, name), content);
  return name;
}

async function sluice(argv: readonly string[], input = ''): Promise<Outcome> {
  const terminal = scriptedTerminal({ cwd: folder, input });
  const code = await run(['--host', api.url, '--no-auth', ...argv], terminal);
  return { code, out: terminal.out(), err: terminal.err() };
}

const evaluators = (...argv: string[]) => sluice(['evaluators', ...argv]);

async function json(...argv: string[]): Promise<unknown> {
  const { code, out, err } = await evaluators(...argv, '--output', 'json');
  expect([code, err]).toEqual([0, '']);
  return JSON.parse(out);
}

/** Applies them, which must go well; the number of the revision. */
async function apply(list: readonly object[]): Promise<number> {
  const { code, err } = await sluice(['evaluators', 'apply', '-f', '-'], JSON.stringify(list));
  const [, revision] = /^(?:no evaluators\n)?revision (\d+) is active\n$/.exec(err) ?? [];
  expect([code, revision], err).toEqual([0, expect.any(String)]);
  return Number(revision);
}

test('connections are listed by name only', async () => {
  const { code, out, err } = await evaluators('connections', '--verbose');
  expect([code, cells(out)]).toEqual([0, [['CONNECTION'], ['local'], ['remote']]]);
  expect(await json('connections')).toEqual(['local', 'remote']);
  expect(out + err).not.toMatch(/hidden|s3cret/);
});

test('a file replaces the active evaluators, which are then printed', async () => {
  await file('two.yaml', `evaluators:\n- ${JSON.stringify(GATE)}\n- ${JSON.stringify(NOTES)}\n`);
  const applied = await evaluators('apply', '-f', 'two.yaml');
  expect(applied).toMatchObject({ code: 0, err: expect.stringMatching(/^revision \d+ is active\n$/) });
  expect(cells(applied.out)).toEqual([HEAD, GATE_ROW, NOTES_ROW]);
  expect(await evaluators('get')).toEqual({ code: 0, out: applied.out, err: '' });

  const one = await evaluators('apply', '-f', await file('one.json', JSON.stringify([NOTES])), '--output', 'json');
  expect(one).toMatchObject({ code: 0, err: '' });
  expect(JSON.parse(one.out)).toMatchObject([{ name: 'notes', trigger: { namespace: null }, on_error: 'continue' }]);
  expect(await json('get')).toEqual(JSON.parse(one.out));
  await apply([]);
  expect(await evaluators('get')).toEqual({ code: 0, out: '', err: 'no evaluators\n' });
});

test('an evaluator that does not compile rejects the update', async () => {
  await apply([NOTES]);
  const { code, out, err } = await sluice(['evaluators', 'apply', '-f', '-'], JSON.stringify([GATE, BROKEN]));
  expect([code, out]).toEqual([1, '']);
  expect(err).toMatch(/^sluice: .*evaluators\.1\.processor\.path .*\(422 UNPROCESSABLE\)\n/);
  expect(await json('get')).toMatchObject([{ name: 'notes' }]);
});

test('a trigger that cannot match is a warning', async () => {
  const never = { ...GATE, trigger: { method: 'initialize' } };
  const { code, out, err } = await sluice(['evaluators', 'apply', '-f', '-'], JSON.stringify([never]));
  expect([code, cells(out).length]).toEqual([0, 2]);
  expect(err).toMatch(
    /^revision \d+ is active\nwarning: evaluator gate may never match: "initialize" is never evaluated\n$/,
  );
});

test('with --allow-broken, an evaluator that does not compile is skipped with a warning and an exit code', async () => {
  const name = await file('three.json', JSON.stringify([GATE, BROKEN, NOTES]));
  const { code, out, err } = await evaluators('apply', '-f', name, '--allow-broken');
  expect(cells(out)).toEqual([HEAD, GATE_ROW, NOTES_ROW]);
  expect(err).toMatch(
    /^revision \d+ is active\nwarning: evaluator broken was skipped and is not active: broken\.wasm: .+\n$/,
  );
  expect(code).toBe(1);

  const asJson = await evaluators('apply', '-f', name, '--allow-broken', '--output', 'json');
  expect(JSON.parse(asJson.out)).toMatchObject([{ name: 'gate' }, { name: 'notes' }]);
  expect(asJson.err).toMatch(/^warning: evaluator broken was skipped and is not active: .+\n$/);
  expect(asJson.code).toBe(1);

  const got = await evaluators('get');
  expect(got).toMatchObject({
    code: 0,
    err: 'warning: evaluator broken was skipped and is not active: run apply to see why\n',
  });
});

test('invisible characters in names are escaped', async () => {
  const named = { ...BROKEN, name: 'bro\u202eken' };
  const applied = await sluice(['evaluators', 'apply', '-f', '-', '--allow-broken'], JSON.stringify([named]));
  for (const { err } of [applied, await evaluators('get')]) {
    expect(err).toContain('warning: evaluator bro\\u202eken was skipped and is not active: ');
  }
});

test('an update rejected by the service prints its message and changes nothing', async () => {
  await apply([GATE]);
  const unknown = { ...NOTES, llm: { ...NOTES.llm, connection: 'nowhere' } };
  const rejected = await sluice(['evaluators', 'apply', '-f', '-'], JSON.stringify([unknown]));
  expect(rejected).toMatchObject({
    code: 1,
    out: '',
    err: expect.stringMatching(/^sluice: .*\(422 UNPROCESSABLE\)\n/),
  });
  expect(rejected.err).toContain('llm.connection');
  expect(await json('get')).toMatchObject([{ name: 'gate' }]);
});

test('a key beside a prompt is neither sent nor printed', async () => {
  const before = await json('revisions', 'list');
  const inline = { ...GATE, llm: { ...GATE.llm, api_key: KEY } };
  const rejected = await sluice(['evaluators', 'apply', '-f', '-', '--verbose'], JSON.stringify([inline]));
  expect(rejected).toMatchObject({ code: 1, out: '' });
  expect(rejected.err).toMatch(
    /^sluice: standard input: invalid, nothing was sent\n {2}evaluators\.0\.llm\.api_key: is not a known field; .*\n$/,
  );
  expect(rejected.err).not.toContain(KEY);
  expect(await json('revisions', 'list')).toEqual(before);
});

test('an update that expects another revision is rejected', async () => {
  const first = await apply([GATE]);
  const body = await file('notes.json', JSON.stringify([NOTES]));
  const stale = await evaluators('apply', '-f', body, '--expected-revision', String(first - 1));
  expect(stale).toMatchObject({ code: 1, out: '', err: expect.stringMatching(/^sluice: .*\(409 CONFLICT\)\n/) });
  expect(await evaluators('revisions', 'activate', String(first), '--expected-revision', '0')).toMatchObject({
    code: 1,
    out: '',
    err: expect.stringContaining('(409 CONFLICT)'),
  });
  expect(await json('get')).toMatchObject([{ name: 'gate' }]);
  const none = await evaluators('apply', '-f', body, '--expected-revision', '0');
  expect(none).toMatchObject({ code: 1, err: expect.stringContaining('(409 CONFLICT)') });
  // The option takes precedence over the file.
  const both = await file('both.json', JSON.stringify({ evaluators: [NOTES], expected_revision: first - 1 }));
  expect(await evaluators('apply', '-f', both)).toMatchObject({ code: 1 });
  expect(await evaluators('apply', '-f', both, '--expected-revision', String(first))).toMatchObject({
    code: 0,
    err: `revision ${first + 1} is active\n`,
  });
});

test('revisions are listed, shown and reactivated', async () => {
  const schema = '{"type":"integer","maximum":9223372036854775807}';
  const gate = JSON.stringify([GATE]).replace('"prompt"', `"result_schema":${schema},"prompt"`);
  const applied = await sluice(['evaluators', 'apply', '-f', '-'], gate);
  const first = Number(/\d+/.exec(applied.err)?.[0]);
  const second = await apply([NOTES]);
  expect(second).toBe(first + 1);

  const listed = cells((await evaluators('revisions', 'list')).out);
  expect(listed[0]).toEqual([
    'REVISION',
    'STATUS',
    'CREATED',
    'ACTIVATED',
    'ORIGIN',
    'BY',
    'CHECKSUM',
    'REJECTED BECAUSE',
  ]);
  expect(listed.slice(1, 3).map(([id, status, , , origin]) => [id, status, origin])).toEqual([
    [String(second), 'active', 'api'],
    [String(first), 'superseded', 'api'],
  ]);
  expect(await json('revisions', 'show', String(first))).toMatchObject({ id: first, evaluators: [{ name: 'gate' }] });
  expect(await json('revisions', 'show', 'active')).toMatchObject({ id: second, evaluators: [{ name: 'notes' }] });
  expect((await evaluators('revisions', 'show', String(first))).out).toContain('maximum: 9223372036854775807');

  const active = await evaluators('revisions', 'activate', String(first), '--expected-revision', String(second));
  expect(active).toMatchObject({ code: 0, err: `revision ${second + 1} is active\n` });
  expect(cells(active.out)).toEqual([HEAD, GATE_ROW]);

  // The output is a valid file for `apply`.
  for (const argv of [['get'], ['revisions', 'show', String(first)]]) {
    const { out } = await evaluators(...argv, '--output', 'json');
    expect(out).toContain('9223372036854775807');
    expect((await sluice(['evaluators', 'apply', '-f', '-'], out)).out).toBe(active.out);
  }

  expect(await evaluators('revisions', 'show', '9999')).toMatchObject({
    code: 1,
    out: '',
    err: expect.stringContaining('(404 NOT_FOUND)'),
  });
  expect(await evaluators('revisions', 'activate', '9999')).toMatchObject({
    code: 1,
    err: expect.stringContaining('(404 NOT_FOUND)'),
  });
});

test('the revision is printed even if a proxy has weakened its ETag', async () => {
  const proxy = createServer((_request, response) => {
    response.setHeader('content-type', 'application/json').setHeader('etag', 'W/"7"').end('{"data":[],"error":null}');
  });
  const terminal = scriptedTerminal({ input: '[]' });
  const host = `http://127.0.0.1:${await listen(proxy)}`;
  expect(await run(['--host', host, '--no-auth', 'evaluators', 'apply', '-f', '-'], terminal)).toBe(0);
  expect(terminal.err()).toBe('no evaluators\nrevision 7 is active\n');
});

test('a revision number must be a whole number and is not rounded', async () => {
  for (const [least, ...argv] of [
    [1, 'show', '0'],
    [1, 'activate', '0'],
    [1, 'show', '9007199254740993'],
    [0, 'activate', '1', '--expected-revision', '9007199254740993'],
    [0, 'activate', '1', '--expected-revision', '1.0'],
  ] as const) {
    expect(await evaluators('revisions', ...argv), argv.join(' ')).toMatchObject({
      code: 1,
      out: '',
      err: expect.stringContaining(`Expected a whole number from ${least}`),
    });
  }
});

test('namespaces are bound to conversations and unbound', async () => {
  expect(await evaluators('bindings')).toEqual({ code: 0, out: '', err: 'no bindings\n' });
  expect(await evaluators('bind', 'finance', 'c-17')).toEqual({
    code: 0,
    out: 'bound namespace finance to conversation c-17\n',
    err: '',
  });
  expect(await json('bind', 'ops', 'c 18')).toEqual({ namespace: 'ops', conversation_id: 'c 18' });
  expect(cells((await evaluators('bindings')).out)).toEqual([
    ['NAMESPACE', 'CONVERSATION'],
    ['finance', 'c-17'],
    ['ops', 'c 18'],
  ]);
  expect(await json('bindings')).toEqual({ finance: 'c-17', ops: 'c 18' });
  expect(await evaluators('bind', 'ops', '')).toMatchObject({
    code: 1,
    err: expect.stringMatching(/^sluice: .*conversation_id.* \(400 BAD_REQUEST\)\n/),
  });
  expect((await evaluators('bind', ' finance ', 'c-17')).out).toBe('bound namespace finance to conversation c-17\n');
  expect(await evaluators('bind', 'Finance', 'c-17')).toMatchObject({ code: 1, err: expect.not.stringContaining('(') });
  expect(await evaluators('unbind', 'Finance')).toMatchObject({ code: 1, err: expect.not.stringContaining('(') });
  for (const namespace of [' finance ', 'finance', 'ops', 'ops']) {
    expect(await evaluators('unbind', namespace)).toEqual({
      code: 0,
      out: `unbound namespace ${namespace.trim()}\n`,
      err: '',
    });
  }
  expect(await json('unbind', 'ops')).toEqual({ unbound: 'ops' });
  expect(await json('bindings')).toEqual({});
});

test('the shell completes namespaces and numbers of revisions', async () => {
  const revision = await apply([GATE]);
  const complete = async (...words: string[]) =>
    (await sluice(['complete', 'zsh', '--', '--host', api.url, '--no-auth', 'evaluators', ...words])).out;
  expect(await complete('bind', 'def')).toBe('default\n');
  expect(await complete('revisions', 'activate', String(revision))).toBe(`${revision}\n`);
});
