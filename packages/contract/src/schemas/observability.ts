import { z } from 'zod';

const count = z.number().int().nonnegative();

const duration = z
  .object({
    count: count.describe('Number of measurements'),
    total_ms: z.number().nonnegative().describe('Sum of all measurements, in milliseconds'),
    avg_ms: z.number().nonnegative().describe('`total_ms` divided by `count`; 0 without measurements'),
  })
  .meta({ id: 'Duration', description: 'Duration in milliseconds with three decimals' });

const filterMetrics = z
  .object({
    requests_continue: count.describe('Requests passed to the next filter'),
    requests_reject: count.describe('Requests rejected with a JSON-RPC error or an HTTP status of 400 or above'),
    requests_other: count.describe('Requests answered in any other way: result, stream, batch, HTTP status below 400'),
    errors: count.describe('Exceptions thrown by the filter'),
    duration: duration.describe(
      'Time spent in the filter until it passed on or answered the request, including waiting but not streaming',
    ),
  })
  .meta({
    id: 'FilterMetrics',
    description: 'Counters of a filter. Each message of a batch counts as one request',
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
    pipeline_duration: duration.describe('Duration of the whole evaluation'),
    failures: z.object({
      llm_failure: count,
      action_failure: count,
      busy: count.describe('Requests that were rejected because there was no room to evaluate them'),
      consecutive: count.describe('Failures since the last decision, without busy evaluations'),
      last: z
        .object({
          at: z.iso.datetime({ precision: 3 }).describe('UTC'),
          message: z.string(),
          reason: z
            .object({
              kind: z.string().describe('Category of the failure'),
              status: z.int().optional().describe('HTTP status of the model server'),
              param: z.string().optional().describe('Member of the request that its error names'),
              code: z.string().optional().describe('Kind of its error'),
            })
            .optional()
            .describe('Why it failed, in identifiers of at most 64 characters'),
        })
        .optional()
        .describe('The latest failure'),
    }),
  })
  .meta({ id: 'EvaluatorMetrics', description: 'Counters of an evaluator' });

/** Counters of an evaluator. */
export type EvaluatorMetrics = z.output<typeof evaluatorMetrics>;

/** Failures after which earlier decisions do not matter. */
const MANY_FAILURES = 3;

/**
 * Why the last runs of an evaluator have all failed, in identifiers: `status, HTTP 400, param temperature`. Undefined if one of
 * them decided.
 */
export function failingReason({ failures, pipeline_duration: { count: runs } }: EvaluatorMetrics): string | undefined {
  const { consecutive, busy, last } = failures;
  if (consecutive === 0 || (consecutive < MANY_FAILURES && consecutive < runs - busy)) return undefined;
  const { kind = 'unknown', status, param, code } = last?.reason ?? {};
  const details = [kind, status && `HTTP ${status}`, param && `param ${param}`, code && `code ${code}`];
  return details.filter(Boolean).join(', ');
}

/** Response of `GET /api/v1/metrics`: counters since the start of the process. */
export const metrics = z
  .object({
    filters: z
      .record(z.string(), filterMetrics)
      .describe(
        'Filter counters by filter name, in chain order; those of `service_methods` by filter and method (`service_methods ping`)',
      ),
    evaluators: z.record(z.string(), evaluatorMetrics).describe('Evaluator counters by evaluator name'),
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
      .describe('Trigger counters; `skipped_*` counts evaluations skipped for lack of that input'),
    gauges: z
      .object({
        evaluators_loaded: count,
        evaluators_skipped: count.describe('Evaluators that could not be loaded and do not run'),
        wasm_compiled: count,
        namespace_bindings: count,
      })
      .describe('Current values'),
    hosts: z
      .object({
        running: count.describe('With a run, or loading an action'),
        idle: count,
        spare: count.describe('Replaces one that is killed'),
        waiting: count.describe('Runs that wait for a host'),
        started: count.describe('Since the process started'),
        ended: count.describe('Ended since the process started: over a limit, crashed, or replaced'),
      })
      .optional()
      .describe('Host processes, which run actions; missing in earlier versions'),
  })
  .meta({ id: 'Metrics' });

export type Metrics = z.infer<typeof metrics>;
/** Counters of one filter. */
export type FilterMetrics = Metrics['filters'][string];
/** Count, sum and average of a duration. */
export type DurationMetrics = FilterMetrics['duration'];

/** Response of `GET /readyz`. */
export const readiness = z
  .object({
    status: z.literal('ready'),
    skipped_evaluators: z
      .array(z.string())
      .optional()
      .describe('Names of the evaluators that could not be loaded and do not run; omitted if there are none'),
    database: z
      .literal('unreachable')
      .optional()
      .describe('The last known state is served and cannot be changed; omitted otherwise'),
  })
  .meta({ id: 'Readiness' });

/** Response of `GET /api/v1/management/statistics`: totals over all namespaces. */
export const statistics = z
  .object({
    toolsCount: z.number().int(),
    resourcesCount: z.number().int(),
    promptsCount: z.number().int(),
    forwardsCount: z.number().int(),
    dataStoresCount: z.literal(0),
  })
  .meta({ id: 'Statistics' });

/** Response of a readiness check. */
export type Readiness = z.infer<typeof readiness>;
export type Statistics = z.infer<typeof statistics>;
