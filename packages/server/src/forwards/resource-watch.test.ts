import { afterEach, describe, expect, it } from 'vitest';
import { applyCatalogues } from '../registry/catalogues.ts';
import { addForward, catalogue, items } from '../registry/fixtures/upstreams.ts';
import { DEFAULT_NAMESPACE } from '../registry/names.ts';
import { Registry } from '../registry/registry.ts';
import { memoryStore } from '../registry/store/memory.ts';
import { startWatchedUpstream, type WatchedUpstream } from '../testing/watched-upstream.ts';
import { ResourceWatch } from './resource-watch.ts';
import { Upstream } from './upstream.ts';

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

const WATCHER = { namespace: DEFAULT_NAMESPACE, clientInfo: {}, capabilities: {}, headers: [] };
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
  return { registry, forwards: { upstream: (name: string) => known.get(name) }, unlisted: () => undefined };
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
    const granted = await new Promise<readonly string[]>((resolve) => {
      const sink = { onReady: resolve, onUpdated: () => true };
      const watch = new ResourceWatch({ ...parts, readyMs: 200 }, WATCHER, ['s://1', 't://1', 'u://1'], sink);
      closers.push(async () => watch.close());
      watch.start();
      const answering = setInterval(() => {
        if (!talking.streams[0]) return;
        clearInterval(answering);
        talking.streams[0].acknowledge('t://1');
      }, 5);
    });
    expect(granted).toEqual(['t://1']);
    await expect.poll(() => silent.streams[0]?.left).toBe(true);
    expect(talking.streams[0]?.left).toBe(false);
  });

  it('asks no upstream for what is not there, and is ready at once', async () => {
    const parts = await registered({});
    const granted: (readonly string[])[] = [];
    const sink = { onReady: (uris: readonly string[]) => void granted.push(uris), onUpdated: () => true };
    new ResourceWatch(parts, WATCHER, ['r://1'], sink).start();
    expect(granted).toEqual([[]]);
  });
});
