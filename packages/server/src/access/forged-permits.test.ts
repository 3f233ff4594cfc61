import { expect, it } from 'vitest';
import { GrpcBridge } from '../upstreams/grpc/bridge.ts';
import { CallRouter } from '../upstreams/mcp/relay/router.ts';
import type { Permit } from './access.ts';

// Methods that send a request upstream. Each one looks at the permit first, so that it needs no other part here.
const SENDERS = [
  ['the relay', CallRouter.prototype.call],
  ['tools of capability services', GrpcBridge.prototype.tool],
  ['resources of capability services', GrpcBridge.prototype.resource],
] as const;

it.each(SENDERS)('%s: nothing is sent with a cast object in place of a permit', (_, send) => {
  const forged = { kind: 'permit', target: { kind: 'target', forward: 'crm' } } as unknown as Permit;
  expect(() => Reflect.apply(send, undefined, [{}, forged])).toThrow('a request without a permit must not be sent');
});
