import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { accessTo } from '../../../access/fixtures/access.ts';
import { ANONYMOUS } from '../../../identity/principal.ts';
import { DEFAULT_NAMESPACE } from '../../../registry/entries.ts';
import { commit } from '../../../registry/fixtures/commit.ts';
import { applyCatalogs } from '../../../registry/fixtures/operations.ts';
import { addForward, catalog, items } from '../../../registry/fixtures/upstreams.ts';
import { markUpstreamEntries } from '../../../registry/operations-enabled.ts';
import { Registry } from '../../../registry/registry.ts';
import { memoryLog } from '../../../registry/store/record-log.ts';
import type { DownstreamChannel, DownstreamSession } from '../../downstream.ts';
import { ResourceUpdates } from './notification-bridge.ts';

const CHANNEL: DownstreamChannel = {
  isListening: true,
  send: () => true,
  onDrain() {},
  addServerRequest: (make) => make('1'),
  removeServerRequest() {},
  addListener() {},
  removeListener() {},
};

it('after a commit, the subscriptions of a session are checked in slices, once for several commits', async () => {
  const registry = new Registry(memoryLog());
  await registry.load();
  const uris = Array.from({ length: 1_000 }, (_, at) => `file:///${'%2e%2e//a\\..;x/'.repeat(10)}${at}`);
  const hide = (isHidden: boolean, hidden = uris.slice(0, 3)) =>
    commit(registry, (draft) =>
      markUpstreamEntries(draft, 'resource', { forward: 'one', keys: new Set(hidden) }, !isHidden),
    );
  await commit(registry, (draft) => {
    applyCatalogs(draft, addForward(draft, 'one'), [catalog({ resources: items('uri', ['file:///other', ...uris]) })]);
  });
  await hide(true, ['file:///other', ...uris.slice(0, 3)]);
  const session: DownstreamSession = {
    ...{ id: 's', namespace: DEFAULT_NAMESPACE, protocolVersion: '2025-11-25', clientInfo: {}, capabilities: {} },
    ...{ hasEnded: false, active: CHANNEL, channel: () => CHANNEL },
    state: { subscriptions: uris.map((uri) => ({ uri, forward: 'one' })) },
  };
  const client = { session, principal: ANONYMOUS, headers: [] };
  const updates = new ResourceUpdates({ access: accessTo(registry), client, upstream: { forward: 'one' } }, () => {});
  await hide(false);
  await hide(true);
  await hide(false);
  let isFound = false;
  const restored = updates.findRestored()?.finally(() => {
    isFound = true;
  });
  expect(updates.findRestored()).toBeUndefined();
  let turns = 0;
  for (; !isFound; turns++) await nextTurn();
  expect(turns).toBeGreaterThan(2);
  expect(await restored).toEqual(uris.slice(0, 3));
});
