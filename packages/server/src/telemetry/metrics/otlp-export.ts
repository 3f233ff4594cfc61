/**
 * Export of metrics (OTLP). Imports OpenTelemetry's packages: to be imported only if metrics are exported, so that they cost
 * nothing otherwise.
 */

import type { Resource } from '@opentelemetry/resources';
import {
  AggregationTemporality,
  InstrumentType,
  MeterProvider,
  type MetricProducer,
  PeriodicExportingMetricReader,
  type PushMetricExporter,
} from '@opentelemetry/sdk-metrics';
import { withTimeout } from '@sluice/protocol/timing';
import type { TargetLogger } from '../log.ts';
import { createExporter, logOutages, type MetricSettings, type ProxyFor, telemetryResource } from '../otlp.ts';
import type { Metric, MetricAttributes } from './instruments.ts';
import { metricData, scopeMetrics } from './metric-data.ts';
import type { MetricSource } from './metric-source.ts';

/** Series per export request: each request is serialized at once. */
const SERIES_AT_ONCE = 1_000;

/** Periodic export of metrics. */
export interface MetricExport {
  /** Exports immediately. Never rejects. */
  flush(): Promise<void>;
  /** Exports a last time, for at most `graceMs` milliseconds, and stops. Never rejects. */
  close(graceMs: number): Promise<void>;
}

/** Starts exporting metrics. Does not prevent the exit of the process. */
export async function exportMetrics(
  source: MetricSource,
  settings: MetricSettings,
  log: TargetLogger,
  proxyFor?: ProxyFor,
): Promise<MetricExport> {
  const exporter = await createExporter<PushMetricExporter>('METRICS', settings, proxyFor, {
    grpc: async () => (await import('@opentelemetry/exporter-metrics-otlp-grpc')).OTLPMetricExporter,
    'http/json': async () => (await import('@opentelemetry/exporter-metrics-otlp-http')).OTLPMetricExporter,
    'http/protobuf': async () => (await import('@opentelemetry/exporter-metrics-otlp-proto')).OTLPMetricExporter,
  });
  logOutages(exporter, log, {
    failing: 'exporting metrics failed; the values are sent with the next successful export',
    recovered: 'exporting metrics succeeds again',
  });
  const resource = telemetryResource();
  const reader = new PeriodicExportingMetricReader({
    exporter,
    exportIntervalMillis: settings.intervalMs,
    exportTimeoutMillis: settings.timeoutMs,
    maxExportBatchSize: SERIES_AT_ONCE,
    metricProducers: [metricProducer(source, resource, exporter, log)],
  });
  const provider = new MeterProvider({ resource, readers: [reader] });
  return {
    flush: () => provider.forceFlush().catch(() => undefined),
    close: (graceMs) =>
      withTimeout(
        graceMs,
        provider.shutdown().catch(() => undefined),
      ),
  };
}

/** Creates a producer of the metrics in the temporality of the exporter; it never rejects. */
function metricProducer(
  source: MetricSource,
  resource: Resource,
  exporter: PushMetricExporter,
  log: TargetLogger,
): MetricProducer {
  const { startedAt, read } = source.reader();
  const converter = new DeltaConverter();
  const isDelta = (type: InstrumentType): boolean =>
    exporter.selectAggregationTemporality?.(type) === AggregationTemporality.DELTA;
  const deltaKinds = new Set<Metric['kind']>();
  // Counters are read on demand: they are observable instruments.
  if (isDelta(InstrumentType.OBSERVABLE_COUNTER)) deltaKinds.add('counter');
  if (isDelta(InstrumentType.HISTOGRAM)) deltaKinds.add('histogram');
  let last = startedAt;
  return {
    async collect() {
      try {
        const all = read();
        const now = Date.now();
        const deltas = converter.convert(all.filter(({ kind }) => deltaKinds.has(kind)));
        const metrics = [
          ...all
            .filter(({ kind }) => !deltaKinds.has(kind))
            .map((each) => metricData(each, { from: startedAt, to: now })),
          ...deltas.map((each) => metricData(each, { from: last, to: now, delta: true })),
        ];
        last = now;
        return { resourceMetrics: { resource, scopeMetrics: [scopeMetrics(metrics)] }, errors: [] };
      } catch (error) {
        log.error('reading metrics failed', { error });
        return { resourceMetrics: { resource, scopeMetrics: [] }, errors: [error] };
      }
    },
  };
}

/**
 * Converts cumulative counters and histograms to differences since the previous export, for delta temporality
 * (OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE): the library does so for its own instruments only.
 */
export class DeltaConverter {
  #previous = new Map<string, readonly number[]>();
  #current = new Map<string, readonly number[]>();

  /** Returns the metrics with the differences; a new series has its whole value. */
  convert(metrics: readonly Metric[]): Metric[] {
    const result = metrics.map((metric) => this.#convert(metric));
    this.#previous = this.#current;
    this.#current = new Map();
    return result;
  }

  #convert(metric: Metric): Metric {
    if (metric.kind !== 'histogram') {
      const series = metric.series.map(({ attributes, value }) => {
        const [difference = 0] = this.#differences(metric, attributes, [value]);
        return { attributes, value: difference };
      });
      return { ...metric, series };
    }
    const series = metric.series.map(({ attributes, value }) => {
      const values = [value.count, value.sum, ...value.buckets];
      const [count = 0, sum = 0, ...buckets] = this.#differences(metric, attributes, values);
      return { attributes, value: { count, sum, buckets } };
    });
    return { ...metric, series };
  }

  #differences({ name }: Metric, attributes: MetricAttributes, values: readonly number[]): number[] {
    const key = `${name} ${JSON.stringify(attributes)}`;
    const previous = this.#previous.get(key);
    this.#current.set(key, values);
    return values.map((value, at) => value - (previous?.[at] ?? 0));
  }
}
