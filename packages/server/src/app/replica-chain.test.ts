import { expect, test, vi } from 'vitest';
import type { PeerClient } from '../http/peer-client.ts';
import { authenticated } from '../identity/authenticator.ts';
import { createUser } from '../identity/principal.ts';
import type { McpExchange } from '../mcp/exchange.ts';
import { type RoutingDeps, routeToOwner } from './replica-chain.ts';

const CANCELLATION = '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}';

test.each([
  ['is also sent to all other replicas', ['10.0.0.2:1', '10.0.0.3:1'], 'ann', 2],
  ['of an only replica is sent to nobody', [], 'ann', 0],
  ['of a principal that is too large for a hop is handled here', ['10.0.0.2:1'], 'x'.repeat(80_000), 0],
])('a cancellation %s', (_, addresses, id, sent) => {
  const notify = vi.fn<PeerClient['notify']>();
  const filter = routeToOwner(() => undefined, {
    client: { notify },
    members: { addresses },
    listener: 'mcp',
  } as unknown as RoutingDeps);
  const exchange = {
    head: { listener: 'mcp' },
    session: { id: 's' },
    message: { kind: 'notification', method: 'notifications/cancelled', text: CANCELLATION },
    authenticated: authenticated(createUser(id, 'proxy')),
  } as unknown as McpExchange;
  expect(filter(exchange)).toBeUndefined();
  expect(notify).toHaveBeenCalledTimes(sent);
});
