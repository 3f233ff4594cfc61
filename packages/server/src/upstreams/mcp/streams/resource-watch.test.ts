import { afterEach, describe, expect, it, vi } from 'vitest';
import { startWatchedUpstream, type WatchedUpstream } from '../../../../testing/watched-upstream.ts';
import { DEFAULT_LOG_FILTER } from '../../../app/config/environment.ts';
import { applyCatalogues } from '../../../registry/catalogs.ts';
import { DEFAULT_NAMESPACE } from '../../../registry/entries.ts';
import { addForward, catalogue, items } from '../../../registry/fixtures/upstreams.ts';
import { Registry } from '../../../registry/registry.ts';
import { memoryStore } from '../../../registry/store/store.ts';
import { createLogger } from '../../../telemetry/log.ts';
import { Upstream } from '../upstream.ts';
import { ResourceWatch, type WatchSink } from './resource-watch.ts';

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  vi.useRealTimers();
  for (const close of closers.splice(0).reverse()) await close();
});

const WATCHER = { namespace: DEFAULT_NAMESPACE, clientInfo: {}, capabilities: {}, headers: [] };
/** Told of everything, and does nothing. */
const NOTHING: WatchSink = { onReady() {}, onUpdated: () => true, onLost() {} };
const NOBODY = { failed() {}, succeeded() {}, changed() {} };

/** A registry with forwards of these upstreams, each with its own uris. */
async function registered(upstreams: Readonly<Record<string, WatchedUpstream>>) {
  const registry = new Registry(memoryStore());
  await registry.load();
  await registry.commit((draft) => {
    for (const [name, { uris }] of Object.entries(upstreams)) {
      const found = catalogue({
        key: 'modern:{}',
        era: 'modern',
        identity: '{"capabilities":{"resources":{"subscribe":true}}}',
        resources: items('uri', uris),
      });
      applyCatalogues(draft, addForward(draft, name), [found]);
    }
  });
  const known = new Map(Object.entries(upstreams).map(([name, { url }]) => [name, new Upstream(url, NOBODY)]));
  closers.push(() => Promise.all([...known.values()].map((upstream) => upstream.destroy())));
  const log = createLogger(DEFAULT_LOG_FILTER, () => undefined).target('service::forward');
  return { registry, known, forwards: { upstream: (name: string) => known.get(name) }, unlisted: () => undefined, log };
}

async function upstream(...uris: readonly string[]): Promise<WatchedUpstream> {
  const started = await startWatchedUpstream(uris);
  closers.push(started.close);
  return started;
}

describe('watching resources', () => {
  it('does not wait for an upstream that says nothing, and leaves it', async () => {
    const silent = await upstream('s://1');
    const talking = await upstream('t://1');
    const parts = await registered({ silent, talking });
    // The time passes while it is looked.
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    let granted: readonly string[] | undefined;
    const onReady = (uris: readonly string[]) => {
      granted = uris;
    };
    const sink = { ...NOTHING, onReady };
    const watch = new ResourceWatch({ ...parts, readyMs: 300 }, WATCHER, ['s://1', 't://1', 'u://1'], sink);
    closers.push(async () => watch.close());
    watch.start();
    await expect.poll(() => [silent, talking].map(({ streams }) => streams.length)).toEqual([1, 1]);
    talking.streams[0]?.acknowledge('t://1');
    await expect.poll(() => granted).toEqual(['t://1']);
    await expect.poll(() => silent.streams[0]?.left).toBe(true);
    expect(talking.streams[0]?.left).toBe(false);
  });

  it('leaves a forward that is gone, also where no list names what it served', async () => {
    const linking = await upstream();
    const parts = await registered({ linking });
    const told: string[] = [];
    const ready = Promise.withResolvers<readonly string[]>();
    const sink = {
      onReady: ready.resolve,
      onUpdated: (uri: string, text?: string) => told.push(`${uri} ${text}`) > 0,
      onLost: () => told.push('lost'),
    };
    let looked = 0;
    const unlisted = () => {
      looked++;
      return parts.known.has('linking') ? 'linking' : undefined;
    };
    const watch = new ResourceWatch({ ...parts, unlisted }, WATCHER, ['l://1'], sink);
    closers.push(async () => watch.close());
    watch.start();
    await expect.poll(() => linking.streams.length).toBe(1);
    linking.streams[0]?.acknowledge('l://1');
    expect(await ready.promise).toEqual(['l://1']);
    // Once it is ready it looks again by itself.
    await expect.poll(() => looked).toBe(2);
    const forward = parts.known.get('linking');
    parts.known.delete('linking');
    const closed = forward?.close();
    await expect.poll(() => linking.streams[0]?.left).toBe(true);
    await closed;
    await expect.poll(() => told, { timeout: 5_000 }).toEqual(['l://1 undefined']);
  });

  it('looks for who serves them at most once a second', async () => {
    const { registry, ...parts } = await registered({});
    let looked = 0;
    const counted = {
      get current() {
        looked++;
        return registry.current;
      },
    };
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    try {
      const watch = new ResourceWatch({ ...parts, registry: counted }, WATCHER, ['r://1'], NOTHING);
      watch.start();
      vi.advanceTimersByTime(0);
      const before = looked;
      for (let change = 0; change < 40; change++) {
        watch.refresh();
        vi.advanceTimersByTime(100);
      }
      expect(looked - before).toBe(4);
      watch.close();
      vi.advanceTimersByTime(2_000);
      expect(looked - before).toBe(4);
    } finally {
      vi.useRealTimers();
    }
  });

  it('asks no upstream for what is not there, and is ready at once', async () => {
    const parts = await registered({});
    const granted: (readonly string[])[] = [];
    const sink = { ...NOTHING, onReady: (uris: readonly string[]) => void granted.push(uris) };
    new ResourceWatch(parts, WATCHER, ['r://1'], sink).start();
    expect(granted).toEqual([[]]);
  });
});
