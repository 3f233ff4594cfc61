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
let a: EvaluatedService;
let b: TestService;

beforeAll(async () => {
  postgres = await startPostgres();
  upstream = await startRawUpstream({
    scripts: { 'tools/list': toolList(toolText('known')), 'tools/call': textResultText('done') },
  });
  const environment = replicaEnvironment(await postgres.createDatabase());
  a = await startEvaluatedService(environment);
  b = await startTestService(environment, ['--service-config', join(a.folder, 'service.json')]);
  await a.service.register('forwards', { name: 'up', address: upstream.url });
}, 120_000);

afterAll(async () => {
  await b.stop(0);
  await a.close();
  await upstream.close();
  await postgres[Symbol.asyncDispose]();
});

const call = async (service: TestService) =>
  JSON.parse((await post(service.url(), rpc('tools/call', { name: 'known', arguments: {} }))).text);

test('new evaluators decide on every replica when their submission is answered', async () => {
  expect(await call(b)).toHaveProperty('result');
  for (let round = 0; round < 3; round++) {
    await a.apply(evaluator('gate', { llmOutput: 'block:no' }));
    expect(await call(b)).toMatchObject({ error: { data: { evaluator: 'gate' } } });
    await a.apply();
    expect(await call(b)).toHaveProperty('result');
  }
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
