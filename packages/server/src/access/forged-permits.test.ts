import { expect, it } from 'vitest';
import { handleCalls } from '../upstreams/call-stages.ts';
import { McpConnection } from '../upstreams/mcp/mcp-connection.ts';
import { RunningOperations } from '../upstreams/operation.ts';
import type { Permit } from './access.ts';

// Methods that send a request upstream. Each one looks at the permit first, so that it needs no other part here.
const SENDERS = [
  ['the stages of calls', handleCalls.call(undefined, Object.create(null))],
  ['the connection to an MCP server', McpConnection.prototype.request],
  ['operations of all other kinds of upstreams', RunningOperations.prototype.start],
] as const;

it.each(SENDERS)('%s: nothing is sent with a cast object in place of a permit', (_, send) => {
  const forged = { kind: 'permit', target: { kind: 'target', forward: 'crm' } } as unknown as Permit;
  expect(() => Reflect.apply(send, undefined, [forged, {}, {}])).toThrow('a request without a permit must not be sent');
});
