import { monitorEventLoopDelay } from 'node:perf_hooks';
import { getHeapStatistics } from 'node:v8';
import {
  type CallSeries,
  isErrorOutcome,
  MAX_TIME_SERIES,
  TIME_SERIES_SPAN_S,
  TIME_SERIES_STEP_S,
  type TimeSeriesGrouping,
  type TimeSeriesResponse,
  type ToolCallErrorCategory,
  type ToolCallOutcome,
  toolCallOutcome,
} from '@sluice/contract';
import type { EventRing } from './event-ring.ts';
import { bucketOf, MCP_SECONDS, roundMs } from './metrics/instruments.ts';
import { residentBytes } from './metrics/metric-source.ts';
import type { RequestMetrics } from './metrics/request-metrics.ts';
import { type LastEventDetails, outcomeOf, type ToolCallRecord } from './tool-calls/event.ts';

const STEP_MS = TIME_SERIES_STEP_S * 1000;
/** Steps that are stored. */
const STEPS = TIME_SERIES_SPAN_S / TIME_SERIES_STEP_S;

/** Upper limits of the latency buckets in milliseconds; the last bucket is for longer calls. */
const BOUNDS = Float64Array.of(
  ...[0.5, 1, 2, 3, 5, 7.5, 10, 15, 25, 50, 75, 100, 150, 250, 500, 1_000, 2_500, 5_000, 15_000, 60_000],
);
/** The same for requests by method, whose durations {@link RequestMetrics} has. */
const METHOD_BOUNDS = Float64Array.from(MCP_SECONDS, (seconds) => seconds * 1000);

/** Interval of the timer whose delay is measured; the measured values include it. */
const DELAY_RESOLUTION_MS = 50;

const OUTCOMES = toolCallOutcome.options;

/** Calls of one group: 39 KiB, whatever their number. */
class CallCounts {
  readonly labels: CallSeries['labels'];
  readonly bounds: Float64Array;
  /** Number of the latest step with a call. */
  latest = 0;
  /** A row per step: its number, then its calls by outcome and by latency bucket. */
  readonly #rows: Uint32Array;
  readonly #width: number;

  constructor(labels: CallSeries['labels'], bounds: Float64Array) {
    this.labels = labels;
    this.bounds = bounds;
    this.#width = 1 + OUTCOMES.length + bounds.length + 1;
    this.#rows = new Uint32Array(STEPS * this.#width);
  }

