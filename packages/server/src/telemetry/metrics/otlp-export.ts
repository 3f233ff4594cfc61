import type { PushMetricExporter } from '@opentelemetry/sdk-metrics';
import type { MetricSettings } from '../../app/config/environment.ts';
import type { TargetLogger } from '../log.ts';
import type { MetricSource } from './service-metrics.ts';

/** More are sent in several requests: each is made in one go. */
const SERIES_AT_ONCE = 1_000;

/** Metrics that are exported every so often (OTLP). */
export interface MetricExport {
  /** Exports them now too. Never rejects. */
  flush(): Promise<void>;
  /** Exports them a last time, for `graceMs` at most, and not again. Never rejects. */
  close(graceMs: number): Promise<void>;
}

/**
 * Starts exporting metrics. OpenTelemetry's packages are loaded here and not before: who exports nothing does not pay for
 * them. Does not keep the process alive.
 */
export async function exportMetrics(
  source: MetricSource,
  settings: MetricSettings,
  log: TargetLogger,
): Promise<MetricExport> {
  const [sdk, { metricProducer }, { reportingExporter }, { telemetryResource }] = await Promise.all([
    import('@opentelemetry/sdk-metrics'),
    import('./otlp-producer.ts'),
    import('./otlp-producer.ts'),
    import('../telemetry-resource.ts'),
  ]);
  const exporter = await newExporter(settings);
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
    async close(graceMs) {
      const late = Promise.withResolvers<void>();
      const timer = setTimeout(late.resolve, graceMs);
      await Promise.race([provider.shutdown().catch(() => undefined), late.promise]);
      clearTimeout(timer);
    },
  };
}

/** Endpoint, headers, certificates, compression, time-out and temporality are read from the environment by the exporter. */
async function newExporter({ protocol }: MetricSettings): Promise<PushMetricExporter> {
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
