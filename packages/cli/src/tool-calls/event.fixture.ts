import type { ToolCallEvent } from '@sluice/contract';

/** The beginning of a call of a tool; the same for the same name. */
export function startedEvent(toolName: string): ToolCallEvent {
  const id = Buffer.from(toolName).toString('hex').padStart(8, '0').slice(-8);
  return {
    eventId: `00000000-0000-4000-8000-0000${id}`,
    eventType: 'STARTED',
    timestamp: '2026-01-02T03:04:05.678Z',
    transport: 'grpc',
    namespace: 'default',
    toolName,
    toolType: 'weather',
    serviceId: 'weather',
    serviceAddress: '10.0.0.5:9090',
    argumentNames: ['city'],
    argumentCount: 1,
    headers: {},
  };
}
