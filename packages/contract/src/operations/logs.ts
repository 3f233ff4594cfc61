import { z } from 'zod';
import { logLine, MAX_LOG_STREAMS } from '../schemas/logs.ts';
import { LOG_CAPACITY, LOG_LEVELS } from '../values.ts';
import { defineOperation } from './operation.ts';

const path = '/api/v1/logs';
const tag = 'service';
const level = {
  description: 'Least severe level. Default: all that `RUST_LOG` selects.',
  values: LOG_LEVELS,
};

/** `/api/v1/logs` (docs/management-api.md). */
export const logOperations = {
  list: defineOperation({
    id: 'listLogLines',
    method: 'GET',
    path,
    right: 'read',
    tag,
    summary: 'List the latest lines of the log',
    description: `The latest ${LOG_CAPACITY} lines are stored in memory: those of the process that answers.`,
    query: {
      level,
      limit: { description: `Maximum number of lines: a whole number from 1. Default: all, at most ${LOG_CAPACITY}.` },
    },
    responses: { 200: { description: 'Lines, oldest first', data: z.array(logLine) } },
    errors: [],
  }),
  notifications: defineOperation({
    id: 'watchLogLines',
    method: 'GET',
    path: `${path}/notifications`,
    right: 'read',
    tag,
    summary: 'Watch the log',
    description:
      'Server-sent events: `data` is a `LogLine`. With the header `Last-Event-ID`, the stream continues after that event. A ' +
      'client that misses lines, because it is slow, gets an event `missed` with their number (`{"count": 5}`). A comment is ' +
      `sent every 15 s. At most ${MAX_LOG_STREAMS} clients can connect.`,
    query: {
      level,
      limit: { description: 'Number of stored lines to begin with. Default: 0.' },
    },
    responses: { 200: { description: 'Stream of lines', data: logLine, eventStream: true } },
    errors: ['UNAVAILABLE'],
  }),
};
