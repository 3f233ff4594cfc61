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
