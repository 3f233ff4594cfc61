import type { DurationMetrics } from '@sluice/contract';
import { attributeText } from '../redaction.ts';

/** Distribution of the values of one series. */
export class Histogram {
  readonly attributes: MetricAttributes;
  readonly #bounds: Float64Array;
  /** One more than bounds: the last bucket is for values beyond them. */
  readonly #buckets: Float64Array;
  #count = 0;
  #sum = 0;

  /** `bounds` are the upper limits of the buckets, ascending. */
  constructor(attributes: MetricAttributes, bounds: Float64Array) {
    this.attributes = attributes;
    this.#bounds = bounds;
    this.#buckets = new Float64Array(bounds.length + 1);
  }

  /** Records a value; negative values and non-numbers are ignored. Part of the hot path: allocates nothing. */
  record(value: number): void {
    if (!(value >= 0 && value < Number.POSITIVE_INFINITY)) return;
    const at = bucketOf(value, this.#bounds);
    this.#buckets[at] = (this.#buckets[at] ?? 0) + 1;
    this.#count++;
    this.#sum += value;
  }

  /** The current distribution. */
  get value(): Distribution {
    return { count: this.#count, sum: this.#sum, buckets: Array.from(this.#buckets) };
  }
}

/** Returns the index of the bucket for a value; `bounds` are the upper limits of the buckets, ascending. */
export function bucketOf(value: number, bounds: Float64Array): number {
  // Most values are small: a linear search is faster than a binary one.
  let at = 0;
  while (at < bounds.length && value > (bounds[at] ?? 0)) at++;
  return at;
}

/** Limit of the series of a metric, with the overflow series: that of OpenTelemetry. */
const MAX_SERIES = 2000;

/** Attributes of the series for values beyond the limit (OpenTelemetry's convention). */
const OVERFLOW: MetricAttributes = { 'otel.metric.overflow': true };

/** What a metric records of an operation. */
interface SeriesOf<Operation> {
  /** Identifies the series; parts without a value do not count. */
  readonly key: (operation: Operation) => SeriesKey;
  /** The attributes of the series. */
  readonly attributes: (operation: Operation) => MetricAttributes;
}

/** Parts of the key of a series; undefined ones are skipped. */
type SeriesKey = readonly (string | number | undefined)[];

/** Series whose keys begin in the same way. */
class SeriesNode {
  series: Histogram | undefined = undefined;
  /** By the next part of the key. */
  readonly next = new Map<string | number, SeriesNode>();
}

/**
 * A histogram metric with its series, of values that operations have. Attributes contain names that others choose: beyond the
 * limit, new series are merged into one overflow series without attributes.
 */
export class HistogramFamily<Operation extends { readonly seconds: number }> {
  readonly #description: MetricDescription;
  readonly #bounds: Float64Array;
  readonly #seriesOf: SeriesOf<Operation>;
  readonly #series: Histogram[] = [];
  #overflow: Histogram | undefined = undefined;
  /** The series by the parts of their keys: to find one, no text has to be made of them. */
  readonly #root = new SeriesNode();

  constructor(description: MetricDescription, bounds: readonly number[], seriesOf: SeriesOf<Operation>) {
    this.#description = description;
    this.#bounds = Float64Array.from(bounds);
    this.#seriesOf = seriesOf;
  }

  /** Records a value of an operation that has ended: its duration by default. Part of the hot path. */
  record(operation: Operation, value: number = operation.seconds): void {
    const key = this.#seriesOf.key(operation);
    let node: SeriesNode | undefined = this.#root;
    for (const part of key) if (part !== undefined) node = node?.next.get(part);
    (node?.series ?? this.#open(operation, key)).record(value);
  }

  /** Adds the series of a new key; returns the overflow series beyond the limit. */
  #open(operation: Operation, key: SeriesKey): Histogram {
    if (this.#series.length >= MAX_SERIES - 1) {
      this.#overflow ??= new Histogram(OVERFLOW, this.#bounds);
      return this.#overflow;
    }
    let node = this.#root;
    for (const part of key) if (part !== undefined) node = node.next.getOrInsertComputed(part, () => new SeriesNode());
    node.series = new Histogram(this.#seriesOf.attributes(operation), this.#bounds);
    this.#series.push(node.series);
    return node.series;
  }

