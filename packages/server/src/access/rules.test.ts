import { expect, it } from 'vitest';
import { changeForwardInSteps } from '../registry/change-forward.ts';
import { commit } from '../registry/fixtures/commit.ts';
import { applyCatalogs } from '../registry/fixtures/operations.ts';
import { addForward, catalog, items } from '../registry/fixtures/upstreams.ts';
import { markUpstreamEntries } from '../registry/operations-enabled.ts';
import { Registry } from '../registry/registry.ts';
import { memoryLog } from '../registry/store/record-log.ts';
import { AccessRules } from './rules.ts';

/** A registry with these resources of the forward `one`, all but the first disabled. */
async function withDisabled(uris: readonly string[]): Promise<Registry> {
  const registry = new Registry(memoryLog());
  await registry.load();
  await commit(registry, function* (draft) {
    const forward = addForward(draft, 'one');
    applyCatalogs(draft, forward, [catalog({ resources: items('uri', uris) })]);
    yield* markUpstreamEntries(draft, 'resource', { forward: 'one', keys: new Set(uris.slice(1)) }, false);
  });
  return registry;
}

it.each([
  ['plain', (at: number) => `file:///docs/${at}`, true],
  ['encoded', (at: number) => `FILE:///%64ocs/caf%C3%A9/${at}`, true],
  // More than can be compared in all forms.
  ['with dot segments', (at: number) => `file:///docs/../${at}?query=${at}`, false],
])(
  'twenty thousand disabled resources, %s, are hidden without blocking the service',
  async (_, uriOf, allowsUnlisted) => {
    const uris = Array.from({ length: 20_000 }, (_uri, at) => uriOf(at));
    const rules = new AccessRules((await withDisabled(['file:///listed', ...uris])).current);
    const before = process.threadCpuUsage();
    expect(rules.allowsUri('one', 'file:///listed')).toBe(true);
    const { user, system } = process.threadCpuUsage(before);
    for (const uri of [
      uriOf(0),
      uriOf(19_999),
      uriOf(7).replace('docs', '%64ocs'),
      `file:///docs/../../${uriOf(5).slice(8)}`,
    ]) {
      expect(rules.allowsUri('one', uri), uri).toBe(false);
    }
    expect(rules.allowsUri('one', 'file:///unlisted')).toBe(allowsUnlisted);
    // Comparing all forms of each would take seconds.
    expect((user + system) / 1000).toBeLessThan(1_000);
  },
);

it('decisions about uris are taken over until a resource or the forward changes', async () => {
  const registry = await withDisabled(['file:///a', 'file:///b', 'file:///c']);
  const hidden = (rules: AccessRules) =>
    ['file:///a', 'file:///b', 'file:///c'].filter((uri) => !rules.allowsUri('one', uri));
  const first = new AccessRules(registry.current);
  expect(hidden(first)).toEqual(['file:///b', 'file:///c']);
  await commit(registry, (draft) => addForward(draft, 'two'));
  const same = new AccessRules(registry.current, first);
  expect(hidden(same)).toEqual(['file:///b', 'file:///c']);
  await commit(registry, (draft) =>
    markUpstreamEntries(draft, 'resource', { forward: 'one', keys: new Set(['file:///c']) }, true),
  );
  const enabled = new AccessRules(registry.current, same);
  expect(hidden(enabled)).toEqual(['file:///b']);
  await commit(registry, function* (draft) {
    const forward = draft.forwards.get('one') ?? expect.fail('no forward');
    yield* changeForwardInSteps(draft, forward, { expose: { resources: { deny: ['file:///a'] } } });
  });
  expect(hidden(new AccessRules(registry.current, enabled))).toEqual(['file:///a', 'file:///b']);
});
