import { Family } from './family.ts';
import { Histogram } from './histogram.ts';
import type { HistogramMetric, MetricAttributes, MetricDescription } from './metric.ts';

/** A histogram metric: its description, and its series. */
export class Histograms {
  readonly #description: MetricDescription;
  readonly #bounds: readonly number[];
  readonly #family: Family<Histogram>;

  constructor(description: MetricDescription, bounds: readonly number[]) {
    this.#description = description;
    this.#bounds = bounds;
    const shared = Float64Array.from(bounds);
    this.#family = new Family((attributes) => new Histogram(attributes, shared));
  }

  /** Counts a value in the series of the key. `attributes` is asked when there is none yet. Part of the hot path. */
  record(key: string, value: number, attributes: () => MetricAttributes): void {
    const cell = this.#family.get(key) ?? this.#family.open(key, attributes);
    cell.record(value);
  }

  /** The metric as it is now. */
  get metric(): HistogramMetric {
    const series = this.#family.series((cell) => cell.value);
    return { ...this.#description, kind: 'histogram', bounds: this.#bounds, series };
  }
}
