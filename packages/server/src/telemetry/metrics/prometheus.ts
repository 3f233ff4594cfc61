import { setImmediate as nextTurn } from 'node:timers/promises';
import { PrometheusSerializer } from '@opentelemetry/exporter-prometheus';
import { telemetryResource } from '../telemetry-resource.ts';
import type { Metric } from './instruments.ts';
import { metricData, type Period, scopeMetrics } from './metric-data.ts';
import type { MetricReading, MetricSource } from './service-metrics.ts';

/** How Prometheus spells units, in names too (OpenTelemetry's "Prometheus and OpenMetrics Compatibility"). */
const UNITS: Readonly<Record<string, string>> = { s: 'seconds', By: 'bytes', '1': 'ratio' };

/** So many series are rendered in one go, about 2 ms for histograms; and so long before others get their turn. */
const SERIES_AT_ONCE = 50;
const TURN_MS = 5;

/**
 * The metrics as Prometheus reads them (text format 0.0.4), by OpenTelemetry's serializer. Loads its packages, which
 * nobody needs who is not asked: to be imported when the first scrape is there.
 */
export class PrometheusText {
  readonly #first = serializer(true);
  readonly #further = serializer(false);
  readonly #resource = telemetryResource();
  readonly #reading: MetricReading;

  #underWay: Promise<readonly string[]> | undefined = undefined;

  constructor(source: MetricSource) {
    this.#reading = source.reader();
  }

  /** The text, in pieces. Who asks while it is made gets the same: however many scrape, it is made once at a time. */
  async text(): Promise<readonly string[]> {
    this.#underWay ??= Array.fromAsync(this.pieces()).finally(() => {
      this.#underWay = undefined;
    });
    return this.#underWay;
  }

  /**
   * All metrics as they were when this was asked for the first piece. In pieces: with as many series as there may be, the
   * text has tens of megabytes, and takes longer than requests can wait for.
   */
  async *pieces(): AsyncGenerator<string> {
    const { startedAt, read } = this.#reading;
    const metrics = read().map(withUnit);
    const period = { from: startedAt, to: Date.now() };
    let text = '';
    let begunAt = performance.now();
    for (const [index, metric] of metrics.entries()) {
      for (let from = 0; from < metric.series.length; from += SERIES_AT_ONCE) {
        const slice = sliced(metric, from, from + SERIES_AT_ONCE);
        text += from === 0 ? this.#render(slice, period, index === 0) : withoutHead(this.#render(slice, period, false));
        if (performance.now() - begunAt < TURN_MS) continue;
        yield text;
        text = '';
        await nextTurn();
        begunAt = performance.now();
      }
    }
    yield text;
  }

  #render(metric: Metric, period: Period, isFirst: boolean): string {
    const scope = scopeMetrics([metricData(metric, period)]);
    const by = isFirst ? this.#first : this.#further;
    return by.serialize({ resource: this.#resource, scopeMetrics: [scope] });
  }
}

/** Neither prefix nor time stamps, and not the name of this product in each line: nothing else speaks here. */
function serializer(withTargetInfo: boolean): PrometheusSerializer {
  return new PrometheusSerializer('', false, undefined, !withTargetInfo, true);
}

/** The serializer leaves units out of names. What is counted in braces has none. */
function withUnit(metric: Metric): Metric {
  const unit = UNITS[metric.unit];
  return unit === undefined ? { ...metric, unit: '' } : { ...metric, name: `${metric.name}.${unit}`, unit };
}

function sliced(metric: Metric, from: number, to: number): Metric {
  return metric.kind === 'histogram'
    ? { ...metric, series: metric.series.slice(from, to) }
    : { ...metric, series: metric.series.slice(from, to) };
}

/** Without the comments that stand before a metric: they are there once, before its first series. */
function withoutHead(text: string): string {
  let at = 0;
  while (text.startsWith('# ', at)) at = text.indexOf('\n', at) + 1;
  return text.slice(at);
}
