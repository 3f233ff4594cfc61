import type { Distribution, HistogramMetric, Metric, MetricAttributes, NumberMetric } from './metric.ts';

/**
 * What came to counters and histograms since the last time, for receivers that do the adding up themselves
 * (OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE).
 */
export class Deltas {
  #numbers = new Map<string, number>();
  #distributions = new Map<string, Distribution>();

  /** The same metrics with what is new in each; of a series that was not there before that is all of it. */
  of(metrics: readonly Metric[]): Metric[] {
    const numbers = new Map<string, number>();
    const distributions = new Map<string, Distribution>();
    const result = metrics.map((metric): Metric => {
      if (metric.kind !== 'histogram') return this.#newNumbers(metric, numbers);
      return this.#newDistributions(metric, distributions);
    });
    this.#numbers = numbers;
    this.#distributions = distributions;
    return result;
  }

  #newNumbers(metric: NumberMetric, now: Map<string, number>): NumberMetric {
    const series = metric.series.map(({ attributes, value }) => {
      const key = keyOf(metric, attributes);
      now.set(key, value);
      return { attributes, value: value - (this.#numbers.get(key) ?? 0) };
    });
    return { ...metric, series };
  }

  #newDistributions(metric: HistogramMetric, now: Map<string, Distribution>): HistogramMetric {
    const series = metric.series.map(({ attributes, value }) => {
      const key = keyOf(metric, attributes);
      now.set(key, value);
      return { attributes, value: difference(value, this.#distributions.get(key)) };
    });
    return { ...metric, series };
  }
}

function keyOf({ name }: Metric, attributes: MetricAttributes): string {
  return `${name} ${JSON.stringify(attributes)}`;
}

function difference(now: Distribution, before: Distribution | undefined): Distribution {
  if (before === undefined) return now;
  return {
    count: now.count - before.count,
    sum: now.sum - before.sum,
    buckets: now.buckets.map((count, at) => count - (before.buckets[at] ?? 0)),
  };
}
