import { describe, expect, type TestContext, test } from 'vitest';
import { toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { PausableStore } from '../registry/fixtures/pausable-store.ts';
import { stateOf } from '../registry/fixtures/state.ts';
import { type Api, startApi } from './api.fixture.ts';
import { startEvaluatorApi } from './evaluators.fixture.ts';

const MADE = { description: '', uri: 'http://t/mcp', toolType: 'custom', input_schema: {} };

type Finishing = Pick<TestContext, 'onTestFinished'>;

const put = (api: Api, state: object, query = '', headers: Record<string, string> = {}) =>
  api.call('PUT', `/api/v1/state${query}`, state, headers);

async function upstream({ onTestFinished }: Finishing, ...names: string[]): Promise<RawUpstream> {
  const started = await startRawUpstream({
    scripts: { 'tools/list': toolList(...names.map((name) => toolText(name))) },
  });
  onTestFinished(started.close);
  return started;
}

/** Names of the tools that are served. */
const served = ({ registry }: Api) =>
  registry.current.entries('tool').map(({ namespace, name }) => `${namespace}/${name}`);

test('a state of every section is applied, and the response waits for discoveries', async (context) => {
  const api = await startApi(context);
  const { url } = await upstream(context, 'search', 'list');
  const state = {
    namespaces: [{ name: 'finance', labels: { team: 'f' } }],
    forwards: [{ name: 'crm', address: url, prefix: 'crm_' }],
    services: [{ name: 'py', address: 'h:1', serviceType: 'tool-invoker' }],
    tools: [
      { name: 'made', ...MADE },
      { forward: 'crm', upstreamName: 'search', name: 'find', namespace: 'finance' },
    ],
  };
  const { status, data, headers } = await put(api, state);
  expect(status).toBe(200);
  expect(data).toMatchObject({
    changes: [
      { action: 'create', kind: 'namespace', name: 'finance' },
      { action: 'create', kind: 'service', name: 'py' },
      { action: 'create', kind: 'tool', name: 'made' },
      { action: 'create', kind: 'forward', name: 'crm' },
      { action: 'update', kind: 'tool', name: 'crm_search', forward: 'crm', upstreamName: 'search' },
    ],
  });
  expect(headers.etag).toMatch(/^"[\w-]{22}"$/);
  expect(served(api).sort()).toEqual(['default/crm_list', 'default/made', 'finance/find']);
  expect((await put(api, state)).data).toEqual({ changes: [] });
});

test('a dry run changes nothing', async (context) => {
  const api = await startApi(context);
  const before = stateOf(api.registry.current);
  const { status, data } = await put(api, { namespaces: [{ name: 'a' }] }, '?dry_run=true');
  expect([status, data]).toMatchObject([200, { changes: [{ name: 'a' }] }]);
  expect(stateOf(api.registry.current)).toEqual(before);
});

test('an invalid or impossible state changes nothing, and has all problems with their paths', async (context) => {
  const api = await startApi(context);
  await put(api, { tools: [{ name: 'taken', ...MADE }] });
  const before = stateOf(api.registry.current);
  const invalid = await put(api, { namespaces: [{ name: 'a' }, { name: 'b', labels: { x: 1 } }] });
  expect([invalid.status, invalid.error]).toMatchObject([400, { details: [{ path: 'namespaces.1.labels.x' }] }]);
  const impossible = await put(api, {
    namespaces: [{ name: 'a' }],
    forwards: [{ name: 'f', address: 'ftp://h/mcp' }],
    tools: [
      { forward: 'none', name: 'x' },
      { name: 'free', ...MADE },
    ],
  });
  expect([impossible.status, impossible.error]).toMatchObject([
    422,
    { code: 'UNPROCESSABLE', details: [{ path: 'forwards.0' }, { path: 'tools.0' }] },
  ]);
  expect(stateOf(api.registry.current)).toEqual(before);
});

test('other changes than those of the dry run are not made', async (context) => {
  const api = await startApi(context);
  const { url } = await upstream(context, 'search');
  await put(api, { forwards: [{ name: 'crm', address: url }] });
  const state = { tools: [{ forward: 'crm', name: 'search', title: 'Ours', enabled: true }] };
  const { etag = '' } = (await put(api, state, '?dry_run=true')).headers;
  // Enabling it would now widen what agents can use.
  await api.call('POST', '/api/v1/tools/enabled', { enabled: false, names: ['search'] });
  const before = stateOf(api.registry.current);
  const rejected = await put(api, state, '', { 'if-match': String(etag) });
  expect([rejected.status, rejected.error]).toMatchObject([409, { code: 'CONFLICT', details: { etag: /./ } }]);
  expect(stateOf(api.registry.current)).toEqual(before);
  const current = (await put(api, state, '?dry_run=true')).headers.etag;
  // Changes of others that make no difference to these are no conflict.
  await put(api, { namespaces: [{ name: 'other' }] });
  expect((await put(api, state, '', { 'if-match': String(current) })).status).toBe(200);
});

test('a thousand changes are one commit', async (context) => {
  const store = new PausableStore();
  const api = await startApi(context, { store });
  let commits = 0;
  api.registry.committed.subscribe(() => commits++);
  const tools = Array.from({ length: 1_000 }, (_, index) => ({ name: `t${index}`, ...MADE }));
  store.journal.length = 0;
  expect((await put(api, { tools })).status).toBe(200);
  expect([commits, store.journal.length, served(api).length]).toEqual([1, 1, 1_000]);
  const renamed = tools.map((tool, index) => ({ ...tool, name: `t${index + 500}` }));
  expect((await put(api, { tools: renamed }, '?prune=true')).status).toBe(200);
  expect([commits, store.journal.length, served(api).length]).toEqual([2, 2, 1_000]);
});

test('a state of 10,000 entries is larger than other bodies may be, and does not hold the event loop', async (context) => {
  const api = await startApi(context);
  const tools = Array.from({ length: 10_000 }, (_, index) => ({ name: `t${index}`, ...MADE, labels: { a: 'b' } }));
  let turns = 0;
  const counting = setInterval(() => turns++, 1);
  const { status } = await put(api, { tools });
  clearInterval(counting);
  expect([status, served(api).length]).toEqual([200, 10_000]);
  // In slices of 8 ms.
  expect(turns).toBeGreaterThan(10);
});

test('a discovery and a state change the same forward one after the other', async (context) => {
  const api = await startApi(context);
  const { url, scripts } = await upstream(context, 'search');
  await put(api, { forwards: [{ name: 'crm', address: url }] });
  scripts['tools/list'] = toolList(toolText('search'), toolText('list'));
  const state = { forwards: [{ name: 'crm', address: url, prefix: 'p_' }] };
  const [refreshed, applied] = await Promise.all([api.call('POST', '/api/v1/forwards/crm/refreshes'), put(api, state)]);
  expect([refreshed.status, applied.status]).toEqual([200, 200]);
  expect(served(api)).toEqual(['default/p_search', 'default/p_list']);
});

describe('evaluators', () => {
  const evaluator = (name: string, path = 'ok.wasm') => ({
    name,
    trigger: { method: 'tools/call' },
    llm: { operation: 'classify', prompt: 'p', connection: 'model' },
    processor: { path },
  });

  test('are active before the registry changes, and those that are deleted until it has changed', async (context) => {
    const { api } = await startEvaluatorApi(context);
    const names = () => api.evaluators.current.list.map(({ definition }) => definition.name);
    await put(api, { evaluators: [evaluator('old')] });
    const active: string[][] = [];
    api.registry.committed.subscribe(() => active.push(names()));
    const state = { namespaces: [{ name: 'a' }], evaluators: [evaluator('new')] };
    const { data } = await put(api, state, '?prune=true');
    expect(data).toMatchObject({
      changes: [
        { action: 'create', kind: 'namespace' },
        { action: 'create', kind: 'evaluator', name: 'new' },
        { action: 'delete', kind: 'evaluator', name: 'old', widens: ['removes an evaluator'] },
      ],
    });
    expect([active, names()]).toEqual([[['old', 'new']], ['new']]);
  });

  test('that cannot be loaded change nothing, unless they are skipped', async (context) => {
    const { api } = await startEvaluatorApi(context);
    await put(api, { evaluators: [evaluator('old')] });
    const state = { namespaces: [{ name: 'a' }], evaluators: [evaluator('new', 'broken.wasm')] };
    const rejected = await put(api, state, '?strict=true');
    expect([rejected.status, rejected.error]).toMatchObject([
      422,
      { details: [{ path: 'evaluators.1.processor.path' }] },
    ]);
    expect(api.registry.current.namespace('a')).toBeUndefined();
    const skipped = await put(api, state, '?strict=false');
    expect(JSON.parse(skipped.text).warnings).toMatchObject([{ code: 'WASM_COMPILE_FAILED', evaluator: 'new' }]);
    expect(api.registry.current.namespace('a')).toBeDefined();
  });

  test('stay as they are if the registry cannot be changed as desired', async (context) => {
    const { api } = await startEvaluatorApi(context);
    const state = { tools: [{ forward: 'none', name: 'x' }], evaluators: [evaluator('new')] };
    expect((await put(api, state)).status).toBe(422);
    expect(api.evaluators.current.list).toEqual([]);
  });
});
