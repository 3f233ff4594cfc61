import { z } from 'zod';

const count = z.number().int().nonnegative();

const duration = z
  .object({
    count: count.describe('How often it was measured'),
    total_ms: z.number().nonnegative().describe('All measurements together, in milliseconds'),
    avg_ms: z.number().nonnegative().describe('`total_ms` divided by `count`; 0 where nothing was measured'),
  })
  .meta({ id: 'Duration', description: 'How long something took; milliseconds have three decimals' });

const filterMetrics = z
  .object({
    requests_continue: count.describe('Requests passed on'),
    requests_reject: count.describe('Requests answered with a JSON-RPC error, or plainly with HTTP 400 or above'),
    requests_other: count.describe(
      'Requests answered in any other way: a result, a stream, a batch, plain HTTP below 400',
    ),
    errors: count.describe('Requests that the filter broke on: it threw'),
    duration: duration.describe(
      'Time in the filter itself until it passed on, answered or broke, waiting included; what a stream goes on to do is not',
    ),
  })
  .meta({
    id: 'FilterMetrics',
    description: 'What one filter did with the requests that reached it; each message of a batch is one more',
  });

const evaluatorMetrics = z
  .object({
    decisions: z.object({
      pass: count,
      block: count,
      reject_malformed: count,
      warn: count,
      filter_tools: count,
      set_metadata: count,
    }),
    llm: z.object({ calls_success: count, calls_failure: count, empty_results: count, duration }),
    schema: z.object({
      validations_pass: count,
      validations_fail: count,
      retries_success: count,
      retries_failure: count,
    }),
    wasm: z.object({ executions: count, not_found: count, duration }),
    pipeline_duration: duration.describe('Time of the whole run'),
  })
  .meta({ id: 'EvaluatorMetrics', description: 'What one evaluator decided, and what its runs were made of' });

/** Answer of `GET /api/v1/metrics` (decisions 4.4, "Metrics"): counters since start, kept in memory. */
export const metrics = z
  .object({
    filters: z.record(z.string(), filterMetrics).describe('By the name of the filter, in the order of the chain'),
    evaluators: z.record(z.string(), evaluatorMetrics).describe('By the name of the evaluator'),
    pipeline: z
      .object({
        trigger_matches: count,
        trigger_misses: count,
        skipped_no_method: count,
        skipped_no_state: count,
        skipped_no_match: count,
        skipped_no_registry: count,
        skipped_no_interactions: count,
      })
      .describe('Triggers of evaluators; `skipped_*` are runs not made because that input was absent'),
    gauges: z
      .object({ evaluators_loaded: count, wasm_compiled: count, namespace_bindings: count })
      .describe('What is loaded now'),
  })
  .meta({ id: 'Metrics' });

export type Metrics = z.infer<typeof metrics>;
/** Counters of one filter, as they are answered. */
export type FilterMetrics = Metrics['filters'][string];
/** Counters of one evaluator, as they are answered. */
export type EvaluatorMetrics = Metrics['evaluators'][string];
/** A measured duration, as it is answered. */
export type DurationMetrics = FilterMetrics['duration'];
