import {
  AggregationTemporality,
  InstrumentType,
  type MetricData,
  type MetricProducer,
  type PushMetricExporter,
} from '@opentelemetry/sdk-metrics';
import type { TargetLogger } from '../log.ts';
import { ExportReport, telemetryResource } from '../telemetry-resource.ts';
import type { Distribution, HistogramMetric, Metric, MetricAttributes, NumberMetric } from './instruments.ts';
import { metricData, scopeMetrics } from './metric-data.ts';
import type { MetricSource } from './service-metrics.ts';

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

/** Brings the metrics into OpenTelemetry's pipeline, in the temporality that the exporter is set to. Never rejects. */
export function metricProducer(
  source: MetricSource,
  exporter: Pick<PushMetricExporter, 'selectAggregationTemporality'>,
  log: TargetLogger,
): MetricProducer {
  const { startedAt, read } = source.reader();
  const resource = telemetryResource();
  const deltas = new Deltas();
  const wantsDelta = (type: InstrumentType): boolean =>
    exporter.selectAggregationTemporality?.(type) === AggregationTemporality.DELTA;
  const asDelta: Readonly<Record<Metric['kind'], boolean>> = {
    // All of our counters are read when somebody asks: they are what the conventions call observable.
    counter: wantsDelta(InstrumentType.OBSERVABLE_COUNTER),
    histogram: wantsDelta(InstrumentType.HISTOGRAM),
    level: false,
    gauge: false,
  };
  let last = startedAt;

  const metrics = (): MetricData[] => {
    const now = Date.now();
    const cumulative = read();
    const since = { from: last, to: now, delta: true };
    const ever = { from: startedAt, to: now };
    last = now;
    const fresh = deltas.of(cumulative.filter(({ kind }) => asDelta[kind]));
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
        log.error('metrics could not be read', { error });
        return { resourceMetrics: { resource, scopeMetrics: [] }, errors: [error] };
      }
    },
  };
}

/** The exporter, with a line in the log when it begins to fail and when it works again. */
export function reportingExporter(exporter: PushMetricExporter, log: TargetLogger): PushMetricExporter {
  const report = new ExportReport(
    log,
    'metrics cannot be exported; the collector gets them when it can be reached',
    'metrics are exported again',
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
