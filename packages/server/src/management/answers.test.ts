import { allOperations, ERROR_STATUS } from '@sluice/contract';
import { expect, test, vi } from 'vitest';
import { toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { startCapabilityService, unaryHandler } from '../../testing/capability-service.ts';
import { recordedInteraction } from '../inference/interaction.fixture.ts';
import { OperationError } from '../registry/operation-error.ts';
import { startApi } from './api.fixture.ts';
import { ServedDocument } from './document.fixture.ts';
import { isJsonOperation } from './operations.fixture.ts';

const UNREACHABLE = 'http://127.0.0.1:9/mcp';
const TOOL = { description: '', uri: 'u:1', toolType: 'custom', input_schema: {} };

/** With every type of body. */
const INTERACTIONS = [
  recordedInteraction({
    requestText: '{"messages":[]}',
    responseText: '{"id":"c-1"}',
    completionId: 'c-1',
    model: 'm',
  }),
  recordedInteraction({
    requestText: '{"messages":[]}',
    responseText: 'no JSON',
    conversationId: 'a',
    truncated: true,
  }),
  recordedInteraction({ requestText: '{"messages":[]}', statusCode: 0 }),
];

test('every operation returns each of its statuses in the documented form', async (context) => {
  let ready = true;
  let dryRunFailure: OperationError | undefined;
  const dryRun = { verdict: 'pass', rejected: false, matches: true, ignored_responses: 0, prompt: '' } as const;
  const dryRuns = {
    run: async () => {
      if (dryRunFailure) throw dryRunFailure;
      return { ...dryRun, log: [], copies: [] };
    },
  };
  const unreachable = new OperationError('BAD_GATEWAY', 'no');
  const cancelTask = vi.fn(async () => {}).mockRejectedValueOnce(unreachable);
  const api = await startApi(context, { ready: () => ready, dryRuns, cancelTask });
  const upstream = await startRawUpstream({ scripts: { 'tools/list': toolList(toolText('found')) } });
  context.onTestFinished(upstream.close);
  const document = await ServedDocument.of(api);
  const seen = new Set<string>();

  const answers = async (status: number, request: string, body?: object, headers = {}): Promise<void> => {
    const [method = '', path = ''] = request.split(' ');
    const operation = allOperations.find(
      (each) =>
        each.method === method &&
        new RegExp(`^${each.path.replace(/\{\w+\}/, '[^/?]+')}$`).test(path.split('?')[0] ?? ''),
    );
    if (!operation) throw new Error(`no operation for ${request}`);
    const answer = await api.call(method, path, body, headers);
    expect(answer.status, `${request}: ${answer.text}`).toBe(status);
    document.expectDeclared(operation, answer);
    if (answer.location !== '') {
      const read = await api.call('GET', answer.location);
      expect(read.status, answer.location).toBe(200);
      // An unreachable upstream is retried, and each attempt changes the time of the next one.
      const told = Object.hasOwn(Object(answer.data), 'statusMessage') && { statusMessage: expect.any(String) };
      if (!request.includes('/services')) expect(read.data).toEqual({ ...Object(answer.data), ...told });
    }
    seen.add(`${operation.id} ${status}`);
  };

  for (const path of ['/healthz', '/health', '/readyz', '/openapi.json']) await answers(200, `GET ${path}`);
  for (const path of ['/management/statistics', '/metrics', '/plugins', '/tool-calls'])
    await answers(200, `GET /api/v1${path}`);
  await answers(200, 'GET /api/v1/time-series?by=tool');
  for (const recorded of INTERACTIONS) api.interactions.add(recorded);
  await answers(200, 'GET /api/v1/interactions');
  await answers(200, 'GET /api/v1/interactions?bodies=false');
  await answers(200, 'DELETE /api/v1/interactions');
  await answers(200, 'POST /api/v1/config/inference', { upstream: 'https://models.example/v1', capacity: 5 });
  await answers(200, 'GET /api/v1/replicas');
  ready = false;
  await answers(503, 'GET /readyz');
  await answers(200, 'GET /healthz');

  const namespaces = '/api/v1/namespaces';
  await answers(201, `POST ${namespaces}`, { name: 'ops', labels: { a: '1' } });
  await answers(200, `POST ${namespaces}`, { name: 'ops' });
  await answers(200, `GET ${namespaces}`);
  await answers(200, `GET ${namespaces}/ops`);
  await answers(200, `PUT ${namespaces}/ops`, { labels: {} });
  await answers(200, `GET ${namespaces}/ops/view`);
  await answers(404, `GET ${namespaces}/none/view`);
  await answers(409, `DELETE ${namespaces}/default`);
  await answers(200, `DELETE ${namespaces}/ops`);
  await answers(404, `GET ${namespaces}/ops`);
  await answers(404, `PUT ${namespaces}/ops`, {});
  await answers(404, `DELETE ${namespaces}/ops`);

  const forwards = '/api/v1/forwards';
  await answers(201, `POST ${forwards}`, { name: 'up', address: upstream.url, prefix: 'p_', labels: { a: '1' } });
  await answers(201, `POST ${forwards}`, { name: 'down', address: UNREACHABLE, namespace: 'elsewhere' });
  await answers(409, `POST ${forwards}`, { name: 'up', address: UNREACHABLE });
  await answers(200, `GET ${forwards}`);
  await answers(200, `GET ${forwards}/up`);
  await answers(200, `GET ${forwards}/down`);
  await answers(200, `PATCH ${forwards}/up`, { labels: { a: null, b: '2' } });
  await answers(404, `PATCH ${forwards}/none`, {});
  await answers(200, `POST ${forwards}/up/refreshes`);
  await answers(502, `POST ${forwards}/down/refreshes`);
  await answers(404, `GET ${forwards}/none`);
  await answers(404, `POST ${forwards}/none/refreshes`);
  for (const name of ['up', 'down']) await answers(200, `GET ${forwards}/${name}/history`);
  await answers(404, `GET ${forwards}/none/history`);
  await answers(409, `DELETE ${namespaces}/elsewhere`);
  await answers(200, `DELETE ${forwards}/down`);
  await answers(404, `DELETE ${forwards}/down`);

  await answers(200, 'PUT /api/v1/blocks/ann', { for: '1h', reason: 'r' });
  await answers(422, 'PUT /api/v1/blocks/forward:none');
  await answers(200, 'GET /api/v1/blocks');
  await answers(200, 'GET /api/v1/blocks/ann');
  await answers(200, 'DELETE /api/v1/blocks/ann');
  await answers(404, 'DELETE /api/v1/blocks/ann');
  await answers(404, 'GET /api/v1/blocks/ann');
  await answers(200, 'GET /api/v1/session');
  await answers(200, 'POST /api/v1/session/logout');
  await answers(200, 'GET /api/v1/sessions');
  const [id] = JSON.stringify((await api.call('GET', '/api/v1/sessions')).data).match(/(?<="id":")[\w-]{43}/) ?? [];
  await answers(200, `DELETE /api/v1/sessions/${id}`);
  await answers(404, `DELETE /api/v1/sessions/${id}`);
  await answers(409, 'PUT /api/v1/blocks/ann', {}, { 'x-forwarded-user': 'ann' });

  for (const [path, body] of [
    ['/api/v1/tools', { ...TOOL, name: 'x', title: 'T', icons: [], annotations: {} }],
    ['/api/v1/resources', { name: 'x', location: 'x:1', type: 'custom', params: [{ name: 'a', value: '1' }] }],
    ['/api/v1/prompts', { name: 'x', arguments: [{ name: 'a' }], messages: [{ role: 'user', content: '{a}' }] }],
  ] as const) {
    await answers(201, `POST ${path}`, { ...body, namespace: 'a' });
    await answers(409, `POST ${path}`, { ...body, namespace: 'a' });
    await answers(201, `POST ${path}`, { ...body, namespace: 'b' });
    await answers(200, `GET ${path}`);
    await answers(200, `GET ${path}?include=shadowed,upstream`);
    await answers(200, `GET ${path}/x?namespace=a`);
    await answers(200, `PUT ${path}/x?namespace=a`, { ...body, description: 'd' });
    for (const method of ['GET', 'PUT', 'DELETE']) {
      await answers(409, `${method} ${path}/x`, method === 'PUT' ? body : undefined);
      await answers(404, `${method} ${path}/none`, method === 'PUT' ? body : undefined);
    }
    await answers(409, `POST ${path}/enabled`, { enabled: false, names: ['x'] });
    await answers(404, `POST ${path}/enabled`, { enabled: false, names: ['none'] });
    await answers(200, `POST ${path}/enabled`, { enabled: false, names: ['x'], namespace: 'a' });
    await answers(200, `DELETE ${path}/x?namespace=a`);
  }
  await answers(200, 'GET /api/v1/tools/p_found?include=upstream');
  await answers(200, `GET ${namespaces}/default/view?era=legacy`);
  await answers(200, `GET ${namespaces}/a/view?limit=1`);
  await answers(201, 'POST /api/v1/tools', { ...TOOL, name: 'q_found' });
  await answers(409, `PATCH ${forwards}/up`, { prefix: 'q_' });

  const services = '/api/v1/services';
  const service = { name: 's', address: '[::1]:7', serviceType: 'code-execution-engine' };
  await answers(201, `POST ${services}`, { ...service, languageName: 'a' });
  await answers(200, `POST ${services}`, { ...service, languageName: 'a', labels: { a: '1' }, id: '7' });
  await answers(200, `GET ${services}/s`);
  await answers(201, `POST ${services}`, { ...service, serviceSubType: 'e' });
  await answers(200, `GET ${services}`);
  await answers(200, `GET ${services}/s`);
  const provisioner = await startCapabilityService((server, protocols) =>
    server.addService(protocols.provisioner, {
      Provision: unaryHandler(() => ({ configurationUri: 'c:1', properties: { p: { type: 'string' } } })),
    }),
  );
  context.onTestFinished(() => provisioner.close());
  await answers(201, `POST ${services}`, { name: 'p', address: provisioner.address, serviceType: 'tool-invoker' });
  await answers(200, `POST ${services}/p/provisions`, { name: 'x', secrets: 's' });
  await answers(502, `POST ${services}/s/provisions`, { name: 'x' });
  await answers(404, `POST ${services}/none/provisions`, { name: 'x' });
  await answers(200, `DELETE ${services}/s`);
  await answers(404, `GET ${services}/s`);
  await answers(404, `DELETE ${services}/s`);

  const evaluators = '/api/v1/evaluators';
  const revisions = `${evaluators}/revisions`;
  const unknown = { operation: 'classify', prompt: '', connection: 'none' };
  const evaluator = { name: 'e', trigger: { method: 'm' }, llm: unknown, processor: { path: 'p' } };
  await answers(200, `GET ${evaluators}`);
  await answers(200, `GET ${evaluators}/llm-connections`);
  await answers(200, `PUT ${evaluators}/namespaces/n`, { conversation_id: 'c' });
  await answers(200, `GET ${evaluators}/namespaces`);
  await answers(200, `DELETE ${evaluators}/namespaces/n`);
  await answers(404, `GET ${revisions}/active`);
  await answers(200, `PUT ${evaluators}`, { evaluators: [] });
  await answers(409, `PUT ${evaluators}`, { evaluators: [], expected_revision: 7 });
  await answers(422, `PUT ${evaluators}`, { evaluators: [evaluator] });
  const trial = { evaluator, request: { method: 'tools/call' } };
  await answers(200, `POST ${evaluators}/dry-run`, trial);
  for (const [status, code] of [
    [422, 'UNPROCESSABLE'],
    [503, 'UNAVAILABLE'],
  ] as const) {
    dryRunFailure = new OperationError(code, 'no');
    await answers(status, `POST ${evaluators}/dry-run`, trial);
  }
  await answers(200, `GET ${revisions}`);
  await answers(200, `GET ${revisions}/active`);
  await answers(200, `GET ${revisions}/2`);
  await answers(404, `GET ${revisions}/3`);
  await answers(200, `POST ${revisions}/1/activate`);
  await answers(409, `POST ${revisions}/1/activate`, { expected_revision: 1 });
  await answers(404, `POST ${revisions}/9/activate`);
  await answers(422, `POST ${revisions}/2/activate`);

  const identity = '/api/v1/identity';
  const settings = { keys: [{ name: 'k', sha256: ['0'.repeat(64)] }] };
  await answers(200, `GET ${identity}`);
  await answers(200, `GET ${identity}/status`);
  await answers(404, `GET ${identity}/revisions/active`);
  await answers(200, `PUT ${identity}`, { identity: settings });
  const forged = { address: upstream.url, headers: { 'X-Sluice-Authorization': `$\{env:SERVICE_SECRET_A}` } };
  await answers(201, `POST ${forwards}`, { name: 'later', address: upstream.url });
  await answers(422, `POST ${forwards}`, { name: 'forged', ...forged });
  await answers(422, `PATCH ${forwards}/later`, forged);
  await answers(200, `GET ${identity}`);
  await answers(409, `PUT ${identity}`, { identity: settings, expected_revision: 7 });
  await answers(422, `PUT ${identity}`, { identity: { roles: { admin: ['none'] } } });
  await answers(200, `GET ${identity}/revisions`);
  await answers(200, `GET ${identity}/revisions/active`);
  await answers(200, `GET ${identity}/revisions/2`);
  await answers(404, `GET ${identity}/revisions/3`);
  await answers(200, `POST ${identity}/revisions/1/activate`);
  await answers(409, `POST ${identity}/revisions/1/activate`, { expected_revision: 1 });
  await answers(404, `POST ${identity}/revisions/9/activate`);
  await answers(422, `POST ${identity}/revisions/2/activate`);

  const state = 'PUT /api/v1/state';
  await answers(200, `${state}?dry_run=true`, { namespaces: [{ name: 'n' }], tools: [{ ...TOOL, name: 'n' }] });
  await answers(409, state, { namespaces: [{ name: 'n' }] }, { 'if-match': '"other"' });
  await answers(200, state, { namespaces: [{ name: 'n' }], evaluators: [] });
  await answers(422, state, { tools: [{ forward: 'none', name: 'n' }] });

  const tasks = '/api/v1/tasks';
  await answers(200, `GET ${tasks}`);
  await answers(200, `GET ${tasks}/x`);
  await answers(404, `GET ${tasks}/none`);
  await answers(502, `POST ${tasks}/x/cancel`);
  await answers(200, `POST ${tasks}/x/cancel`);
  await answers(409, `POST ${tasks}/ended/cancel`);
  await answers(404, `POST ${tasks}/none/cancel`);

  await answers(200, 'GET /api/v1/logs');

  const own = allOperations
    // Diagnostics have their own tests.
    .filter((operation) => isJsonOperation(operation) && !['runDiagnostics', 'testForward'].includes(operation.id))
    .flatMap(({ id, responses, errors }) =>
      [...Object.keys(responses), ...errors.map((code) => ERROR_STATUS[code])].map((status) => `${id} ${status}`),
    );
  expect([...seen].sort()).toEqual(own.sort());
});
