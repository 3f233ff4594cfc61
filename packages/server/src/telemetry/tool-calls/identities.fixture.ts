import type { ToolCallIdentity } from './tool-call-identity.ts';

/** A call of a tool that a capability service carries out, but for what is given. */
export function identity(given: Partial<ToolCallIdentity> = {}): ToolCallIdentity {
  return {
    transport: 'grpc',
    namespace: 'default',
    toolName: 'echo',
    toolType: 'py',
    serviceId: 'py',
    serviceAddress: '127.0.0.1:50051',
    conversationId: 'conv-1',
    requestId: 'req-1',
    ...given,
  };
}
