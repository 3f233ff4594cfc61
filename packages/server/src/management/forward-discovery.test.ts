import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { modernClient, reply } from '../../../../test/fixtures/raw-client.ts';
import { LIST_END, textResultText, toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { type RawUpstreamOptions, startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { capabilityScripts } from '../../testing/capability-scripts.ts';
import { startTestService } from '../../testing/service.ts';
import { startApi } from './api.fixture.ts';

const PATH = '/api/v1/forwards';
const NO_METHOD = { kind: 'error', text: '{"code":-32601,"message":"unknown"}' } as const;

/** An upstream that announces no changes, so that it is read only on request of the test. */
async function upstreamWith(scripts: RawUpstreamOptions['scripts']) {
  const quiet = capabilityScripts('{"tools":{},"resources":{},"prompts":{}}');
  const upstream = await startRawUpstream({ eras: ['modern'], scripts: { ...quiet, ...scripts } });
  onTestFinished(upstream.close);
  return upstream;
}

/** A response of an upstream that is delayed until the test releases it. */
function delayedScript() {
  const arrival = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<string>();
  const script = (): Promise<string> => {
    arrival.resolve();
    return answer.promise;
  };
  return { script, arrived: arrival.promise, answer: answer.resolve };
}

describe('registering a forward', () => {
  test('stores it before the discovery', async (context) => {
    const api = await startApi(context);
    let stored = false;
    const upstream = await upstreamWith({
      'tools/list': () => {
        stored = api.registry.current.forwards.has('up');
        return toolList();
      },
    });
    await api.call('POST', PATH, { name: 'up', address: upstream.url });
    expect(stored).toBe(true);
  });

  test('waits 30 s for a slow upstream, and continues in the background', async (context) => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => {
      vi.useRealTimers();
    });
    const api = await startApi(context);
    // A single request may take 30 s, so two slow ones are needed.
    const [first, second] = [delayedScript(), delayedScript()];
    const upstream = await upstreamWith({ 'server/discover': first.script, 'tools/list': second.script });
    let added: Awaited<ReturnType<typeof api.call>> | undefined;
    const adding = api.call('POST', PATH, { name: 'slow', address: upstream.url }).then((answered) => {
      added = answered;
    });
    await first.arrived;
    await vi.advanceTimersByTimeAsync(20_000);
    first.answer(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},${LIST_END}`);
    await second.arrived;
    await vi.advanceTimersByTimeAsync(9_900);
    expect(added).toBeUndefined();
    await vi.advanceTimersByTimeAsync(100);
    await adding;
    expect(added).toMatchObject({
      status: 201,
      data: { name: 'slow', available: false, statusMessage: 'discovery pending', tools_discovered: 0 },
    });
    second.answer(toolList(toolText('late')));
    const status = async () => (await api.call('GET', `${PATH}/slow`)).data;
    await expect.poll(status).toMatchObject({ available: true, tools_discovered: 1 });
    expect(await status()).not.toHaveProperty('statusMessage');
  });

  test('counts the entries of each kind, templates as resources, and a missing method as none', async (context) => {
    const api = await startApi(context);
    const upstream = await upstreamWith({
      'tools/list': toolList(toolText('a'), toolText('b')),
      'resources/list': `{"resources":[{"uri":"x:1","name":"one"}],${LIST_END}`,
      'resources/templates/list': `{"resourceTemplates":[{"uriTemplate":"x:{id}","name":"any"}],${LIST_END}`,
      'prompts/list': NO_METHOD,
    });
    const added = await api.call('POST', PATH, { name: 'up', address: upstream.url, prefix: 'p.' });
    const counts = { tools_discovered: 2, resources_discovered: 2, prompts_discovered: 0 };
    expect(added).toMatchObject({ status: 201, data: { available: true, ...counts } });
    upstream.scripts['prompts/list'] = `{"prompts":[{"name":"ask"}],${LIST_END}`;
    expect((await api.call('POST', `${PATH}/up/refreshes`)).data).toEqual({
      refreshed: 'up',
      ...counts,
      prompts_discovered: 1,
    });
    // The prefix applies to names of tools and prompts, neither to URIs nor to names of resources.
    const names = async (kind: string) =>
      Object((await api.call('GET', `/api/v1/${kind}`)).data).map((entry: object) => Object(entry).name);
    expect(await names('tools')).toEqual(['p.a', 'p.b']);
    expect(await names('prompts')).toEqual(['p.ask']);
    expect(await names('resources')).toEqual(['one', 'any']);
  });

  test('reports skipped entries and repeated cursors in the status', async (context) => {
    const api = await startApi(context);
    const upstream = await upstreamWith({
      'tools/list': `{"tools":[${toolText('a')},{"description":"nameless"},${toolText('a')}],${LIST_END}`,
      'resources/list': `{"resources":[{"name":"no uri"}],${LIST_END}`,
      'prompts/list': `{"prompts":[{"name":"again"}],"nextCursor":"same",${LIST_END}`,
    });
    const added = await api.call('POST', PATH, { name: 'up', address: upstream.url });
    expect(added.data).toMatchObject({ available: true, tools_discovered: 1, resources_discovered: 0 });
    const { statusMessage } = Object(added.data);
    for (const note of [
      'tools/list: 1 entry without name skipped',
      'tools/list: 1 entry with a repeated name skipped',
      'resources/list: 1 entry without uri skipped',
      'at a repeated cursor',
    ]) {
      expect(statusMessage).toContain(note);
    }
    expect((await api.call('GET', `${PATH}/up`)).data).toEqual(added.data);
  });

  test('works for a namespace of the same service', async () => {
    const service = await startTestService();
    onTestFinished(() => service.stop());
    const upstream = await upstreamWith({
      'tools/list': toolList(toolText('echo')),
      'tools/call': textResultText('through two doors'),
    });
    await service.register('forwards', { name: 'inner', address: upstream.url, namespace: 'inner' });
    const outer = await service.manage('POST', '/forwards', {
      name: 'outer',
      address: service.url('inner'),
      namespace: 'outer',
      prefix: 'o_',
    });
    expect(outer).toMatchObject({ status: 201, data: { available: true, tools_discovered: 1 } });
    const answer = await modernClient(service.url('outer')).call('tools/call', '{"name":"o_echo","arguments":{}}');
    expect(reply(answer)).toContain('through two doors');
  });
});

describe('refreshing a forward', () => {
  test('runs once for concurrent requests', async (context) => {
    const api = await startApi(context);
    const upstream = await upstreamWith({ 'tools/list': toolList(toolText('a')) });
    await api.call('POST', PATH, { name: 'up', address: upstream.url });
    const delayed = delayedScript();
    upstream.scripts['tools/list'] = delayed.script;
    const once = upstream.count('tools/list');
    const refresh = vi.spyOn(api.forwards, 'refresh');
    const refreshed = Array.from({ length: 5 }, () => api.call('POST', `${PATH}/up/refreshes`));
    await expect.poll(() => refresh.mock.calls.length).toBe(5);
    delayed.answer(toolList(toolText('b'), toolText('c')));
    for (const { status, data } of await Promise.all(refreshed)) {
      expect([status, data]).toMatchObject([200, { refreshed: 'up', tools_discovered: 2 }]);
    }
    expect(upstream.count('tools/list')).toBe(2 * once);
  });

  test.for([
    ['an error', { kind: 'error', text: '{"code":-32603,"message":"no list today"}' }],
    ['a status', { kind: 'http', status: 500, type: 'text/plain', body: 'broken' }],
    ['a page', { kind: 'http', status: 200, type: 'text/html', body: '<html></html>' }],
    ['no JSON', { kind: 'http', status: 200, type: 'application/json', body: '{' }],
    ['a lost connection', { kind: 'cut' }],
  ] as const)('is 502 if one of the lists returns %s, and all lists remain', async ([_what, fault], context) => {
    const api = await startApi(context);
    const upstream = await upstreamWith({
      'tools/list': toolList(toolText('a')),
      'prompts/list': `{"prompts":[{"name":"p"}],${LIST_END}`,
    });
    await api.call('POST', PATH, { name: 'up', address: upstream.url });
    upstream.scripts['tools/list'] = toolList(toolText('new'));
    upstream.scripts['prompts/list'] = fault;
    const refreshed = await api.call('POST', `${PATH}/up/refreshes`);
    expect(refreshed).toMatchObject({ status: 502, data: null, error: { code: 'BAD_GATEWAY' } });
    expect((await api.call('GET', '/api/v1/tools')).data).toMatchObject([{ name: 'a' }]);
    expect((await api.call('GET', '/api/v1/prompts')).data).toMatchObject([{ name: 'p' }]);
    const { available, statusMessage } = Object((await api.call('GET', `${PATH}/up`)).data);
    expect([available, typeof statusMessage]).toEqual([false, 'string']);
  });
});

test('a forward that is registered again has no earlier overrides', async (context) => {
  const api = await startApi(context);
  const upstream = await upstreamWith({ 'tools/list': toolList(toolText('a'), toolText('b')) });
  const register = () => api.call('POST', PATH, { name: 'up', address: upstream.url });
  await register();
  const a = Object((await api.call('GET', '/api/v1/tools/a')).data);
  await api.call('PUT', '/api/v1/tools/a', { ...a, name: 'renamed', description: 'ours', namespace: 'ops' });
  await api.call('DELETE', '/api/v1/tools/b');
  await api.call('DELETE', `${PATH}/up`);
  expect((await api.call('GET', '/api/v1/tools')).data).toEqual([]);
  await register();
  expect((await api.call('GET', '/api/v1/tools')).data).toMatchObject([
    { name: 'a', description: 'd', namespace: 'default' },
    { name: 'b' },
  ]);
});
