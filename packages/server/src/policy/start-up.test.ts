import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { startTestService, type TestService } from '../../testing/service.ts';
import { definition } from './fixtures/definition.ts';
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

/** Starts the service with this configuration, after the one before has ended. */
async function start(content: object, env: Record<string, string> = {}): Promise<TestService> {
  await service?.stop(0);
  service = undefined;
  const file = join(folder, 'service.yaml');
  await writeFile(file, JSON.stringify({ llm_connections, ...content }));
  const kept = { SERVICE_PERSIST_BACKEND: 'file', SERVICE_PERSIST_PATH: join(folder, 'registry') };
  service = await startTestService({ ...kept, ...env }, ['--service-config', file]);
  return service;
}

async function names(of: TestService): Promise<string[]> {
  const { data } = await of.manage('GET', '/evaluators');
  if (!Array.isArray(data)) throw new Error('no list');
  return data.map(({ name }: { name: string }) => name);
}

const GUARD = definition('guard', 'actions/guard.wasm');

it('what the service-config file names is compiled before the service listens, and what cannot be is left out', async () => {
  const unknown = definition('unknown', 'actions/guard.wasm');
  const evaluators = [
    GUARD,
    definition('core', 'actions/core.wasm'),
    definition('gone', 'actions/gone.wasm'),
    { ...unknown, llm: { ...unknown.llm, connection: 'none' } },
    { ...definition('again', 'actions/guard.wasm'), trigger: { method: 'tools/list' } },
  ];
  const running = await start({ evaluators });
  expect(await names(running)).toEqual(['guard', 'again']);
  expect((await running.manage('GET', '/metrics')).data).toMatchObject({
    gauges: { evaluators_loaded: 2, wasm_compiled: 1, namespace_bindings: 0 },
  });
  await running.manage('PUT', '/evaluators/namespaces/default', { conversation_id: 'c' });
  expect((await running.manage('GET', '/metrics')).data).toMatchObject({ gauges: { namespace_bindings: 1 } });
  for (const name of ['core', 'gone', 'unknown']) {
    const line = running.log.find((text) => text.includes(`evaluator \\"${name}\\" is left out: `));
    expect(JSON.parse(line ?? '{}')).toMatchObject({ target: 'service::evaluator', evaluator: name });
  }
});

it('what is no evaluator, or judges nothing as it is written, is told of at the start', async () => {
  const { trigger: _, ...noTrigger } = definition('no trigger', 'actions/guard.wasm');
  const misspelt = { ...definition('misspelt', 'actions/guard.wasm'), trigger: { method: 'm', namespace: 'financ' } };
  const meant = {
    ...definition('meant', 'actions/guard.wasm'),
    trigger: { method: 'tools/call', namespace: 'finance' },
  };
  const running = await start({ namespaces: ['finance'], evaluators: [noTrigger, GUARD, GUARD, misspelt, meant] });
  expect(await names(running)).toEqual(['guard', 'misspelt', 'meant']);
  expect((await running.manage('GET', '/evaluators/revisions/active')).data).toMatchObject({ skipped: ['no trigger'] });
  expect(running.log.filter((line) => line.includes('may judge nothing'))).toEqual([
    expect.stringContaining(
      'evaluator \\"misspelt\\" may judge nothing: MCP has no method \\"m\\"; there is no namespace \\"financ\\" yet',
    ),
  ]);
});

it('what was submitted is active after a restart, unless the service-config file names something new', async () => {
  let running = await start({ evaluators: [GUARD] });
  const submitted = { evaluators: [definition('submitted', 'actions/guard.wasm')] };
  expect((await running.manage('PUT', '/evaluators', submitted)).status).toBe(200);
  running = await start({ evaluators: [GUARD] });
  expect(await names(running)).toEqual(['submitted']);
  running = await start({});
  expect(await names(running)).toEqual(['submitted']);
  running = await start({ evaluators: { evaluators: [] } });
  expect(await names(running)).toEqual([]);
  expect((await running.manage('GET', '/evaluators/revisions')).data).toMatchObject([{ id: 3 }, { id: 2 }, { id: 1 }]);
});

it('without a folder nothing is kept', async () => {
  const env = { SERVICE_PERSIST_BACKEND: 'none' };
  let running = await start({ evaluators: [GUARD] }, env);
  expect((await running.manage('GET', '/evaluators/revisions')).data).toHaveLength(1);
  running = await start({}, env);
  expect((await running.manage('GET', '/evaluators/revisions')).data).toEqual([]);
  expect(await readdir(folder)).not.toContain('registry');
});

it('a damaged file of revisions is set aside when that was asked for, and the start names it when not', async () => {
  await start({ evaluators: [GUARD] });
  await service?.stop(0);
  const file = join(folder, 'registry/evaluator-revisions.json');
  await writeFile(file, '{"revisions":[');
  await expect(start({})).rejects.toThrow('evaluator-revisions.json');
  const running = await start({}, { SERVICE_PERSIST_RECOVER: 'rename' });
  expect(await names(running)).toEqual([]);
  expect(await readdir(join(folder, 'registry'))).toContainEqual(
    expect.stringMatching(/^evaluator-revisions\.json\.corrupt-\d+$/),
  );
  expect(running.log.join('')).toContain('evaluator-revisions.json was set aside as ');
});

it('an action outside of SERVICE_ACTIONS_PATH is left out at the start, and refused later', async () => {
  await writeFile(join(folder, 'outside.wasm'), component);
  const evaluators = [GUARD, definition('outside', 'outside.wasm')];
  const running = await start({ evaluators }, { SERVICE_ACTIONS_PATH: join(folder, 'actions') });
  expect(await names(running)).toEqual(['guard']);
  expect(running.log.join('')).toContain(
    'evaluator \\"outside\\" is left out: outside.wasm: is not inside SERVICE_ACTIONS_PATH',
  );
  expect((await running.manage('PUT', '/evaluators', { evaluators })).status).toBe(400);
  expect(await names(running)).toEqual(['guard']);
});

it('what a connection consists of is told nowhere: no answer, no line of the log, no file', async () => {
  const running = await start({ evaluators: [GUARD, definition('core', 'actions/core.wasm')] });
  const told: unknown[] = [await running.manage('PUT', '/evaluators', { evaluators: [GUARD, GUARD] })];
  for (const path of ['', '/llm-connections', '/revisions', '/revisions/active', '/revisions/1', '/revisions/2']) {
    told.push(await running.manage('GET', `/evaluators${path}`));
  }
  await service?.stop(0);
  const kept = await readdir(join(folder, 'registry'));
  for (const name of kept) told.push(await readFile(join(folder, 'registry', name), 'latin1'));
  expect(kept).toContain('evaluator-revisions.json');
  const text = JSON.stringify(told) + running.log.join('');
  expect(text).toContain('model');
  for (const secret of SECRETS) expect(text).not.toContain(secret);
});
