import { setImmediate as nextTurn } from 'node:timers/promises';
import { PrometheusSerializer } from '@opentelemetry/exporter-prometheus';
import { telemetryResource } from '../otlp.ts';
import type { Metric } from './instruments.ts';
import { metricData, type Period, scopeMetrics } from './metric-data.ts';
import type { MetricReading, MetricSource } from './metric-source.ts';

/** Units in Prometheus, also as suffixes of names (OpenTelemetry's "Prometheus and OpenMetrics Compatibility"). */
const UNITS: Readonly<Record<string, string>> = { s: 'seconds', By: 'bytes', '1': 'ratio' };

/** Series that are rendered at once (about 2 ms for histograms), and time until the event loop is released. */
const SERIES_AT_ONCE = 50;
const SLICE_MS = 5;

/**
 * Metrics in the text format of Prometheus (0.0.4), by OpenTelemetry's serializer. Imports its packages: to be imported with
 * the first scrape only.
 */
export class PrometheusText {
  readonly #first = createSerializer(true);
  readonly #others = createSerializer(false);
  readonly #resource = telemetryResource();
  readonly #reading: MetricReading;

  #pending: Promise<readonly string[]> | undefined = undefined;

  constructor(source: MetricSource) {
    this.#reading = source.reader();
  }

  /** Returns the text in chunks. Concurrent scrapes share one rendering. */
  async text(): Promise<readonly string[]> {
    this.#pending ??= Array.fromAsync(this.chunks()).finally(() => {
      this.#pending = undefined;
    });
    return this.#pending;
  }

  /**
   * Renders all metrics as of the start in chunks: with the maximum number of series, the text has tens of megabytes and
   * takes longer than the event loop can be blocked.
   */
  async *chunks(): AsyncGenerator<string> {
    const { startedAt, read } = this.#reading;
    const metrics = read().map(withUnit);
    const period = { from: startedAt, to: Date.now() };
    let text = '';
    let sliceStartedAt = performance.now();
    for (const [index, metric] of metrics.entries()) {
      for (let from = 0; from < metric.series.length; from += SERIES_AT_ONCE) {
        const slice = sliced(metric, from, from + SERIES_AT_ONCE);
        text +=
          from === 0 ? this.#render(slice, period, index === 0) : withoutHeader(this.#render(slice, period, false));
        if (performance.now() - sliceStartedAt < SLICE_MS) continue;
        yield text;
        text = '';
        await nextTurn();
        sliceStartedAt = performance.now();
      }
    }
    yield text;
  }

  #render(metric: Metric, period: Period, isFirst: boolean): string {
    const scope = scopeMetrics([metricData(metric, period)]);
    const serializer = isFirst ? this.#first : this.#others;
    return serializer.serialize({ resource: this.#resource, scopeMetrics: [scope] });
  }
}

/** Without prefix, timestamps and scope labels. */
function createSerializer(withTargetInfo: boolean): PrometheusSerializer {
  return new PrometheusSerializer('', false, undefined, !withTargetInfo, true);
}

/** Adds the unit to the name, which the serializer does not. Units in braces are omitted. */
function withUnit(metric: Metric): Metric {
  const unit = UNITS[metric.unit];
  return unit === undefined ? { ...metric, unit: '' } : { ...metric, name: `${metric.name}.${unit}`, unit };
}

function sliced(metric: Metric, from: number, to: number): Metric {
  return metric.kind === 'histogram'
    ? { ...metric, series: metric.series.slice(from, to) }
    : { ...metric, series: metric.series.slice(from, to) };
}

/** Removes the HELP and TYPE lines, which precede only the first series of a metric. */
function withoutHeader(text: string): string {
  let at = 0;
  while (text.startsWith('# ', at)) at = text.indexOf('\n', at) + 1;
  return text.slice(at);
}
