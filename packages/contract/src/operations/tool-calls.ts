import { z } from 'zod';
import { MAX_TOOL_CALL_STREAMS, toolCallErrorCategory, toolCallEvent } from '../schemas/tool-calls.ts';
import { TOOL_CALL_EVENT_CAPACITY } from '../values.ts';
import { defineOperation } from './operation.ts';

const tag = 'tool-calls';
const path = '/api/v1/tool-calls';

/** `/api/v1/tool-calls`. */
export const toolCallOperations = {
  list: defineOperation({
    id: 'listToolCallEvents',
    method: 'GET',
    path,
    right: 'read',
    tag,
    summary: 'List tool-call events',
    description: `The latest ${TOOL_CALL_EVENT_CAPACITY} events are stored in memory, of each replica.`,
    query: {
      toolName: { description: 'Filter by tool name.' },
      category: {
        description: 'Filter by error category (FAILED events only).',
        values: toolCallErrorCategory.options,
      },
      limit: {
        description: `Maximum number of events (default 100): a whole number from 1; more than ${TOOL_CALL_EVENT_CAPACITY} is ${TOOL_CALL_EVENT_CAPACITY}.`,
      },
    },
    responses: { 200: { description: 'Events, newest first', data: z.array(toolCallEvent), ofAllReplicas: true } },
    errors: [],
  }),
  notifications: defineOperation({
    id: 'watchToolCallEvents',
    method: 'GET',
    path: `${path}/notifications`,
    right: 'read',
    tag,
    summary: 'Watch tool-call events',
    description:
      'Server-sent events: `event` is the `eventType`, `id` the `eventId` and `data` a `ToolCallEvent`. Past events are ' +
      `not replayed. A comment is sent every 15 s. A client more than ${TOOL_CALL_EVENT_CAPACITY} events behind is ` +
      `disconnected. At most ${MAX_TOOL_CALL_STREAMS} clients can connect.`,
    responses: { 200: { description: 'Stream of events', data: toolCallEvent, eventStream: true } },
    errors: ['UNAVAILABLE'],
  }),
};
