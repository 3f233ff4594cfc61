import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { rpc } from '../packages/server/testing/listener.ts';
import { startPostgres, type TestPostgres } from '../packages/server/testing/postgres.ts';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { type EvaluatedService, evaluator, startEvaluatedService } from './fixtures/evaluated/evaluated-service.ts';
import { post } from './fixtures/raw-client.ts';
import { textResultText, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';
import { replicaEnvironment } from './fixtures/replicas.ts';

// Policy is the same on all replicas once a change of it is acknowledged (docs/replicas.md).

let postgres: TestPostgres;
let upstream: RawUpstream;
let database: string;
let a: EvaluatedService;
let b: TestService;
/** Of b, without any action. */
let folder: string;

beforeAll(async () => {
  postgres = await startPostgres();
  upstream = await startRawUpstream({
    scripts: { 'tools/list': toolList(toolText('known')), 'tools/call': textResultText('done') },
  });
  database = await postgres.createDatabase();
  const environment = replicaEnvironment(database);
  a = await startEvaluatedService(environment);
  folder = await mkdtemp(join(tmpdir(), 'sluice-replica-'));
  await copyFile(join(a.folder, 'service.json'), join(folder, 'service.json'));
  b = await startTestService(environment, ['--service-config', join(folder, 'service.json')]);
  await a.service.register('forwards', { name: 'up', address: upstream.url });
}, 120_000);

afterAll(async () => {
  await b.stop(0);
  await a.close();
  await upstream.close();
  await postgres[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

/** An evaluator that rejects calls, also if a busy machine exceeds the time limit of its action. */
const gate = (llmOutput = 'block:no') => evaluator('gate', { llmOutput, on_error: 'block' });

const call = async (service: TestService) =>
  JSON.parse((await post(service.url(), rpc('tools/call', { name: 'known', arguments: {} }))).text);

test('new evaluators decide on every replica when their submission is answered', async () => {
  expect(await call(b)).toHaveProperty('result');
  for (let round = 0; round < 3; round++) {
    await a.apply(gate());
    expect(await call(b)).toMatchObject({ error: { data: { evaluator: 'gate' } } });
    await a.apply();
    expect(await call(b)).toHaveProperty('result');
  }
});

test('an action decides as its revision had it, on replicas without its file or with another one', async () => {
  await a.apply(gate());
  const file = join(folder, 'ordinary.wasm');
  await writeFile(file, 'no component');
  const environment = replicaEnvironment(database);
  const c = await startTestService(environment, ['--service-config', join(folder, 'service.json')]);
  expect(await call(c)).toMatchObject({ error: { data: { evaluator: 'gate' } } });
  expect(c.log.filter((line) => line.includes('action file differs from the active revision'))).toHaveLength(1);
  await c.stop(0);
  await rm(file);
  // Also for a new revision, and for an earlier one, by a replica without the file.
  const submitted = await b.manage('PUT', '/evaluators', { evaluators: [gate('block:so')] });
  expect(submitted.data).toMatchObject([{ name: 'gate' }]);
  for (const service of [a.service, b])
    expect(await call(service)).toMatchObject({ error: { data: { evaluator: 'gate' } } });
  await a.apply();
  const [, { id } = { id: 0 }] = (await b.manage('GET', '/evaluators/revisions')).data as { id: number }[];
  expect((await b.manage('POST', `/evaluators/revisions/${id}/activate`)).status).toBe(200);
  expect(await call(a.service)).toMatchObject({ error: { data: { evaluator: 'gate' } } });
  await a.apply();
});

test('an update on an outdated revision is made again, or conflicts with the condition of the client', async () => {
  await a.apply(evaluator('gate'));
  const submit = (service: TestService, body: object) => service.manage('PUT', '/evaluators', body);
  const both = await Promise.all([a.service, b].map((service) => submit(service, { evaluators: [] })));
  expect(both.map(({ status }) => status)).toEqual([200, 200]);
  const [before] = (await b.manage('GET', '/evaluators/revisions')).data as { id: number }[];
  const conditional = { evaluators: [], expected_revision: before?.id };
  const raced = await Promise.all([a.service, b].map((service) => submit(service, conditional)));
  expect(raced.map(({ status }) => status).toSorted()).toEqual([200, 409]);
  const revisions = await Promise.all(
    [a.service, b].map(async ({ manage }) => (await manage('GET', '/evaluators/revisions')).data),
  );
  expect(revisions[0]).toEqual(revisions[1]);
});

test('bindings and the settings of the inference listener are the same on all replicas', async () => {
  await a.service.manage('PUT', '/evaluators/namespaces/default', { conversation_id: 'c1' });
  expect((await b.manage('GET', '/evaluators/namespaces')).data).toEqual({ default: 'c1' });
  await b.manage('DELETE', '/evaluators/namespaces/default');
  expect((await a.service.manage('GET', '/evaluators/namespaces')).data).toEqual({});
  await a.service.manage('POST', '/config/inference', { upstream: '127.0.0.1:9999', capacity: 7 });
  const changed = await b.manage('POST', '/config/inference', { capacity: 8 });
  expect(changed.data).toEqual({ upstream: '127.0.0.1:9999', capacity: 8 });
});
