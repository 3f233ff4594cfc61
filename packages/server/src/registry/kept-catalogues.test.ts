import { expect, test } from 'vitest';
import { applyCatalogues, type FoundCatalogue, keptCatalogues } from './catalogs.ts';
import type { Draft } from './draft.ts';
import { DEFAULT_NAMESPACE, type Forward } from './entries.ts';
import { addForward } from './operations-topology.ts';
import { Registry } from './registry.ts';
import { memoryStore } from './store/store.ts';

const item = (key: string, era: string) => ({ key, json: `{"key":"${key}","era":"${era}"}` });

function catalogue(era: 'legacy' | 'modern', more: string): FoundCatalogue {
  return {
    key: `${era}:{}`,
    era,
    capabilities: {},
    identity: `{"i":"${era}"}`,
    cache: era === 'modern' ? { 'tools/list': { ttlMs: 5, cacheScope: 'public' } } : {},
    tools: [item('shared', 'both'), item('differs', era), item(more, era)],
    resources: [item('file:///a', era)],
    templates: [item('file:///{b}', 'both')],
    prompts: [item('p', 'both'), item(more, era)],
  };
}

test('what discovery found in an era comes back from the entries, in the order of the lists and its own words', async () => {
  const registry = new Registry(memoryStore());
  const found = [catalogue('legacy', 'old'), catalogue('modern', 'new')] as const;
  const input = { name: 'up', address: 'http://up.test/', namespace: DEFAULT_NAMESPACE, labels: {}, prefix: 'x.' };
  await registry.commit((draft) => applyCatalogues(draft, addForward(draft, input), found));
  const kept = (draft: Draft, forward: Forward | undefined, ...eras: ('legacy' | 'modern')[]) =>
    forward && keptCatalogues(draft, forward, new Set(eras));
  await registry.commit((draft) => {
    const forward = draft.forwards.get('up');
    expect(kept(draft, forward, 'modern')).toEqual([found[1]]);
    expect(kept(draft, forward, 'legacy', 'modern')).toEqual(found);
    expect(kept(draft, forward)).toEqual([]);
  });
});
