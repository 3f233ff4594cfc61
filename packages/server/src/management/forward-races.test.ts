import { expect, type TestContext, test, vi } from 'vitest';
import { toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { DEFAULT_NAMESPACE } from '../registry/entries.ts';
import { commit } from '../registry/fixtures/commit.ts';
import { removeForward } from '../registry/fixtures/operations.ts';
import { PausableStore } from '../registry/fixtures/pausable-store.ts';
import { addForward } from '../registry/operations-topology.ts';
import { startApi } from './api.fixture.ts';

/** An upstream whose responses to `tools/list` are released by the test. */
async function slow(context: Pick<TestContext, 'onTestFinished'>) {
  const asked = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  const upstream = await startRawUpstream({
    scripts: {
      'tools/list': async () => {
        asked.resolve();
        await release.promise;
        return toolList(toolText('slow'));
      },
    },
  });
  context.onTestFinished(() => {
    release.resolve();
    return upstream.close();
  });
  return { url: upstream.url, asked: asked.promise, release: () => release.resolve() };
}

async function quick(context: Pick<TestContext, 'onTestFinished'>) {
  const upstream = await startRawUpstream({ scripts: { 'tools/list': toolList(toolText('a'), toolText('b')) } });
  context.onTestFinished(() => upstream.close());
  return upstream;
}

test('a forward that is deleted and registered again during its discovery is returned as first registered', async (context) => {
  const store = new PausableStore();
  const api = await startApi(context, { store });
  const first = await slow(context);
  const second = await quick(context);
  const answer = api.call('POST', '/api/v1/forwards', { name: 'f', address: first.url, labels: { whose: 'first' } });
  await first.asked;
  const commit = vi.spyOn(api.registry, 'commit');
  store.hold = true;
  const before = api.call('POST', '/api/v1/namespaces', { name: 'before' });
  await expect.poll(() => commit.mock.calls.length).toBe(1);
  const removal = api.call('DELETE', '/api/v1/forwards/f');
  await expect.poll(() => commit.mock.calls.length).toBe(2);
  const other = { name: 'f', address: second.url, labels: { whose: 'second' } };
  const again = api.call('POST', '/api/v1/forwards', other);
  await expect.poll(() => commit.mock.calls.length).toBe(3);
  store.hold = false;
  store.commitAll();
  await before;
  expect((await removal).status).toBe(200);
  expect(await answer).toMatchObject({
    status: 201,
    data: { address: first.url, labels: { whose: 'first' }, available: false, tools_discovered: 0 },
  });
  expect(await again).toMatchObject({ status: 201, data: { ...other, available: true, tools_discovered: 2 } });
});

test('a refresh of a forward that is deleted while its catalog is stored does not return that of another', async (context) => {
  const store = new PausableStore();
  const api = await startApi(context, { store });
  const up = await quick(context);
  await api.call('POST', '/api/v1/forwards', { name: 'f', address: up.url });
  store.hold = true;
  const before = api.call('POST', '/api/v1/namespaces', { name: 'before' });
  await expect.poll(() => store.waiting).toBe(1);
  const commit = vi.spyOn(api.registry, 'commit');
  const removal = api.call('DELETE', '/api/v1/forwards/f');
  await expect.poll(() => commit.mock.calls.length).toBe(1);
  const refresh = api.call('POST', '/api/v1/forwards/f/refreshes');
  await expect.poll(() => commit.mock.calls.length).toBe(2);
  store.commitAll();
  await before;
  await expect.poll(() => store.waiting).toBe(1);
  store.hold = false;
  store.commitAll();
  expect((await removal).status).toBe(200);
  expect(await refresh).toMatchObject({ status: 404, error: { code: 'NOT_FOUND' } });
});

test('a refresh of a forward that is deleted during discovery is 404', async (context) => {
  const api = await startApi(context);
  const first = await slow(context);
  const create = api.call('POST', '/api/v1/forwards', { name: 'f', address: first.url });
  await first.asked;
  const refreshing = vi.spyOn(api.forwards, 'refresh');
  const refresh = api.call('POST', '/api/v1/forwards/f/refreshes');
  await expect.poll(() => refreshing.mock.calls.length).toBe(1);
  await api.call('DELETE', '/api/v1/forwards/f');
  expect(await refresh).toMatchObject({ status: 404, error: { code: 'NOT_FOUND' } });
  expect(await create).toMatchObject({ status: 201, data: { available: false, statusMessage: 'removed' } });
});

test('a list of many forwards contains one that is deleted while the list is sent', async (context) => {
  const api = await startApi(context);
  const up = await quick(context);
  for (let i = 0; i < 200; i++) {
    void commit(api.registry, (draft) =>
      addForward(draft, {
        name: `n${i}`,
        address: 'http://127.0.0.1:9/',
        namespace: DEFAULT_NAMESPACE,
        labels: {},
        prefix: '',
      }),
    );
  }
  await api.call('POST', '/api/v1/forwards', { name: 'f', address: up.url });
  let seen = 0;
  const { status } = api.forwards;
  vi.spyOn(api.forwards, 'status').mockImplementation((name) => {
    if (++seen === 200) void commit(api.registry, (draft) => removeForward(draft, 'f'));
    return status.call(api.forwards, name);
  });
  const { data } = await api.call('GET', '/api/v1/forwards');
  expect(Array.isArray(data) && data.at(-1)).toMatchObject({ name: 'f', tools_discovered: 2 });
});

test('a forward that is registered during shutdown gets no controller', async (context) => {
  const store = new PausableStore();
  const api = await startApi(context, { store });
  const up = await quick(context);
  store.hold = true;
  const input = { name: 'f', address: up.url, namespace: DEFAULT_NAMESPACE, labels: {}, prefix: '' };
  const added = commit(api.registry, (draft) => addForward(draft, input));
  await expect.poll(() => store.waiting).toBe(1);
  await api.forwards.close();
  store.hold = false;
  store.commitAll();
  await added;
  await api.forwards.settled('f');
  expect(api.forwards.upstreams.of('f')).toBeUndefined();
  expect(up.seen.map(({ method }) => method)).toEqual([]);
});

test('a forward that is registered during startup is discovered before the response', async (context) => {
  const api = await startApi(context);
  const first = await slow(context);
  const added = api.call('POST', '/api/v1/forwards', { name: 'f', address: first.url });
  await first.asked;
  api.forwards.start();
  first.release();
  expect(await added).toMatchObject({ data: { available: true, tools_discovered: 1 } });
});
