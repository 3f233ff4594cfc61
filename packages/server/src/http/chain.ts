import type { FilterCounters, ServiceMetrics } from '../telemetry/metrics/service-metrics.ts';
import type { RequestContext } from './context.ts';
import type { Outcome } from './outcome.ts';

/** What a chain has to know of an outcome; chains of other protocols have further kinds. */
export interface AnyOutcome {
  readonly kind: string;
  readonly status?: number;
}

/**
 * One step of a chain. Returns the outcome of the request, or undefined to pass it on. A promise is returned only by a
 * filter that has to wait.
 */
export type Filter<Context extends RequestContext = RequestContext, Result extends AnyOutcome = Outcome> = (
  context: Context,
) => Result | undefined | Promise<Result | undefined>;

/** A filter under its name in the pipeline file and in the metrics (decisions 1.4). */
export interface NamedFilter<F> {
  readonly name: string;
  readonly filter: F;
}

/**
 * Compiles filters into one function that runs them in order; it returns undefined when no filter responds. No promise is
 * created as long as no filter waits.
 *
 * Each filter that a request reaches counts it once (decisions 4.4, "Metrics"):
 *
 * - continue: the filter passed the request on
 * - reject: the outcome was an error, or a plain one of HTTP 400 or above
 * - other: any other outcome. The result of a stream is not known here; the messages of a batch are counted one by one
 * - errors: the filter threw or its promise was rejected; the chain fails with the same error
 *
 * The duration of a filter includes waiting, but not what follows from its outcome. Counting costs 0.05 µs per filter
 * (measured), mostly reading the clock; therefore one reading ends a filter and starts the next.
 */
export function compile<Context extends RequestContext, Result extends AnyOutcome>(
  filters: readonly NamedFilter<Filter<Context, Result>>[],
  metrics: Pick<ServiceMetrics, 'filter'>,
): Filter<Context, Result> {
  const steps = filters.map(({ name, filter }) => ({ name, filter, counters: metrics.filter(name) }));
  const first = steps.reduceRight<Stage<Context, Result>>(
    (next, { name, filter, counters }) => stage(name, filter, counters, next),
    () => undefined,
  );
  return (context) => first(context, performance.now());
}

/** A filter and all that follow it. `since` is the time when the filter received the request (`performance.now()`). */
type Stage<Context extends RequestContext, Result extends AnyOutcome> = (
  context: Context,
  since: number,
) => ReturnType<Filter<Context, Result>>;

function stage<Context extends RequestContext, Result extends AnyOutcome>(
  name: string,
  filter: Filter<Context, Result>,
  counters: FilterCounters,
  next: Stage<Context, Result>,
): Stage<Context, Result> {
  const settle = (context: Context, outcome: Result | undefined, since: number): ReturnType<Stage<Context, Result>> => {
    const now = performance.now();
    if (outcome === undefined) {
      counters.passed(now - since);
      return next(context, now);
    }
    if (isRejection(outcome)) counters.rejected(now - since);
    else counters.answered(now - since);
    if (context.observation) context.observation.filter = name;
    return outcome;
  };
  const fail = (error: unknown, since: number): never => {
    counters.broke(performance.now() - since);
    throw error;
  };
  return (context, since) => {
    let outcome: ReturnType<Filter<Context, Result>>;
    try {
      outcome = filter(context);
    } catch (error) {
      return fail(error, since);
    }
    if (!(outcome instanceof Promise)) return settle(context, outcome, since);
    return outcome.then(
      (settled) => settle(context, settled, since),
      (error: unknown) => fail(error, since),
    );
  };
}

/** Returns whether the outcome rejects the request: a JSON-RPC error, or an HTTP response of status 400 or above. */
export function isRejection(outcome: AnyOutcome): boolean {
  return outcome.kind === 'error' || (outcome.kind === 'plain' && (outcome.status ?? 0) >= 400);
}
