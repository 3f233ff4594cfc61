import type { CallObserver } from '../call-observer.ts';
import type { RequestSummary, ToolCallIdentity } from './event.ts';
import type { ToolCallSink } from './events.ts';

/** A call of a tool that is executed by a capability service, with overrides. */
export function identity(given: Partial<ToolCallIdentity> = {}): ToolCallIdentity {
  return {
    transport: 'grpc',
    namespace: 'default',
    toolName: 'echo',
    toolType: 'py',
    forward: undefined,
    service: { id: 'py', address: '127.0.0.1:50051' },
    correlation: { conversationId: 'conv-1', requestId: 'req-1' },
    traceId: undefined,
    user: undefined,
    evaluations: [],
    ...given,
  };
}

/** The report of such a call at its start. */
export function begun(events: ToolCallSink, of: ToolCallIdentity, summary: RequestSummary): CallObserver {
  const observer = events.of(of);
  observer.begin(summary);
  return observer;
}
