import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { startTestService, type TestService } from '../../testing/service.ts';
import { evaluatorDefinition } from './fixtures/evaluator-definition.ts';
import { ordinaryWat } from './sandbox/fixtures/ordinary-wat.ts';
import { componentOfCore } from './sandbox/fixtures/wat-component.ts';

const SECRETS = ['sk-S3CRET', 's3cret-model', 's3cret-host'] as const;
const [api_key, model, host] = SECRETS;
const llm_connections = [{ name: 'model', model, url: `http://${host}.invalid/v1`, api_key }];

let component: Uint8Array;
beforeAll(async () => {
  component = await componentOfCore(ordinaryWat);
});

let folder: string;
let service: TestService | undefined;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-start-up-'));
  await mkdir(join(folder, 'actions'));
  await writeFile(join(folder, 'actions/guard.wasm'), component);
  await writeFile(join(folder, 'actions/core.wasm'), '\0asm\x01\0\0\0');
});
afterEach(async () => {
  await service?.stop(0);
  service = undefined;
  await rm(folder, { recursive: true });
});

/** Starts the service with this configuration, after the previous one has exited. */
async function start(content: object, env: Record<string, string> = {}): Promise<TestService> {
  await service?.stop(0);
  service = undefined;
  const file = join(folder, 'service.yaml');
  await writeFile(file, JSON.stringify({ llm_connections, ...content }));
  const persistence = { SERVICE_PERSIST_BACKEND: 'file', SERVICE_PERSIST_PATH: join(folder, 'registry') };
  service = await startTestService({ ...persistence, ...env }, ['--service-config', file]);
  return service;
}

async function names(of: TestService): Promise<string[]> {
  const { data } = await of.manage('GET', '/evaluators');
  if (!Array.isArray(data)) throw new Error('not a list');
  return data.map(({ name }: { name: string }) => name);
}

const GUARD = evaluatorDefinition('guard', 'actions/guard.wasm');

it('the evaluators of the bootstrap file are compiled before the service listens, and invalid ones are skipped', async () => {
  const unknown = evaluatorDefinition('unknown', 'actions/guard.wasm');
  const evaluators = [
    GUARD,
    evaluatorDefinition('core', 'actions/core.wasm'),
    evaluatorDefinition('gone', 'actions/gone.wasm'),
    { ...unknown, llm: { ...unknown.llm, connection: 'none' } },
    { ...evaluatorDefinition('again', 'actions/guard.wasm'), trigger: { method: 'tools/list' } },
  ];
  const running = await start({ evaluators });
  expect(await names(running)).toEqual(['guard', 'again']);
  expect((await running.manage('GET', '/metrics')).data).toMatchObject({
    gauges: { evaluators_loaded: 2, evaluators_skipped: 3, wasm_compiled: 1, namespace_bindings: 0 },
  });
  await running.manage('PUT', '/evaluators/namespaces/default', { conversation_id: 'c' });
  expect((await running.manage('GET', '/metrics')).data).toMatchObject({ gauges: { namespace_bindings: 1 } });
  for (const name of ['core', 'gone', 'unknown']) {
    const line = running.log.find((text) => text.includes(`evaluator \\"${name}\\" skipped: `));
    expect(JSON.parse(line ?? '{}')).toMatchObject({ target: 'service::evaluator', evaluator: name });
  }
});

it('invalid evaluators and unreachable triggers are logged at startup', async () => {
  const { trigger: _, ...noTrigger } = evaluatorDefinition('no trigger', 'actions/guard.wasm');
  const misspelled = {
    ...evaluatorDefinition('misspelled', 'actions/guard.wasm'),
    trigger: { method: 'initialize', namespace: 'financ' },
  };
  const meant = {
    ...evaluatorDefinition('meant', 'actions/guard.wasm'),
    trigger: { method: 'tools/call', namespace: 'finance' },
  };
  const running = await start({ namespaces: ['finance'], evaluators: [noTrigger, GUARD, GUARD, misspelled, meant] });
  expect(await names(running)).toEqual(['guard', 'misspelled', 'meant']);
  expect((await running.manage('GET', '/evaluators/revisions/active')).data).toMatchObject({ skipped: ['no trigger'] });
  expect(running.log.filter((line) => line.includes('may never match'))).toEqual([
    expect.stringContaining(
      'evaluator \\"misspelled\\" may never match: \\"initialize\\" is never evaluated; namespace \\"financ\\" does not exist',
    ),
  ]);
});

