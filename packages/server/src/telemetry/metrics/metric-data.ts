import { ValueType } from '@opentelemetry/api';
import { millisToHrTime } from '@opentelemetry/core';
import {
  AggregationTemporality,
  type DataPoint,
  DataPointType,
  type Histogram,
  type MetricData,
  type ScopeMetrics,
} from '@opentelemetry/sdk-metrics';
import { SCOPE } from '../otlp.ts';
import type { Metric, Series } from './instruments.ts';

/** Period that values refer to. */
export interface Period {
  /** Milliseconds since the Unix epoch. */
  readonly from: number;
  readonly to: number;
  /** True if the period begins at the end of the previous one, false if it always begins at the start of the service. */
  readonly delta?: boolean;
}

/** Returns metrics with the instrumentation scope of this product. */
export function scopeMetrics(metrics: MetricData[]): ScopeMetrics {
  return { scope: SCOPE, metrics };
}

/** Converts a metric to OpenTelemetry's data model. */
export function metricData(metric: Metric, period: Period): MetricData {
  const { name, description, unit } = metric;
  const common = {
    descriptor: { name, description, unit, valueType: valueType(unit) },
    aggregationTemporality: period.delta ? AggregationTemporality.DELTA : AggregationTemporality.CUMULATIVE,
  };
  if (metric.kind === 'histogram') {
    const boundaries = [...metric.bounds];
    const dataPoints = metric.series.map((series): DataPoint<Histogram> => {
      const { count, sum, buckets } = series.value;
      return point(series, period, { count, sum, buckets: { boundaries, counts: [...buckets] } });
    });
    return { ...common, dataPointType: DataPointType.HISTOGRAM, dataPoints };
  }
  const dataPoints = metric.series.map((series) => point(series, period, series.value));
  return metric.kind === 'gauge'
    ? { ...common, dataPointType: DataPointType.GAUGE, dataPoints }
    : { ...common, dataPointType: DataPointType.SUM, isMonotonic: metric.kind === 'counter', dataPoints };
}

function point<Value>({ attributes }: Series<unknown>, { from, to }: Period, value: Value): DataPoint<Value> {
  return { startTime: millisToHrTime(from), endTime: millisToHrTime(to), attributes, value };
}

/** Counts are integers; times and ratios are not. */
function valueType(unit: string): ValueType {
  return unit === 's' || unit === '1' ? ValueType.DOUBLE : ValueType.INT;
}
