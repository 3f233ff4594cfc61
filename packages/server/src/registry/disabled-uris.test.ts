import { expect, it } from 'vitest';
import { commit } from './fixtures/commit.ts';
import { applyCatalogs } from './fixtures/operations.ts';
import { addForward, catalog, items } from './fixtures/upstreams.ts';
import { markUpstreamEntries } from './operations-enabled.ts';
import { Registry } from './registry.ts';
import { memoryStore } from './store/store.ts';

/** A registry with these resources of the forward `one`, all but the first disabled. */
async function withDisabled(uris: readonly string[]): Promise<Registry> {
  const registry = new Registry(memoryStore());
  await registry.load();
  await commit(registry, (draft) => {
    const forward = addForward(draft, 'one');
    applyCatalogs(draft, forward, [catalog({ resources: items('uri', uris) })]);
    markUpstreamEntries(draft, 'resource', { forward: 'one', keys: new Set(uris.slice(1)) }, false);
  });
  return registry;
}

it.each([
  ['plain', (at: number) => `file:///docs/${at}`, true],
  ['encoded', (at: number) => `FILE:///%64ocs/caf%C3%A9/${at}`, true],
  // More than can be compared in all forms.
  ['with dot segments', (at: number) => `file:///docs/../${at}?query=${at}`, false],
])('twenty thousand disabled resources, %s, are hidden without blocking the service', async (_, uriOf, others) => {
  const uris = Array.from({ length: 20_000 }, (_uri, at) => uriOf(at));
  const { current } = await withDisabled(['file:///listed', ...uris]);
  const before = process.cpuUsage();
  expect(current.allowsResource('one', 'file:///listed')).toBe(true);
  const { user, system } = process.cpuUsage(before);
  for (const uri of [
    uriOf(0),
    uriOf(19_999),
    uriOf(7).replace('docs', '%64ocs'),
    `file:///docs/../../${uriOf(5).slice(8)}`,
  ]) {
    expect(current.allowsResource('one', uri), uri).toBe(false);
  }
  expect(current.allowsResource('one', 'file:///unlisted')).toBe(others);
  // Comparing all forms of each would take seconds.
  expect((user + system) / 1000).toBeLessThan(1_000);
});
