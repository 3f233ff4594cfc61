import type { PushMetricExporter } from '@opentelemetry/sdk-metrics';
import type { TargetLogger } from '../log.ts';
import type { MetricSettings } from '../otlp.ts';
import type { MetricSource } from './metric-source.ts';

/** Series per export request: each request is serialized at once. */
const SERIES_AT_ONCE = 1_000;

/** Periodic export of metrics (OTLP). */
export interface MetricExport {
  /** Exports immediately. Never rejects. */
  flush(): Promise<void>;
  /** Exports a last time, for at most `graceMs` milliseconds, and stops. Never rejects. */
  close(graceMs: number): Promise<void>;
}

/**
 * Starts exporting metrics. OpenTelemetry's packages are loaded only here: without export they cost nothing. Does not keep
 * the process alive.
 */
export async function exportMetrics(
  source: MetricSource,
  settings: MetricSettings,
  log: TargetLogger,
): Promise<MetricExport> {
  const [sdk, { metricProducer, reportingExporter }, { settleWithin, telemetryResource }] = await Promise.all([
    import('@opentelemetry/sdk-metrics'),
    import('./otlp-producer.ts'),
    import('../otlp.ts'),
  ]);
  const exporter = await createExporter(settings);
  const reader = new sdk.PeriodicExportingMetricReader({
    exporter: reportingExporter(exporter, log),
    exportIntervalMillis: settings.intervalMs,
    exportTimeoutMillis: settings.timeoutMs,
    maxExportBatchSize: SERIES_AT_ONCE,
    metricProducers: [metricProducer(source, exporter, log)],
  });
  const provider = new sdk.MeterProvider({ resource: telemetryResource(), readers: [reader] });
  return {
    flush: () => provider.forceFlush().catch(() => undefined),
    close: (graceMs) => settleWithin(graceMs, provider.shutdown()),
  };
}

/** The exporter reads endpoint, headers, certificates, compression, timeout and temporality from the environment. */
async function createExporter({ protocol }: MetricSettings): Promise<PushMetricExporter> {
  switch (protocol) {
    case 'grpc': {
      const { OTLPMetricExporter } = await import('@opentelemetry/exporter-metrics-otlp-grpc');
      return new OTLPMetricExporter();
    }
    case 'http/json': {
      const { OTLPMetricExporter } = await import('@opentelemetry/exporter-metrics-otlp-http');
      return new OTLPMetricExporter();
    }
    case 'http/protobuf': {
      const { OTLPMetricExporter } = await import('@opentelemetry/exporter-metrics-otlp-proto');
      return new OTLPMetricExporter();
    }
  }
}
