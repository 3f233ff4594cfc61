import { z } from 'zod';
import { toolCallErrorCategory, toolCallEvent } from '../tool-call-event.ts';
import { operation } from './operation.ts';

const tag = 'tool-calls';
const path = '/api/v1/tool-calls';

/** `/api/v1/tool-calls` (decisions 6). */
export const toolCallOperations = {
  list: operation({
    id: 'listToolCallEvents',
    method: 'GET',
    path,
    tag,
    summary: 'List the latest events of tool calls',
    description: 'The last 1000 are kept, in memory.',
    query: {
      toolName: { description: 'Only events of this tool.' },
      category: {
        description: 'Only FAILED events of this category.',
        values: toolCallErrorCategory.options,
      },
      limit: { description: 'How many at most: 1 to 1000, 100 when it is anything else.' },
    },
    answers: { 200: { description: 'The events, newest first.', data: z.array(toolCallEvent) } },
    failures: [],
  }),
  notifications: operation({
    id: 'watchToolCallEvents',
    method: 'GET',
    path: `${path}/notifications`,
    tag,
    summary: 'Watch tool calls: an event stream that stays open',
    description:
      'Each event has the `eventType` as its `event`, the `eventId` as its `id`, and a `ToolCallEvent` as JSON for its `data`. Events from before are not told. A comment comes every 15 s. Who falls more than 1000 events behind is disconnected.',
    answers: { 200: { description: 'The events, from now on.', data: toolCallEvent, events: true } },
    failures: [],
  }),
};