it('a submitted set is active after a restart, unless the bootstrap file has a new one', async () => {
  let running = await start({ evaluators: [GUARD] });
  const submitted = { evaluators: [evaluatorDefinition('submitted', 'actions/guard.wasm')] };
  expect((await running.manage('PUT', '/evaluators', submitted)).status).toBe(200);
  running = await start({ evaluators: [GUARD] });
  expect(await names(running)).toEqual(['submitted']);
  running = await start({});
  expect(await names(running)).toEqual(['submitted']);
  running = await start({ evaluators: { evaluators: [] } });
  expect(await names(running)).toEqual([]);
  expect((await running.manage('GET', '/evaluators/revisions')).data).toMatchObject([{ id: 3 }, { id: 2 }, { id: 1 }]);
});

it('without persistence nothing is stored', async () => {
  const env = { SERVICE_PERSIST_BACKEND: 'none' };
  let running = await start({ evaluators: [GUARD] }, env);
  expect((await running.manage('GET', '/evaluators/revisions')).data).toHaveLength(1);
  running = await start({}, env);
  expect((await running.manage('GET', '/evaluators/revisions')).data).toEqual([]);
  expect(await readdir(folder)).not.toContain('registry');
});

it('a corrupt file of records is renamed if configured, else startup fails with its name', async () => {
  await start({ evaluators: [GUARD] });
  await service?.stop(0);
  const file = join(folder, 'registry/records.snapshot');
  await writeFile(file, '{"revisions":[');
  await expect(start({})).rejects.toThrow('records.snapshot');
  const running = await start({}, { SERVICE_PERSIST_RECOVER: 'rename' });
  expect(await names(running)).toEqual([]);
  expect(await readdir(join(folder, 'registry'))).toContainEqual(
    expect.stringMatching(/^records\.snapshot\.corrupt-\d+$/),
  );
  expect(running.log.join('')).toContain('renamed corrupt file records.snapshot to ');
});

it('an action outside SERVICE_ACTIONS_PATH is skipped at startup, and rejected later', async () => {
  await writeFile(join(folder, 'outside.wasm'), component);
  const evaluators = [GUARD, evaluatorDefinition('outside', 'outside.wasm')];
  const running = await start({ evaluators }, { SERVICE_ACTIONS_PATH: join(folder, 'actions') });
  expect(await names(running)).toEqual(['guard']);
  expect(running.log.join('')).toContain(
    'evaluator \\"outside\\" skipped: outside.wasm: is not inside SERVICE_ACTIONS_PATH',
  );
  expect((await running.manage('PUT', '/evaluators', { evaluators })).status).toBe(400);
  expect(await names(running)).toEqual(['guard']);
});

/** Evaluators of which only the first can be loaded, for different reasons. */
function brokenSet(): object[] {
  const unknown = evaluatorDefinition('unknown', 'actions/guard.wasm');
  return [
    GUARD,
    evaluatorDefinition('core', 'actions/core.wasm'),
    { ...unknown, llm: { ...unknown.llm, connection: 'none' } },
    { ...GUARD, trigger: { method: 'tools/list', namespace: null } },
    evaluatorDefinition('outside', 'outside.wasm'),
  ];
}

