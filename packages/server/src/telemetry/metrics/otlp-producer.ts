import type { MetricData, MetricProducer, PushMetricExporter } from '@opentelemetry/sdk-metrics';
import { AggregationTemporality, InstrumentType } from '@opentelemetry/sdk-metrics';
import type { TargetLogger } from '../log.ts';
import { telemetryResource } from '../telemetry-resource.ts';
import { Deltas } from './deltas.ts';
import type { Metric } from './metric.ts';
import { metricData, scopeMetrics } from './metric-data.ts';
import type { MetricSource } from './metric-source.ts';

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
