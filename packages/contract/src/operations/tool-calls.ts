import { z } from 'zod';
import {
  KEPT_TOOL_CALL_EVENTS,
  MOST_TOOL_CALL_WATCHERS,
  toolCallErrorCategory,
  toolCallEvent,
} from '../tool-call-event.ts';
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
    description: `The last ${KEPT_TOOL_CALL_EVENTS} are kept, in memory.`,
    query: {
      toolName: { description: 'Only events of this tool.' },
      category: {
        description: 'Only FAILED events of this category.',
        values: toolCallErrorCategory.options,
      },
      limit: {
        description: `How many at most: 100 when it is no whole number from 1 on; more than ${KEPT_TOOL_CALL_EVENTS} counts as ${KEPT_TOOL_CALL_EVENTS}.`,
      },
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
      'Each event has the `eventType` as its `event`, the `eventId` as its `id`, and a `ToolCallEvent` as JSON for its ' +
      '`data`. Events from before are not told. A comment comes every 15 s. Who falls more than ' +
      `${KEPT_TOOL_CALL_EVENTS} events behind is disconnected. At most ${MOST_TOOL_CALL_WATCHERS} clients can watch at a time.`,
    answers: { 200: { description: 'The events, from now on.', data: toolCallEvent, events: true } },
    failures: ['UNAVAILABLE'],
  }),
};
