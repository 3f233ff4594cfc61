import { type HrTime, ValueType } from '@opentelemetry/api';
import {
  AggregationTemporality,
  type DataPoint,
  DataPointType,
  type Histogram,
  type MetricData,
  type ScopeMetrics,
} from '@opentelemetry/sdk-metrics';
import { VERSION } from '../version.ts';
import type { Metric, Series } from './instruments.ts';

/** The time that values are of. */
export interface Period {
  /** Milliseconds since the Unix epoch. */
  readonly from: number;
  readonly to: number;
  /** Whether it begins where the period before it ended, and not always at the same moment. */
  readonly delta?: boolean;
}

/** Metrics, as those of this product. */
export function scopeMetrics(metrics: MetricData[]): ScopeMetrics {
  return { scope: { name: 'sluice', version: VERSION }, metrics };
}

/** A metric in OpenTelemetry's form; its values are those of the period. */
export function metricData(metric: Metric, period: Period): MetricData {
  const { name, description, unit } = metric;
  const common = {
    descriptor: { name, description, unit, valueType: valueType(unit) },
    aggregationTemporality: period.delta ? AggregationTemporality.DELTA : AggregationTemporality.CUMULATIVE,
  };
  switch (metric.kind) {
    case 'counter':
    case 'level':
      return {
        ...common,
        dataPointType: DataPointType.SUM,
        isMonotonic: metric.kind === 'counter',
        dataPoints: metric.series.map((series) => point(series, period, series.value)),
      };
    case 'gauge':
      return {
        ...common,
        dataPointType: DataPointType.GAUGE,
        dataPoints: metric.series.map((series) => point(series, period, series.value)),
      };
    case 'histogram': {
      const boundaries = [...metric.bounds];
      return {
        ...common,
        dataPointType: DataPointType.HISTOGRAM,
        dataPoints: metric.series.map((series): DataPoint<Histogram> => {
          const { count, sum, buckets } = series.value;
          return point(series, period, { count, sum, buckets: { boundaries, counts: [...buckets] } });
        }),
      };
    }
  }
}

function point<Value>({ attributes }: Series<unknown>, { from, to }: Period, value: Value): DataPoint<Value> {
  return { startTime: hrTime(from), endTime: hrTime(to), attributes, value };
}

/** What is counted is whole; times and shares are not. */
function valueType(unit: string): ValueType {
  return unit === 's' || unit === '1' ? ValueType.DOUBLE : ValueType.INT;
}

function hrTime(ms: number): HrTime {
  const seconds = Math.floor(ms / 1000);
  return [seconds, Math.round((ms - seconds * 1000) * 1e6)];
}
