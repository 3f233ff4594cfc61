import { eventTopic, MAX_EVENT_STREAMS, STATE_EVENT_CAPACITY, streamedEvent } from '../schemas/events.ts';
import { TOOL_CALL_EVENT_CAPACITY } from '../values.ts';
import { defineOperation } from './operation.ts';

/** `/api/v1/events`. */
export const eventOperations = {
  watch: defineOperation({
    id: 'watchEvents',
    method: 'GET',
    path: '/api/v1/events',
    right: 'read',
    tag: 'service',
    summary: 'Watch events of the service',
    description:
      'Server-sent events. `event` is the topic; `data` is a `ToolCallEvent` (tool-calls), a `ForwardEvent` ' +
      '(forwards), a `ServiceEvent` (services), an `EvaluatorsEvent` (evaluators) or a `RegistryEvent` (registry). ' +
      'With the header `Last-Event-ID`, the stream continues after that event. The latest ' +
      `${TOOL_CALL_EVENT_CAPACITY} tool-call events and ${STATE_EVENT_CAPACITY} others are stored; a client that ` +
      'misses events because it is slow, resumes too late or resumes after a restart gets a `missed` event ' +
      `(\`MissedEvents\`). A comment is sent every 15 s. At most ${MAX_EVENT_STREAMS} clients can connect.`,
    query: { topics: { description: `Comma-separated topics: ${eventTopic.options.join(', ')}. Default: all.` } },
    responses: { 200: { description: 'Stream of events', data: streamedEvent, eventStream: true } },
    errors: ['UNAVAILABLE'],
  }),
};
