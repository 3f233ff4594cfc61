import type { DurationMetrics } from '@sluice/contract';

/** How the values of one series are distributed. */
export class Histogram {
  readonly attributes: MetricAttributes;
  readonly #bounds: Float64Array;
  /** One more than bounds: the last is for what lies beyond them. */
  readonly #buckets: Float64Array;
  #count = 0;
  #sum = 0;

  /** `bounds`: the greatest value of each bucket, ascending. */
  constructor(attributes: MetricAttributes, bounds: Float64Array) {
    this.attributes = attributes;
    this.#bounds = bounds;
    this.#buckets = new Float64Array(bounds.length + 1);
  }

  /** Counts a value; one that is no number from 0 on is none. Part of the hot path: makes no objects. */
  record(value: number): void {
    if (!(value >= 0 && value < Number.POSITIVE_INFINITY)) return;
    const bounds = this.#bounds;
    // Most values are small, so that they are found sooner from below than by halves.
    let at = 0;
    while (at < bounds.length && value > (bounds[at] ?? 0)) at++;
    this.#buckets[at] = (this.#buckets[at] ?? 0) + 1;
    this.#count++;
    this.#sum += value;
  }

  /** What has been counted so far. */
  get value(): Distribution {
    return { count: this.#count, sum: this.#sum, buckets: Array.from(this.#buckets) };
  }
}

/** So many series a metric has at most: OpenTelemetry's own limit. */
const MOST_SERIES = 2000;

/** The attributes of the series that counts what has found no place any more (OpenTelemetry's convention). */
const OVERFLOW: MetricAttributes = { 'otel.metric.overflow': true };

/**
 * The series of one metric, by what they are told apart by. What is counted comes with names that others have chosen, so
 * that there may be no end of them: beyond the limit all that is new is counted in one series more, without its names.
 */
export class Family<Cell extends { readonly attributes: MetricAttributes }> {
  readonly #make: (attributes: MetricAttributes) => Cell;
  readonly #most: number;
  readonly #cells = new Map<string, Cell>();
  #overflow: Cell | undefined = undefined;

  /** `most`: series, the one for all others among them. */
  constructor(make: (attributes: MetricAttributes) => Cell, most: number = MOST_SERIES) {
    this.#make = make;
    this.#most = most;
  }

  /** The series with this key. Part of the hot path. */
  get(key: string): Cell | undefined {
    return this.#cells.get(key);
  }

  /** The series for a key that has none yet: a new one, or that of all others. */
  open(key: string, attributes: () => MetricAttributes): Cell {
    if (this.#cells.size >= this.#most - 1) {
      this.#overflow ??= this.#make(OVERFLOW);
      return this.#overflow;
    }
    const cell = this.#make(attributes());
    this.#cells.set(key, cell);
    return cell;
  }

  /** All series as they are now. */
  series<Value>(read: (cell: Cell) => Value): Series<Value>[] {
    const cells = this.#overflow ? [...this.#cells.values(), this.#overflow] : [...this.#cells.values()];
    return cells.map((cell) => ({ attributes: cell.attributes, value: read(cell) }));
  }
}

/** A histogram metric: its description, and its series. */
export class Histograms {
  readonly #description: MetricDescription;
  readonly #bounds: readonly number[];
  readonly #family: Family<Histogram>;

  constructor(description: MetricDescription, bounds: readonly number[]) {
    this.#description = description;
    this.#bounds = bounds;
    const shared = Float64Array.from(bounds);
    this.#family = new Family((attributes) => new Histogram(attributes, shared));
  }

  /** Counts a value in the series of the key. `attributes` is asked when there is none yet. Part of the hot path. */
  record(key: string, value: number, attributes: () => MetricAttributes): void {
    const cell = this.#family.get(key) ?? this.#family.open(key, attributes);
    cell.record(value);
  }