it('a set of which evaluators were skipped at startup can be activated again, without strict', async () => {
  const running = await start({ evaluators: brokenSet() }, { SERVICE_ACTIONS_PATH: join(folder, 'actions') });
  const skipped = ['unknown', 'core', 'outside'];
  expect((await running.manage('GET', '/evaluators/revisions/1')).data).toMatchObject({ skipped });
  await running.manage('PUT', '/evaluators', { evaluators: [] });
  const rejected = await running.manage('POST', '/evaluators/revisions/1/activate?strict=true');
  expect([rejected.status, await names(running)]).toEqual([422, []]);
  const activate = `${running.management}/api/v1/evaluators/revisions/1/activate`;
  const response = await fetch(activate, { method: 'POST', headers: { connection: 'close' } });
  expect([response.status, await names(running)]).toEqual([200, ['guard']]);
  expect(Object(await response.json()).warnings).toMatchObject([
    { evaluator: 'unknown', code: 'INVALID_EVALUATOR', message: expect.stringContaining('unknown connection') },
    { evaluator: 'guard', code: 'INVALID_EVALUATOR', message: expect.stringContaining('name of an earlier evaluator') },
    { evaluator: 'outside', code: 'INVALID_EVALUATOR', message: expect.stringContaining('SERVICE_ACTIONS_PATH') },
    { evaluator: 'core', code: 'WASM_COMPILE_FAILED', path: 'actions/core.wasm' },
  ]);
  const active = await running.manage('GET', '/evaluators/revisions/active');
  expect(active.data).toMatchObject({ id: 4, skipped: expect.arrayContaining(skipped) });
  // The same set is no revision that has run if it is submitted.
  expect((await running.manage('PUT', '/evaluators', { evaluators: brokenSet().slice(0, 4) })).status).toBe(422);
});

it('skipped evaluators are named by the readiness probe and counted in metrics', async () => {
  const running = await start({ evaluators: [GUARD, evaluatorDefinition('core', 'actions/core.wasm')] });
  const probe = async () => (await fetch(`${running.management}/readyz`, { headers: { connection: 'close' } })).text();
  expect(await probe()).toBe('{"data":{"status":"ready","skipped_evaluators":["core"]},"error":null}');
  const gauges = async () => (await running.manage('GET', '/metrics')).data;
  expect(await gauges()).toMatchObject({ gauges: { evaluators_loaded: 1, evaluators_skipped: 1 } });
  await running.manage('PUT', '/evaluators', { evaluators: [GUARD] });
  expect(await probe()).toBe('{"data":{"status":"ready"},"error":null}');
  expect(await gauges()).toMatchObject({ gauges: { evaluators_loaded: 1, evaluators_skipped: 0 } });
});

it('SERVICE_EVALUATORS_STRICT fails the start and, by default, updates with a broken action', async () => {
  const strict = { SERVICE_EVALUATORS_STRICT: '1' };
  const core = evaluatorDefinition('core', 'actions/core.wasm');
  const failed = 'evaluator "core" cannot be loaded: actions/core.wasm: ';
  await expect(start({ evaluators: [GUARD, core] }, strict)).rejects.toThrow(failed);
  const { trigger: _, ...invalid } = evaluatorDefinition('no trigger', 'actions/guard.wasm');
  await expect(start({ evaluators: [GUARD, invalid] }, strict)).rejects.toThrow('evaluator "no trigger" is invalid');
  const running = await start({ evaluators: [GUARD] }, strict);
  expect((await running.manage('PUT', '/evaluators', { evaluators: [core] })).status).toBe(422);
  expect(await names(running)).toEqual(['guard']);
  expect((await running.manage('PUT', '/evaluators?strict=false', { evaluators: [core] })).status).toBe(200);
});

it('the settings of a connection are in no response, log line or file', async () => {
  const running = await start({ evaluators: [GUARD, evaluatorDefinition('core', 'actions/core.wasm')] });
  const outputs: unknown[] = [await running.manage('PUT', '/evaluators', { evaluators: [GUARD, GUARD] })];
  for (const path of ['', '/llm-connections', '/revisions', '/revisions/active', '/revisions/1', '/revisions/2']) {
    outputs.push(await running.manage('GET', `/evaluators${path}`));
  }
  await service?.stop(0);
  const stored = await readdir(join(folder, 'registry'));
  for (const name of stored) outputs.push(await readFile(join(folder, 'registry', name), 'latin1'));
  expect(stored).toContain('records.snapshot');
  const text = JSON.stringify(outputs) + running.log.join('');
  expect(text).toContain('model');
  for (const secret of SECRETS) expect(text).not.toContain(secret);
});
