import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { startWatchedUpstream, type WatchedUpstream } from '../../../../testing/watched-upstream.ts';
import { accessTo } from '../../../access/fixtures/access.ts';
import { DEFAULT_LOG_FILTER } from '../../../app/config/environment.ts';
import { ANONYMOUS } from '../../../identity/principal.ts';
import { DEFAULT_NAMESPACE } from '../../../registry/entries.ts';
import { commit } from '../../../registry/fixtures/commit.ts';
import { applyCatalogs } from '../../../registry/fixtures/operations.ts';
import { addForward, catalog, items } from '../../../registry/fixtures/upstreams.ts';
import { Registry } from '../../../registry/registry.ts';
import { memoryLog } from '../../../registry/store/record-log.ts';
import { createLogger } from '../../../telemetry/log.ts';
import { Upstream } from '../upstream.ts';
import { ResourceWatcher, type ResourceWatchHandler } from './resource-watcher.ts';

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  vi.useRealTimers();
  for (const close of closers.splice(0).reverse()) await close();
});

const WATCHER = { namespace: DEFAULT_NAMESPACE, principal: ANONYMOUS, clientInfo: {}, capabilities: {}, headers: [] };
/** An observer that does nothing. */
const NOTHING: ResourceWatchHandler = { onReady() {}, onUpdated: () => true, onMissedEvents() {} };

/** A registry with forwards of these upstreams, each with its own uris. */
async function registered(upstreams: Readonly<Record<string, WatchedUpstream>>) {
  const registry = new Registry(memoryLog());
  await registry.load();
  await commit(registry, (draft) => {
    for (const [name, { uris }] of Object.entries(upstreams)) {
      const found = catalog({
        key: 'modern:{}',
        era: 'modern',
        identity: '{"capabilities":{"resources":{"subscribe":true}}}',
        resources: items('uri', uris),
      });
      applyCatalogs(draft, addForward(draft, name), [found]);
    }
  });
  const known = new Map(Object.entries(upstreams).map(([name, { url }]) => [name, new Upstream(url)]));
  closers.push(() => Promise.all([...known.values()].map((upstream) => upstream.close(0))));
  const log = createLogger(DEFAULT_LOG_FILTER, () => undefined).target('service::forward');
  return {
    registry,
    known,
    upstreams: { of: (name: string) => known.get(name) },
    access: accessTo(registry),
    log,
  };
}

async function upstream(...uris: readonly string[]): Promise<WatchedUpstream> {
  const started = await startWatchedUpstream(uris);
  closers.push(started.close);
  return started;
}

describe('a resource watcher', () => {
  it('does not wait for an unresponsive upstream and drops it', async () => {
    const silent = await upstream('s://1');
    const talking = await upstream('t://1');
    const parts = await registered({ silent, talking });
    // Polling advances the time.
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    let granted: readonly string[] | undefined;
    const onReady = (uris: readonly string[]) => {
      granted = uris;
    };
    const sink = { ...NOTHING, onReady };
    const watch = new ResourceWatcher({ ...parts, readyMs: 300 }, WATCHER, ['s://1', 't://1', 'u://1'], sink);
    closers.push(async () => watch.close());
    watch.start();
    await expect.poll(() => [silent, talking].map(({ streams }) => streams.length)).toEqual([1, 1]);
    talking.streams[0]?.acknowledge('t://1');
    await expect.poll(() => granted).toEqual(['t://1']);
    await expect.poll(() => silent.streams[0]?.isDisconnected).toBe(true);
    expect(talking.streams[0]?.isDisconnected).toBe(false);
  });

  it('drops a removed forward, also for unlisted resources', async () => {
    const linking = await upstream();
    const parts = await registered({ linking });
    const updates: string[] = [];
    const ready = Promise.withResolvers<readonly string[]>();
    const sink = {
      onReady: ready.resolve,
      onUpdated: (uri: string, text?: string) => updates.push(`${uri} ${text}`) > 0,
      onMissedEvents: () => updates.push('lost'),
    };
    let looked = 0;
    const routeUri = () => {
      looked++;
      return parts.known.has('linking') ? { entry: undefined, forward: 'linking' } : undefined;
    };
    const access = { routeUri, outline: parts.access.outline.bind(parts.access), slicer: parts.access.slicer };
    const watch = new ResourceWatcher({ ...parts, access }, WATCHER, ['l://1'], sink);
    closers.push(async () => watch.close());
    watch.start();
    await expect.poll(() => linking.streams.length).toBe(1);
    linking.streams[0]?.acknowledge('l://1');
    expect(await ready.promise).toEqual(['l://1']);
    // Once ready, it refreshes by itself.
    await expect.poll(() => looked).toBe(2);
    const forward = parts.known.get('linking');
    parts.known.delete('linking');
    const closed = forward?.close();
    await expect.poll(() => linking.streams[0]?.isDisconnected).toBe(true);
    await closed;
    await expect.poll(() => updates, { timeout: 5_000 }).toEqual(['l://1 undefined']);
  });

  it('refreshes at most once per second', async () => {
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
      const watch = new ResourceWatcher({ ...parts, registry: counted }, WATCHER, ['r://1'], NOTHING);
      watch.start();
      await vi.advanceTimersByTimeAsync(0);
      const before = looked;
      for (let change = 0; change < 40; change++) {
        watch.refresh();
        await vi.advanceTimersByTimeAsync(100);
      }
      expect(looked - before).toBe(4);
      watch.close();
      await vi.advanceTimersByTimeAsync(2_000);
      expect(looked - before).toBe(4);
    } finally {
      vi.useRealTimers();
    }
  });

  it('looks up many uris in slices', async () => {
    const { access, ...parts } = await registered({});
    let looked = 0;
    /** A lookup that takes a millisecond. */
    const routeUri = () => {
      looked++;
      const end = performance.now() + 1;
      while (performance.now() < end);
      return undefined;
    };
    const slow = { routeUri, outline: access.outline.bind(access), slicer: access.slicer };
    const uris = Array.from({ length: 200 }, (_, at) => `r://${at}`);
    const watch = new ResourceWatcher({ ...parts, access: slow }, WATCHER, uris, NOTHING);
    closers.push(async () => watch.close());
    watch.start();
    const slices: number[] = [];
    for (let before = 0; before < 200; before = looked) {
      slices.push(looked - before);
      await nextTurn();
    }
    expect(Math.max(...slices)).toBeLessThan(20);
  });

  it('is ready at once without a matching upstream', async () => {
    const parts = await registered({});
    const granted: (readonly string[])[] = [];
    const sink = { ...NOTHING, onReady: (uris: readonly string[]) => void granted.push(uris) };
    new ResourceWatcher(parts, WATCHER, ['r://1'], sink).start();
    await expect.poll(() => granted).toEqual([[]]);
  });
});
