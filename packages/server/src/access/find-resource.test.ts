import { describe, expect, it } from 'vitest';
import { DEFAULT_NAMESPACE, type Entry } from '../registry/entries.ts';
import { EntryIndex } from '../registry/entry-index.ts';
import { commit } from '../registry/fixtures/commit.ts';
import { applyCatalogs } from '../registry/fixtures/operations.ts';
import { addForward, catalog, items } from '../registry/fixtures/upstreams.ts';
import { LayeredMap } from '../registry/layered-map.ts';
import { Registry } from '../registry/registry.ts';
import { memoryLog } from '../registry/store/record-log.ts';
import { findResource, ResourceFinder } from './find-resource.ts';

/** A registry whose forwards list these entries. */
async function offering() {
  const registry = new Registry(memoryLog());
  await registry.load();
  return async (forward: string, uris: readonly string[], templates: readonly string[]): Promise<EntryIndex> => {
    await commit(registry, (draft) => {
      const found = catalog({ resources: items('uri', uris), templates: items('uriTemplate', templates) });
      applyCatalogs(draft, draft.forwards.get(forward) ?? addForward(draft, forward), [found]);
    });
    return registry.current.namespace(DEFAULT_NAMESPACE)?.indexes.resource ?? new EntryIndex();
  };
}

const found = (entry: Entry | undefined) => entry && [entry.discovered?.forward, entry.key];

describe('the entry that serves a uri', () => {
  it('is the exact uri, then the first matching template; looked up again after changes', async () => {
    const offer = await offering();
    const finder = new ResourceFinder();
    const uris = ['r://a', 't://1', 't://x/y', 'gone://1'];
    const both = (index: EntryIndex) =>
      uris.map((uri) => {
        expect(found(finder.find(index, uri))).toEqual(found(findResource(index, uri)));
        return found(findResource(index, uri));
      });
    expect(both(await offer('one', ['r://a'], ['t://{id}']))).toEqual([
      ['one', 'r://a'],
      ['one', 't://{id}'],
      undefined,
      undefined,
    ]);
    expect(both(await offer('two', ['t://1'], ['t://x/{id}']))[1]).toEqual(['two', 't://1']);
    expect(both(await offer('two', [], ['t://x/{id}']))).toEqual([
      ['one', 'r://a'],
      ['one', 't://{id}'],
      ['two', 't://x/{id}'],
      undefined,
    ]);
    expect(both(await offer('one', [], ['gone://{id}']))).toEqual([
      undefined,
      undefined,
      ['two', 't://x/{id}'],
      ['one', 'gone://{id}'],
    ]);
  });

  it('is not matched with the same templates again', async () => {
    const offer = await offering();
    const templates = Array.from({ length: 10 }, (_, n) => `t${n}://{id}`);
    const { templates: entries } = await offer('one', [], templates);
    let read = 0;
    const reading = (key: string) => {
      read++;
      return key;
    };
    /** The same templates, as another change of the registry would have them. */
    const shelf = () =>
      new EntryIndex(
        new LayeredMap(
          new Map(
            entries.map((entry) => {
              const counted = Object.defineProperty({ ...entry }, 'key', { get: () => reading(entry.key) });
              return [entry.key, [counted]];
            }),
          ),
        ),
      );
    const finder = new ResourceFinder();
    const look = (within: EntryIndex) => {
      for (let n = 0; n < 100; n++) finder.find(within, `none://${n}`);
    };
    look(shelf());
    expect(read).toBeGreaterThanOrEqual(1_000);
    read = 0;
    look(shelf());
    expect(read).toBeLessThan(100);
  });
});
