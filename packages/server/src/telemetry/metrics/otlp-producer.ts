import {
  AggregationTemporality,
  InstrumentType,
  type MetricData,
  type MetricProducer,
  type PushMetricExporter,
} from '@opentelemetry/sdk-metrics';
import type { TargetLogger } from '../log.ts';
import { ExportReport, telemetryResource } from '../otlp.ts';
import type { Distribution, HistogramMetric, Metric, MetricAttributes, NumberMetric } from './instruments.ts';
import { metricData, scopeMetrics } from './metric-data.ts';
import type { MetricSource } from './metric-source.ts';

/**
 * Converts cumulative counters and histograms to differences since the previous export, for delta temporality
 * (OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE).
 */
export class DeltaConverter {
  #numbers = new Map<string, number>();
  #distributions = new Map<string, Distribution>();

  /** Returns the metrics with the differences; a new series has its whole value. */
  convert(metrics: readonly Metric[]): Metric[] {
    const numbers = new Map<string, number>();
    const distributions = new Map<string, Distribution>();
    const result = metrics.map((metric): Metric => {
      if (metric.kind !== 'histogram') return this.#numberDeltas(metric, numbers);
      return this.#distributionDeltas(metric, distributions);
    });
    this.#numbers = numbers;
    this.#distributions = distributions;
    return result;
  }

  #numberDeltas(metric: NumberMetric, now: Map<string, number>): NumberMetric {
    const series = metric.series.map(({ attributes, value }) => {
      const key = keyOf(metric, attributes);
      now.set(key, value);
      return { attributes, value: value - (this.#numbers.get(key) ?? 0) };
    });
    return { ...metric, series };
  }

  #distributionDeltas(metric: HistogramMetric, now: Map<string, Distribution>): HistogramMetric {
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

/** Creates a producer of the metrics in the temporality of the exporter; it never rejects. */
export function metricProducer(
  source: MetricSource,
  exporter: Pick<PushMetricExporter, 'selectAggregationTemporality'>,
  log: TargetLogger,
): MetricProducer {
  const { startedAt, read } = source.reader();
  const resource = telemetryResource();
  const converter = new DeltaConverter();
  const wantsDelta = (type: InstrumentType): boolean =>
    exporter.selectAggregationTemporality?.(type) === AggregationTemporality.DELTA;
  const asDelta: Readonly<Record<Metric['kind'], boolean>> = {
    // Counters are read on demand: they are observable instruments.
    counter: wantsDelta(InstrumentType.OBSERVABLE_COUNTER),
    histogram: wantsDelta(InstrumentType.HISTOGRAM),
    updowncounter: false,
    gauge: false,
  };
  let last = startedAt;

  const metrics = (): MetricData[] => {
    const now = Date.now();
    const cumulative = read();
    const since = { from: last, to: now, delta: true };
    const ever = { from: startedAt, to: now };
    last = now;
    const fresh = converter.convert(cumulative.filter(({ kind }) => asDelta[kind]));
    return [
      ...cumulative.filter(({ kind }) => !asDelta[kind]).map((metric) => metricData(metric, ever)),
      ...fresh.map((metric) => metricData(metric, since)),
    ];
  };
  return {
    async collect() {
      try {
        return { resourceMetrics: { resource, scopeMetrics: [scopeMetrics(metrics())] }, errors: [] };
      } catch (error) {
        log.error('reading metrics failed', { error });
        return { resourceMetrics: { resource, scopeMetrics: [] }, errors: [error] };
      }
    },
  };
}

/** Wraps an exporter to log when it begins to fail and when it succeeds again. */
export function reportingExporter(exporter: PushMetricExporter, log: TargetLogger): PushMetricExporter {
  const report = new ExportReport(
    log,
    'exporting metrics failed; the values are sent with the next successful export',
    'exporting metrics succeeds again',
  );
  return {
    export(metrics, done) {
      exporter.export(metrics, (result) => {
        report.ended(result);
        done(result);
      });
    },
    selectAggregation: exporter.selectAggregation?.bind(exporter),
    selectAggregationTemporality: exporter.selectAggregationTemporality?.bind(exporter),
    forceFlush: () => exporter.forceFlush(),
    shutdown: () => exporter.shutdown(),
  };
}
