import { z } from 'zod';
import { TIME_SERIES_GROUPINGS } from '../values.ts';
import { toolCallErrorCategory, toolCallOutcome } from './tool-calls.ts';

/** Shortest step of the time series, in seconds. */
export const TIME_SERIES_STEP_S = 10;
/** Time for which they are stored, in seconds. */
export const TIME_SERIES_SPAN_S = 3_600;
/** Largest number of series of one kind; the rest is one series. */
export const MAX_TIME_SERIES = 200;

/** What calls can be grouped by. */
export const timeSeriesGrouping = z.enum(TIME_SERIES_GROUPINGS);

const counts = z.array(z.number().int().nonnegative());
const values = z.array(z.number().nonnegative().nullable());
const latencies = values.describe('Milliseconds, interpolated between fixed bounds; null without a finished call');

/** Tool calls of one group over time. */
const callSeries = z
  .object({
    labels: z
      .object({
        namespace: z.string().optional(),
        forward: z.string().optional(),
        service: z.string().optional().describe('Capability service that executes the tools; in place of a forward'),
        tool: z.string().optional(),
        method: z.string().optional().describe('MCP method'),
        outcome: toolCallOutcome.optional(),
        category: toolCallErrorCategory.optional().describe('Category of calls with the outcome `failed`'),
        other: z.literal(true).optional().describe('All calls that have no series of their own'),
      })
      .describe('Empty for all calls'),
    calls: counts.describe(
      'Calls that ended. Calls that an evaluator rejected are none of a forward or service: they were not sent',
    ),
    errors: counts.describe('The sum of `failed`, `tool_errors` and `timeouts`'),
    failed: counts.describe('Calls without a usable result'),
    tool_errors: counts.describe('Calls whose tool reported an error'),
    timeouts: counts.describe('Calls without a result in time'),
    canceled: counts.describe('Calls that their client canceled'),
    blocked: counts.describe('Calls that an evaluator blocked'),
    p50_ms: latencies,
    p95_ms: latencies,
  })
  .meta({ id: 'CallSeries' });

/** Response of `GET /api/v1/time-series`. Each list has one element per step. */
export const timeSeries = z
  .object({
    since: z.iso.datetime({ precision: 3 }).describe('Begin of the first step, UTC'),
    step: z.number().int().describe('Seconds'),
    service: z
      .object({
        completions: values.describe('Completions that were recorded'),
        event_loop_delay_ms: values.describe('99th percentile of the delay of timers'),
        rss_bytes: values.describe('Resident memory of the process at the end of the step'),
        heap_bytes: values.describe('Used memory of the JavaScript heap at the end of the step'),
      })
      .describe('The process; null before its start and for the current step'),
    series: z.array(callSeries).describe('One without `by`, else the busiest first'),
  })
  .meta({ id: 'TimeSeries' });

export type TimeSeriesGrouping = z.infer<typeof timeSeriesGrouping>;
export type CallSeries = z.infer<typeof callSeries>;
export type TimeSeriesResponse = z.infer<typeof timeSeries>;