  /** Counts a call in a step; `bucket` is undefined for a call that was not sent. */
  add(step: number, outcome: ToolCallOutcome, bucket: number | undefined): void {
    const first = this.#open(step);
    increment(this.#rows, first + OUTCOMES.indexOf(outcome));
    if (bucket !== undefined) increment(this.#rows, first + OUTCOMES.length + bucket);
  }

  /** Counts several calls in a step, by outcome and by latency bucket. */
  addAll(step: number, counts: readonly number[]): void {
    const first = this.#open(step);
    for (const [at, count] of counts.entries()) increment(this.#rows, first + at, count);
  }

  /** Returns the place of the counts of a step, whose row is emptied if it still has an earlier one. */
  #open(step: number): number {
    const row = (step % STEPS) * this.#width;
    if (this.#rows[row] !== step) {
      this.#rows.fill(0, row, row + this.#width);
      this.#rows[row] = step;
    }
    this.latest = step;
    return row + 1;
  }

  /** Number of calls from one step to another. */
  total(first: number, last: number): number {
    let sum = 0;
    for (let row = 0; row < this.#rows.length; row += this.#width) {
      const step = this.#rows[row] ?? 0;
      if (step < first || step > last) continue;
      for (let at = 1; at <= OUTCOMES.length; at++) sum += this.#rows[row + at] ?? 0;
    }
    return sum;
  }

  /** Returns the calls of `count` steps from `first` on, by outcome and by latency bucket. */
  sum(first: number, count: number): Float64Array {
    const sums = new Float64Array(this.#width - 1);
    for (let step = first; step < first + count; step++) {
      const row = (step % STEPS) * this.#width;
      if (this.#rows[row] !== step) continue;
      for (let at = 0; at < sums.length; at++) sums[at] = (sums[at] ?? 0) + (this.#rows[row + 1 + at] ?? 0);
    }
    return sums;
  }
}

function increment(counts: Uint32Array, at: number, by = 1): void {
  counts[at] = (counts[at] ?? 0) + by;
}

type LabelsOf<First, Second> = (first: First, second: Second | '') => CallSeries['labels'];

/** The groups of one kind: at most 200, and one for all calls beyond. A group without calls for an hour makes room. */
class CallGroups<First extends string = string, Second extends string = string> {
  /** By the two parts of their keys: to find one, no text has to be made of them. */
  readonly #groups = new Map<First, Map<Second | '', CallCounts>>();
  #size = 0;
  readonly #labelsOf: LabelsOf<First, Second>;
  readonly #bounds: Float64Array;
  readonly #other: CallCounts;
  /** The step in which there was last no room. */
  #fullIn = 0;

  /** `labelsOf` returns the labels of the group with a key. */
  constructor(labelsOf: LabelsOf<First, Second>, bounds: Float64Array = BOUNDS) {
    this.#labelsOf = labelsOf;
    this.#bounds = bounds;
    this.#other = new CallCounts({ other: true }, bounds);
  }

  /** Returns the group with a key, for a call in this step. */
  group(step: number, first: First, second: Second | '' = ''): CallCounts {
    const known = this.#groups.get(first)?.get(second);
    if (known) return known;
    if (this.#size >= MAX_TIME_SERIES && !this.#makeRoom(step)) return this.#other;
    const added = new CallCounts(this.#labelsOf(first, second), this.#bounds);
    this.#groups.getOrInsertComputed(first, () => new Map()).set(second, added);
    this.#size++;
    return added;
  }

  /** The groups with calls from one step to another, the busiest first. */
  since(first: number, last: number): CallCounts[] {
    const all = [...this.#groups.values().flatMap((groups) => groups.values()), this.#other];
    const groups = all.map((group) => ({ group, calls: group.total(first, last) }));
    const busy = groups.filter(({ calls }) => calls > 0).sort((a, b) => b.calls - a.calls);
    return busy.map(({ group }) => group);
  }

  #makeRoom(step: number): boolean {
    // Looked for once per step: there may be many new names.
    if (this.#fullIn === step) return false;
    for (const [first, groups] of this.#groups) {
      for (const [second, { latest }] of groups) if (latest <= step - STEPS && groups.delete(second)) this.#size--;
      if (groups.size === 0) this.#groups.delete(first);
    }
    if (this.#size >= MAX_TIME_SERIES) this.#fullIn = step;
    return this.#size < MAX_TIME_SERIES;
  }
}

/** State of the process in one step. */
interface ServiceSample {
  readonly step: number;
  readonly completions: number;
  readonly delayMs: number;
  readonly rss: number;
  readonly heap: number;
}

/** Dependencies of {@link TimeSeries}. */
export interface TimeSeriesOptions {
  readonly toolCalls: { readonly ring: EventRing<ToolCallRecord> };
  readonly requests: Pick<RequestMetrics, 'mcpMethods'>;
  /** Number of recorded completions since the start. */
  readonly completions: () => number;
  /** Milliseconds since the Unix epoch. */
  readonly now?: () => number;
}

/** Selects what {@link TimeSeries.read} returns. */
export interface TimeSeriesQuery {
  /** Milliseconds since the Unix epoch; at most an hour ago. */
  readonly since: number;
  /** Milliseconds; a multiple of ten seconds. */
  readonly step: number;
  readonly by?: TimeSeriesGrouping | undefined;
}

/** Time series without those of calls, which are read one by one. */
export interface TimeSeriesReading extends Omit<TimeSeriesResponse, 'series'> {
  readonly series: Iterable<CallSeries>;
}

/**
 * The last hour in steps of ten seconds: tool calls by namespace, forward, tool and outcome, requests by method, completions and
 * the process. At most 26 MiB.
 *
 * Tool calls are counted from their stored events, 500 at a time and before they are read, so that the path of a call has
 * none of it but a comparison. Requests by method are the differences of their metrics between two steps.
 */
export class TimeSeries {
  readonly #ring: EventRing<ToolCallRecord>;
  readonly #options: TimeSeriesOptions;
  readonly #now: () => number;
  readonly #all = new CallCounts({}, BOUNDS);
  readonly #groups = {
    namespace: new CallGroups((namespace) => ({ namespace })),
    forward: new CallGroups((kind, name) => ({ [kind]: name })),
    tool: new CallGroups((namespace, tool) => ({ namespace, tool })),
    method: new CallGroups((method) => ({ method }), METHOD_BOUNDS),
    outcome: new CallGroups<ToolCallOutcome, ToolCallErrorCategory>((outcome, category) => ({
      outcome,
      ...(category !== '' && { category }),
    })),
  } satisfies Record<TimeSeriesGrouping, Pick<CallGroups, 'since'>>;
  readonly #samples = new Array<ServiceSample | undefined>(STEPS).fill(undefined);
  readonly #delay: ReturnType<typeof monitorEventLoopDelay> = monitorEventLoopDelay({
    resolution: DELAY_RESOLUTION_MS,
  });
  /** Number of the next event to count. */
  #position: number;
  #completions = 0;
  /** Requests by method when they were counted last. */
  #methods: ReturnType<RequestMetrics['mcpMethods']> = new Map();
  #timer: NodeJS.Timeout | undefined = undefined;

  constructor(options: TimeSeriesOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#ring = options.toolCalls.ring;
    this.#position = this.#ring.end;
    this.#ring.onHalfFull = () => this.#countCalls();
  }

  /** Starts sampling the process. */
  start(): void {
    this.#delay.enable();
    this.#schedule();
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#delay.disable();
  }

  /** Samples the process for the step that ends now. Called at the begin of each step. */
  sample(): void {
    const step = Math.floor(this.#now() / STEP_MS) - 1;
    const completions = this.#options.completions();
    const heap = getHeapStatistics().used_heap_size;
    const rss = residentBytes() ?? this.#samples[(step - 1) % STEPS]?.rss ?? heap;
    const delayMs = roundMs(Math.max(0, this.#delay.percentile(99) / 1e6 - DELAY_RESOLUTION_MS));
    this.#delay.reset();
    this.#samples[step % STEPS] = { step, completions: completions - this.#completions, delayMs, rss, heap };
    this.#completions = completions;
    this.#countCalls();
    this.#countMethods(step);
  }

  /** Returns the selected series. The last step is the current one, which is not complete. */
  read({ since, step, by }: TimeSeriesQuery): TimeSeriesReading {
    this.#countCalls();
    const perPoint = step / STEP_MS;
    const now = Math.floor(this.#now() / STEP_MS);
    if (by === 'method') this.#countMethods(now);
    const oldest = Math.max(Math.floor(since / STEP_MS), now - STEPS + 1);
    const first = Math.floor(oldest / perPoint) * perPoint;
    const points = Array.from({ length: Math.ceil((now - first + 1) / perPoint) }, (_, at) => first + at * perPoint);
    const counts = by === undefined ? [this.#all] : this.#groups[by].since(first, now);
    return {
      since: new Date(first * STEP_MS).toISOString(),
      step: step / 1000,
      service: this.#service(points, perPoint),
      series: counts.values().map((each) => readSeries(each, points, perPoint)),
    };
  }

  #service(points: readonly number[], perPoint: number): TimeSeriesResponse['service'] {
    const samples = points.map((first) =>
      Array.from({ length: perPoint }, (_, at) => first + at).flatMap((step) => {
        const sample = this.#samples[step % STEPS];
        return sample?.step === step ? [sample] : [];
      }),
    );
    const combine = (value: (sample: ServiceSample) => number, combined: (values: number[]) => number) =>
      samples.map((found) => (found.length === 0 ? null : combined(found.map(value))));
    const sum = (values: number[]) => values.reduce((total, each) => total + each, 0);
    const largest = (values: number[]) => Math.max(...values);
    return {
      completions: combine(({ completions }) => completions, sum),
      event_loop_delay_ms: combine(({ delayMs }) => delayMs, largest),
      rss_bytes: combine(({ rss }) => rss, largest),
      heap_bytes: combine(({ heap }) => heap, largest),
    };
  }

  #schedule(): void {
    const next = STEP_MS - (this.#now() % STEP_MS);
    this.#timer = setTimeout(() => {
      this.sample();
      this.#schedule();
    }, next).unref();
  }

  #countCalls(): void {
    for (let record = this.#ring.at(this.#position); record; record = this.#ring.at(this.#position)) {
      this.#position++;
      if (record.details.type !== 'STARTED') this.#count(record, record.details);
    }
    // After events that were overwritten, which the ring prevents.
    this.#position = this.#ring.end;
  }

  #countMethods(step: number): void {
    const methods = this.#options.requests.mcpMethods();
    for (const [method, counts] of methods) {
      const before = this.#methods.get(method);
      const added = counts.map((count, at) => count - (before?.[at] ?? 0));
      if (added.some((count) => count > 0)) this.#groups.method.group(step, method).addAll(step, added);
    }
    this.#methods = methods;
  }

  #count({ at, identity }: ToolCallRecord, details: LastEventDetails): void {
    const { namespace, forward, toolName: tool } = identity;
    const { id: service } = identity.service;
    const { namespace: namespaces, forward: forwards, tool: tools, outcome: outcomes } = this.#groups;
    const step = Math.floor(at / STEP_MS);
    const outcome = outcomeOf(details);
    const category = details.type === 'FAILED' && outcome === 'failed' ? details.category : undefined;
    const counts = [
      this.#all,
      namespaces.group(step, namespace),
      tools.group(step, namespace, tool),
      outcomes.group(step, outcome, category),
    ];
    // An evaluator rejected the call, or there was no room to evaluate it: forward and service neither got it nor failed.
    const isUnsent = details.type === 'FAILED' && details.evaluator !== undefined;
    if (!isUnsent && forward !== undefined) counts.push(forwards.group(step, 'forward', forward));
    else if (!isUnsent && service !== undefined) counts.push(forwards.group(step, 'service', service));
    // A call that fails before its start has no latency.
    const bucket = details.durationMs > 0 ? bucketOf(details.durationMs, BOUNDS) : undefined;
    for (const each of counts) each.add(step, outcome, bucket);
  }
}

function readSeries(counts: CallCounts, points: readonly number[], perPoint: number): CallSeries {
  const sums = points.map((first) => counts.sum(first, perPoint));
  const total = (isCounted: (outcome: ToolCallOutcome) => boolean) =>
    sums.map((sum) => OUTCOMES.reduce((sofar, outcome, at) => sofar + (isCounted(outcome) ? (sum[at] ?? 0) : 0), 0));
  const only = (counted: ToolCallOutcome) => total((outcome) => outcome === counted);
  return {
    labels: counts.labels,
    calls: total(() => true),
    errors: total(isErrorOutcome),
    failed: only('failed'),
    tool_errors: only('tool_error'),
    timeouts: only('timeout'),
    canceled: only('canceled'),
    blocked: only('blocked'),
    p50_ms: sums.map((sum) => percentile(sum.subarray(OUTCOMES.length), counts.bounds, 0.5)),
    p95_ms: sums.map((sum) => percentile(sum.subarray(OUTCOMES.length), counts.bounds, 0.95)),
  };
}

/** Returns a percentile, interpolated within its bucket; null without values. */
function percentile(buckets: Float64Array, bounds: Float64Array, rank: number): number | null {
  const total = buckets.reduce((sum, count) => sum + count, 0);
  if (total === 0) return null;
  let below = 0;
  for (let at = 0; at < buckets.length; at++) {
    const count = buckets[at] ?? 0;
    if (below + count >= rank * total && count > 0) {
      const low = at === 0 ? 0 : (bounds[at - 1] ?? 0);
      // Nothing is known of the longest calls but their least duration.
      const high = bounds[at] ?? low;
      return roundMs(low + ((rank * total - below) / count) * (high - low));
    }
    below += count;
  }
  return bounds.at(-1) ?? null;
}