  /** The current values. */
  get metric(): HistogramMetric {
    const all = this.#overflow ? [...this.#series, this.#overflow] : this.#series;
    const series = all.map(({ attributes, value }) => ({ attributes, value }));
    return { ...this.#description, kind: 'histogram', bounds: Array.from(this.#bounds), series };
  }
}

/** Attributes of a series; labels in Prometheus. */
export type MetricAttributes = Readonly<Record<string, string | number | boolean>>;

/** Description of a metric, in OpenTelemetry's terms. */
export interface MetricDescription {
  /** Name with dots, as in the semantic conventions. */
  readonly name: string;
  readonly description: string;
  /** `s`, `By`, `1` for a ratio, or the counted item in braces. */
  readonly unit: string;
}

/** Value of one series. */
export interface Series<Value> {
  readonly attributes: MetricAttributes;
  readonly value: Value;
}

/** Value of a histogram series. */
export interface Distribution {
  readonly count: number;
  readonly sum: number;
  /** Counts per bucket, not cumulative; the last one counts values beyond the last bound. */
  readonly buckets: readonly number[];
}

/** One number per series: a `counter` is monotonic, an `updowncounter` is additive over series, a `gauge` is neither. */
export interface NumberMetric extends MetricDescription {
  readonly kind: 'counter' | 'updowncounter' | 'gauge';
  readonly series: readonly Series<number>[];
}

/** One distribution per series. */
export interface HistogramMetric extends MetricDescription {
  readonly kind: 'histogram';
  /** Upper limits of all buckets except the last. */
  readonly bounds: readonly number[];
  readonly series: readonly Series<Distribution>[];
}

/** Values of a metric at one time. */
export type Metric = NumberMetric | HistogramMetric;

/** The latency of the gateway itself is below a millisecond, where the conventions have no bounds. */
const SUB_MILLISECOND = [0.0005, 0.001, 0.0025];

/** Bounds of HTTP request durations in seconds, from the semantic conventions. */
export const HTTP_SECONDS: readonly number[] = [
  ...SUB_MILLISECOND,
  ...[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10],
];

/** Bounds of MCP operation durations in seconds, from the semantic conventions. */
export const MCP_SECONDS: readonly number[] = [
  ...SUB_MILLISECOND,
  ...[0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300],
];

/** Bounds of completion durations in seconds, from the GenAI conventions. */
export const COMPLETION_SECONDS: readonly number[] = [
  ...[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92],
];

/** Bounds of token counts, from the GenAI conventions. */
export const TOKENS: readonly number[] = Array.from({ length: 14 }, (_, power) => 4 ** power);

/** Value of the semantic conventions for unknown names. */
export const OTHER = '_OTHER';

/** Returns the server attributes of `host:port`; the address has no brackets. */
export function serverAddress(server: string): MetricAttributes {
  const colon = server.lastIndexOf(':');
  const port = Number(server.slice(colon + 1));
  if (colon <= 0 || !Number.isInteger(port)) return server === '' ? {} : { 'server.address': attributeText(server) };
  const host = server.slice(0, colon);
  const bare = host.startsWith('[') ? host.slice(1, -1) : host;
  return { 'server.address': attributeText(bare), 'server.port': port };
}

/** Number and sum of durations. */
export class Durations {
  #count = 0;
  #totalMs = 0;

  /** Adds a duration in milliseconds. */
  add(ms: number): void {
    this.#count++;
    this.#totalMs += ms;
  }

  /** Returns the metrics of the durations so far. */
  snapshot(): DurationMetrics {
    return durationMetrics(this.#count, this.#totalMs);
  }
}

/** Returns milliseconds with three decimals; the average of no durations is 0. */
export function durationMetrics(count: number, totalMs: number): DurationMetrics {
  const average = count === 0 ? 0 : totalMs / count;
  return { count, total_ms: roundMs(totalMs), avg_ms: roundMs(average) };
}

/** Rounds milliseconds to three decimals. */
export function roundMs(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}
