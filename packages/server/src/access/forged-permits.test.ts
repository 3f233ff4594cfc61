import { expect, it } from 'vitest';
import { ANONYMOUS } from '../identity/principal.ts';
import { handleCalls } from '../upstreams/call-stages.ts';
import { McpConnection } from '../upstreams/mcp/mcp-connection.ts';
import { RpcClient } from '../upstreams/mcp/rpc-client.ts';
import { ListenDriver } from '../upstreams/mcp/streams/listen-driver.ts';
import type { AttemptOptions } from '../upstreams/mcp/streams/subscription-driver.ts';
import { RunningOperations } from '../upstreams/operation.ts';
import type { Permit, PermitOutline } from './access.ts';

// Methods that send a request upstream. Each one looks at the permit first, so that it needs no other part here.
const SENDERS = [
  ['the stages of calls', handleCalls.call(undefined, Object.create(null))],
  ['the connection to an MCP server', McpConnection.prototype.request],
  ['operations of all other kinds of upstreams', RunningOperations.prototype.start],
] as const;

it.each([
  ['a subscription in a session', RpcClient.prototype.subscribe],
  [
    'a subscription at a modern upstream',
    (permit: PermitOutline) => new ListenDriver(listening(permit), Object.create(null)),
  ],
] as const)('%s: nothing is sent with a cast object in place of an outline', async (_, subscribe) => {
  const forged = { principal: ANONYMOUS, isHidden: () => false } as unknown as PermitOutline;
  const send = async () => await Reflect.apply(subscribe, undefined, [forged, 'a://1']);
  await expect(send()).rejects.toThrow('a subscription without a permit must not be sent');
});

/** The options of a subscription with this permit, which needs no other part here. */
function listening(permit: PermitOutline): AttemptOptions {
  return { ...Object.create(null), upstream: { transport: {} }, resources: { permit, uris: ['a://1'] } };
}

it.each(SENDERS)('%s: nothing is sent with a cast object in place of a permit', (_, send) => {
  const forged = { kind: 'permit', target: { kind: 'target', forward: 'crm' } } as unknown as Permit;
  expect(() => Reflect.apply(send, undefined, [forged, {}, {}])).toThrow('a request without a permit must not be sent');
});
