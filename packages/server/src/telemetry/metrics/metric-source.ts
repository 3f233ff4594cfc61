import { type EventLoopUtilization, performance } from 'node:perf_hooks';
import { getHeapSpaceStatistics } from 'node:v8';
import type { Metric, MetricAttributes, NumberMetric, Series } from './instruments.ts';

/** View of one reader, see {@link MetricSource.reader}. */
export interface MetricReading {
  /** Start of all counters, in milliseconds since the Unix epoch. */
  readonly startedAt: number;
  /** Returns the current metrics, without those that have no series. */
  read(): Metric[];
}

/** All metrics, independent of the format in which they are exported. */
export class MetricSource {
  readonly #read: () => readonly Metric[];
  readonly #startedAt: number = Date.now();

  /** `read` returns the current metrics of everything but the process. */
  constructor(read: () => readonly Metric[]) {
    this.#read = read;
  }

  /** Creates the view of one periodic reader; it sees the event loop utilization since its own previous reading. */
  reader(): MetricReading {
    const process = new ProcessMetrics();
    return {
      startedAt: this.#startedAt,
      read: () => [...this.#read(), ...process.metrics()].filter(({ series }) => series.length > 0),
    };
  }
}

/** Values that differ in one attribute, besides those that they have in common. */
export function by(
  attribute: string,
  values: Iterable<readonly [string, number]>,
  common: MetricAttributes = {},
): Series<number>[] {
  return Array.from(values, ([key, value]) => ({ attributes: { ...common, [attribute]: key }, value }));
}

/** Makes metrics of a kind, with one series if that is a number. */
function metricsOf(kind: NumberMetric['kind']) {
  return (name: string, unit: string, description: string, values: number | Series<number>[]): NumberMetric => {
    const series = typeof values === 'number' ? [{ attributes: {}, value: values }] : values;
    return { name, description, unit, kind, series };
  };
}

/** Makes a monotonic metric. */
export const counter = metricsOf('counter');
/** Makes a metric that is additive over its series. */
export const upDownCounter = metricsOf('updowncounter');
/** Makes a metric that is neither. */
export const gauge = metricsOf('gauge');

/**
 * Returns the resident memory of this process in bytes; undefined if it cannot be read, as when the process has no free file
 * descriptor.
 */
export function residentBytes(): number | undefined {
  try {
    return process.memoryUsage.rss();
  } catch {
    return undefined;
  }
}

/** Metrics of the process, read on demand: nothing is sampled continuously, as the delay of the event loop would require. */
class ProcessMetrics {
  #before: EventLoopUtilization = performance.eventLoopUtilization();

  /** Returns the current values; the utilization of the event loop is that since the previous call. */
  metrics(): Metric[] {
    const { user, system } = process.cpuUsage();
    const loop = performance.eventLoopUtilization();
    const rss = residentBytes();
    const { utilization } = performance.eventLoopUtilization(loop, this.#before);
    this.#before = loop;
    const cpu = by('cpu.mode', Object.entries({ user: user / 1e6, system: system / 1e6 }));
    const heap = getHeapSpaceStatistics().map((space) => [space.space_name, space.space_used_size] as const);
    const states = by('nodejs.eventloop.state', Object.entries({ active: loop.active / 1e3, idle: loop.idle / 1e3 }));
    const active = 'Share of active time of the event loop since the previous reading';
    return [
      counter('process.cpu.time', 's', 'CPU time of the process', cpu),
      upDownCounter('process.memory.usage', 'By', 'Resident memory of the process', rss ?? []),
      gauge('process.uptime', 's', 'Time since the start of the process', process.uptime()),
      upDownCounter('v8js.memory.heap.used', 'By', 'Used heap memory by heap space', by('v8js.heap.space.name', heap)),
      counter('nodejs.eventloop.time', 's', 'Time of the event loop by state', states),
      gauge('nodejs.eventloop.utilization', '1', active, utilization),
    ];
  }
}
