import { describe, expect, onTestFinished, test } from 'vitest';
import { toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { changeForwardInSteps, type ForwardChanges } from '../registry/change-forward.ts';
import { Draft, recordsOf } from '../registry/draft.ts';
import { type Forward, parseNamespace } from '../registry/entries.ts';
import { removeForward, removeNamespace } from '../registry/fixtures/operations.ts';
import { SharedMemoryStore } from '../registry/fixtures/shared-memory-store.ts';
import { addForward } from '../registry/operations-topology.ts';
import { runSteps } from '../registry/steps.ts';
import { type Api, startApi } from './api.fixture.ts';

type Change = Pick<ForwardChanges, 'address' | 'labels' | 'expose'>;

/** Changes the forward `up` in the namespace `ops`. */
interface Maker {
  add(address: string): Promise<unknown>;
  change(change: Change): Promise<unknown>;
  remove(): Promise<unknown>;
  /** Removes it and adds another one with its name. */
  replace(address: string): Promise<unknown>;
}

type Operation = (draft: Draft) => unknown;
type Open = (api: Api, store: SharedMemoryStore) => Maker;

function requests(api: Api): Maker {
  const send = async (method: string, path: string, body?: object) => {
    expect((await api.call(method, `/api/v1${path}`, body)).error).toBeNull();
  };
  const add = (address: string) => send('POST', '/forwards', { name: 'up', address, namespace: 'ops' });
  return {
    add,
    change: (change) => send('PATCH', '/forwards/up', change),
    remove: () => send('DELETE', '/forwards/up'),
    replace: async (address) => {
      await send('DELETE', '/forwards/up');
      await add(address);
    },
  };
}

/** A maker whose operations are committed in the same way. */
function operations(commit: (operation: Operation) => Promise<unknown>): Maker {
  const namespace = parseNamespace('ops');
  if (!namespace) throw new Error('no namespace');
  const add = (draft: Draft, address: string) =>
    addForward(draft, { name: 'up', address, namespace, labels: {}, prefix: '' });
  const known = (draft: Draft): Forward => {
    const forward = draft.forwards.get('up');
    if (!forward) throw new Error('no forward');
    return forward;
  };
  return {
    add: (address) => commit((draft) => add(draft, address)),
    change: (change) => commit((draft) => runSteps(changeForwardInSteps(draft, known(draft), change))),
    remove: () => commit((draft) => removeForward(draft, 'up')),
    replace: (address) =>
      commit((draft) => {
        removeForward(draft, 'up');
        add(draft, address);
      }),
  };
}

/** An operation of another replica: what it stores, and the state after it. */
function foreign(api: Api, operation: Operation) {
  const draft = new Draft(api.registry.current);
  operation(draft);
  const { snapshot } = runSteps(draft.finishInSteps());
  return { changes: [...draft.changes], snapshot };
}

const MAKERS: Readonly<Record<string, Open>> = {
  'a request': requests,
  'a request that deletes the namespace': (api) => ({
    ...requests(api),
    remove: () => api.call('DELETE', '/api/v1/namespaces/ops?cascade=true'),
  }),
  ...Object.fromEntries(
    (['bootstrap', 'discovery', 'action'] as const).map((actor): [string, Open] => [
      `the part of the service ${actor}`,
      ({ registry }) => operations((operation) => registry.commit(operation, { actor, reason: 'test' })),
    ]),
  ),
  'an operation that deletes the namespace': ({ registry }) => {
    const commit = (operation: Operation) => registry.commit(operation, { actor: 'action', reason: 'test' });
    return { ...operations(commit), remove: () => commit((draft) => removeNamespace(draft, 'ops', true)) };
  },
  'another replica': (api, store) => operations((operation) => store.applyForeign(foreign(api, operation).changes)),
  'other replicas, after which all records are loaded': (api, store) =>
    operations((operation) => {
      const records = recordsOf(foreign(api, operation).snapshot);
      return store.applyForeignState(Map.groupBy(records, ({ section }) => section));
    }),
};

async function startUpstream(...names: string[]): Promise<RawUpstream> {
  const tools = toolList(...names.map((name) => toolText(name)));
  const upstream = await startRawUpstream({ eras: ['modern'], scripts: { 'tools/list': tools } });
  onTestFinished(() => upstream.close());
  return upstream;
}

async function start(open: Open) {
  const store = new SharedMemoryStore();
  const api = await startApi({ onTestFinished }, { store });
  const [first, second] = [await startUpstream('one', 'two'), await startUpstream('other')];
  const maker = open(api, store);
  /** Waits as requests do, then returns what is served. */
  const tools = async () => {
    await api.forwards.settled('up');
    return Array.from(api.registry.current.entries('tool'), ({ key }) => key);
  };
  await maker.add(first.url);
  expect(await tools()).toEqual(['one', 'two']);
  expect(api.forwards.status('up')).toMatchObject({ available: true });
  expect(first.streams()).toBe(1);
  return { api, maker, first, second, tools, upstream: () => api.forwards.upstreams.of('up') };
}

describe.for(Object.entries(MAKERS))('with a commit of %s, a forward', ([, open]) => {
  test('is discovered, and no longer used once it is removed', async () => {
    const { api, maker, first, tools, upstream } = await start(open);
    await maker.remove();
    expect(upstream()).toBeUndefined();
    expect(api.forwardHistory.of('up')).toEqual([]);
    expect(await tools()).toEqual([]);
    await expect.poll(() => first.streams()).toBe(0);
  });

  test('is discovered at its new address, and no longer used at the old one', async () => {
    const { api, maker, first, second, tools, upstream } = await start(open);
    await maker.change({ address: second.url });
    expect(upstream()?.transport.address).toBe(second.url);
    const { length } = first.seen;
    expect(await tools()).toEqual(['other']);
    await expect.poll(() => first.streams()).toBe(0);
    expect(first.seen).toHaveLength(length);
    expect(api.forwardHistory.of('up').filter(({ kind }) => kind === 'discovered')).toHaveLength(2);
  });

  test('is discovered again when it exposes other entries, in the same sessions', async () => {
    const { maker, tools, upstream } = await start(open);
    const before = upstream();
    await maker.change({ expose: { tools: { allow: ['two'] } } });
    expect(await tools()).toEqual(['two']);
    await maker.change({ expose: null });
    expect(await tools()).toEqual(['one', 'two']);
    expect(upstream()).toBe(before);
  });

  test('is not discovered again when its labels change', async () => {
    const { api, maker, first, tools, upstream } = await start(open);
    const [before, { length }] = [upstream(), first.seen];
    await maker.change({ labels: { team: 'a' } });
    expect(await tools()).toEqual(['one', 'two']);
    expect(api.registry.current.forwards.get('up')?.labels).toEqual({ team: 'a' });
    expect(upstream()).toBe(before);
    expect(first.seen).toHaveLength(length);
  });

  test('is another one when it is registered again, at the same address as well', async () => {
    const { api, maker, first, second, tools, upstream } = await start(open);
    const before = upstream();
    await maker.replace(first.url);
    expect(await tools()).toEqual(['one', 'two']);
    expect(upstream()).not.toBe(before);
    expect(api.forwardHistory.of('up').filter(({ kind }) => kind === 'discovered')).toHaveLength(1);
    await maker.replace(second.url);
    expect(await tools()).toEqual(['other']);
    await expect.poll(() => first.streams()).toBe(0);
  });
});

test('a change that requires no discovery does not wait for one in progress', async (context) => {
  const api = await startApi(context);
  const release = Promise.withResolvers<string>();
  const upstream = await startUpstream();
  upstream.scripts['tools/list'] = () => release.promise;
  const added = api.call('POST', '/api/v1/forwards', { name: 'up', address: upstream.url });
  await expect.poll(() => upstream.count('tools/list')).toBeGreaterThan(0);
  expect(await api.call('PATCH', '/api/v1/forwards/up', { labels: { a: '1' } })).toMatchObject({
    status: 200,
    data: { available: false, labels: { a: '1' } },
  });
  release.resolve(toolList(toolText('one')));
  expect(await added).toMatchObject({ status: 201, data: { available: true, tools_discovered: 1 } });
});
