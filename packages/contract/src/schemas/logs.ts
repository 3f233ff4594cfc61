import { z } from 'zod';
import { LOG_LEVELS } from '../values.ts';

/** Maximum number of concurrent clients of the stream. */
export const MAX_LOG_STREAMS = 20;

/** A line of the log. */
export const logLine = z
  .looseObject({
    ts: z.iso.datetime({ precision: 3 }).describe('UTC'),
    level: z.enum(LOG_LEVELS),
    target: z.string().describe('Component'),
    msg: z.string(),
    truncated: z.literal(true).optional().describe('The line was too long to be stored with its fields'),
  })
  .meta({ id: 'LogLine', description: 'Fields of the event are further members.' });
