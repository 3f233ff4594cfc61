import { ChunkBuffer } from '@sluice/protocol/chunk-buffer';
import { parseMessage } from '@sluice/protocol/mcp/message';
import { expect, it, onTestFinished } from 'vitest';
import { exchangeParts } from '../../http/exchange.fixture.ts';
import { commit } from '../../registry/fixtures/commit.ts';
import { removeNamespace } from '../../registry/fixtures/operations.ts';
import { createEntry } from '../../registry/operations.ts';
import { createNamespace } from '../../registry/operations-topology.ts';
import { Registry } from '../../registry/registry.ts';
import type { Snapshot } from '../../registry/snapshot.ts';
import { memoryLog } from '../../registry/store/record-log.ts';
import { FirstDiscoveries } from '../../upstreams/first-discoveries.ts';
import { InFlightCalls } from '../../upstreams/in-flight-calls.ts';
import { ClientProfiles } from '../client-profile.ts';
import { DiscoveryWaits } from '../discovery-waits.ts';
import { McpExchange } from '../exchange.ts';
import { serveList } from './lists.ts';

const REQUEST = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}';
const TOOL = { name: 'old', uri: 'u:1', toolType: 'own', input_schema: {}, namespace: 'ops' };

it.each(['is removed', 'is deleted and recreated'])(
  'a list of a namespace that %s during discovery is rejected',
  async (how) => {
    const registry = new Registry(memoryLog());
    await registry.load();
    await commit(registry, (draft) => createEntry(draft, 'tool', TOOL));
    const calls = new InFlightCalls({ idleMs: 60_000, totalMs: 60_000 });
    onTestFinished(() => calls.close());
    const admitted = Promise.withResolvers<Snapshot>();
    const profiles = new ClientProfiles(registry, { name: 's', title: 'S', version: '1' });
    const parts = {
      discoveryWaits: new DiscoveryWaits({
        forwards: { firstDiscoveries: new FirstDiscoveries(0, () => '') },
        profileDiscovery: { ensureDiscoveredFor: () => admitted.promise, reread: () => undefined },
        registry,
        calls,
        waitMs: 10_000,
      }),
      profiles,
      registry,
    };
    const exchange = new McpExchange(...exchangeParts({ target: '/ops/mcp' }));
    const message = parseMessage(ChunkBuffer.of(Buffer.from(REQUEST)));
    if (message.kind !== 'request') throw new Error('the request is none');
    const namespace = registry.current.namespace('ops');
    if (!namespace) throw new Error('there is no namespace');
    const outcome = serveList('tool', Object.assign(exchange, { message, namespace }), parts);
    await commit(registry, (draft) => removeNamespace(draft, 'ops', true));
    if (how.endsWith('recreated')) await commit(registry, (draft) => createNamespace(draft, 'ops', {}));
    admitted.resolve(registry.current);
    expect(await outcome).toMatchObject({ kind: 'error', status: 404, error: { message: 'namespace not found: ops' } });
  },
);
