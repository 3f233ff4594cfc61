import { expect, test } from 'vitest';
import { type DiscoveredCatalog, knownCatalogs } from './catalogs.ts';
import type { Draft } from './draft.ts';
import { DEFAULT_NAMESPACE, type Forward } from './entries.ts';
import { commit } from './fixtures/commit.ts';
import { applyCatalogs } from './fixtures/operations.ts';
import { addForward } from './operations-topology.ts';
import { Registry } from './registry.ts';
import { runSteps } from './steps.ts';
import { memoryLog } from './store/record-log.ts';

const item = (key: string, era: string) => ({ key, json: `{"key":"${key}","era":"${era}"}` });

function catalog(era: 'legacy' | 'modern', more: string): DiscoveredCatalog {
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

test("an era's catalogs are rebuilt from the entries, in list order and with their exact text", async () => {
  const registry = new Registry(memoryLog());
  const found = [catalog('legacy', 'old'), catalog('modern', 'new')] as const;
  const input = { name: 'up', address: 'http://up.test/', namespace: DEFAULT_NAMESPACE, labels: {}, prefix: 'x.' };
  await commit(registry, (draft) => applyCatalogs(draft, addForward(draft, input), found));
  const stored = (draft: Draft, forward: Forward | undefined, ...eras: ('legacy' | 'modern')[]) =>
    forward && runSteps(knownCatalogs(draft, forward, new Set(eras)));
  await commit(registry, (draft) => {
    const forward = draft.forwards.get('up');
    expect(stored(draft, forward, 'modern')).toEqual([found[1]]);
    expect(stored(draft, forward, 'legacy', 'modern')).toEqual(found);
    expect(stored(draft, forward)).toEqual([]);
  });
});