  /** The metric as it is now. */
  get metric(): HistogramMetric {
    const series = this.#family.series((cell) => cell.value);
    return { ...this.#description, kind: 'histogram', bounds: this.#bounds, series };
  }
}

/** What tells one series of a metric from another: OpenTelemetry's attributes, which are labels in Prometheus. */
export type MetricAttributes = Readonly<Record<string, string | number | boolean>>;

/** What a metric is, in OpenTelemetry's words. */
export interface MetricDescription {
  /** With dots, as the semantic conventions have it. */
  readonly name: string;
  readonly description: string;
  /** `s`, `By`, `1` for a share, or what is counted, in braces. */
  readonly unit: string;
}

/** One series at the moment in which it was read. */
export interface Series<Value> {
  readonly attributes: MetricAttributes;
  readonly value: Value;
}

/** What a histogram has counted. */
export interface Distribution {
  readonly count: number;
  readonly sum: number;
  /** How many values lay in each bucket, those beyond the last bound at the end. Not cumulative. */
  readonly buckets: readonly number[];
}

/** One number per series: `counter` only grows, a `level` goes up and down and adds up over series, a `gauge` does not. */
export interface NumberMetric extends MetricDescription {
  readonly kind: 'counter' | 'level' | 'gauge';
  readonly series: readonly Series<number>[];
}

/** A distribution per series. */
export interface HistogramMetric extends MetricDescription {
  readonly kind: 'histogram';
  /** The greatest value of each bucket but the last. */
  readonly bounds: readonly number[];
  readonly series: readonly Series<Distribution>[];
}

/** A metric as it was at one moment. */
export type Metric = NumberMetric | HistogramMetric;

/** What a gateway itself adds lies below a millisecond, where the conventions have no bounds. */
const OWN_SHARE = [0.0005, 0.001, 0.0025];

/** Of the durations of HTTP requests, in seconds: those of the semantic conventions. */
export const HTTP_SECONDS: readonly number[] = [
  ...OWN_SHARE,
  ...[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10],
];

/** Of the durations of MCP operations, in seconds: those of the conventions. */
export const MCP_SECONDS: readonly number[] = [
  ...OWN_SHARE,
  ...[0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300],
];

/** Of the durations of completions, in seconds: those of the GenAI conventions. */
export const COMPLETION_SECONDS: readonly number[] = [
  ...[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92],
];

/** Of numbers of tokens: those of the GenAI conventions. */
export const TOKENS: readonly number[] = Array.from({ length: 14 }, (_, power) => 4 ** power);

/** What the semantic conventions say for a word that is not among those that are known. */
export const OTHER = '_OTHER';

/** As long as names may be (decisions 8). */
const LONGEST = 256;

/**
 * A name that others have chosen, as long as an attribute may be; most are returned as they came. No character is cut in
 * two.
 */
export function cutName(name: string): string {
  if (name.length <= LONGEST) return name;
  const beyond = (name.codePointAt(LONGEST - 1) ?? 0) > 0xffff;
  return name.slice(0, beyond ? LONGEST - 1 : LONGEST);
}

/**
 * The name as an attribute that is kept: well-formed text of its own. What comes from a parser may be a piece of the text
 * that it was parsed from, and would keep all of that alive.
 */
export function attributeText(name: string): string {
  return Buffer.from(cutName(name)).toString();
}

/** Of `host:port`, what OpenTelemetry calls its parts; the brackets of an IPv6 address are not part of it. */
export function serverAddress(server: string): MetricAttributes {
  const colon = server.lastIndexOf(':');
  const port = Number(server.slice(colon + 1));
  if (colon <= 0 || !Number.isInteger(port)) return server === '' ? {} : { 'server.address': attributeText(server) };
  const host = server.slice(0, colon);
  const bare = host.startsWith('[') ? host.slice(1, -1) : host;
  return { 'server.address': attributeText(bare), 'server.port': port };
}

/** How often something was measured, and how long it took in all. */
export class Durations {
  #count = 0;
  #totalMs = 0;

  /** Takes one more measurement, in milliseconds. */
  add(ms: number): void {
    this.#count++;
    this.#totalMs += ms;
  }

  /** What there is so far, in milliseconds with three decimals; the average of nothing is 0. */
  snapshot(): DurationMetrics {
    const average = this.#count === 0 ? 0 : this.#totalMs / this.#count;
    return { count: this.#count, total_ms: rounded(this.#totalMs), avg_ms: rounded(average) };
  }
}

function rounded(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}
