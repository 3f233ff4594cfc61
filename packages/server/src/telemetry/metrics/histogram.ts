import type { Distribution, MetricAttributes } from './metric.ts';

/** How the values of one series are distributed. */
export class Histogram {
  readonly attributes: MetricAttributes;
  readonly #bounds: Float64Array;
  /** One more than bounds: the last is for what lies beyond them. */
  readonly #buckets: Float64Array;
  #count = 0;
  #sum = 0;

  /** `bounds`: the greatest value of each bucket, ascending. */
  constructor(attributes: MetricAttributes, bounds: Float64Array) {
    this.attributes = attributes;
    this.#bounds = bounds;
    this.#buckets = new Float64Array(bounds.length + 1);
  }

  /** Counts a value; one that is no number from 0 on is none. Part of the hot path: makes no objects. */
  record(value: number): void {
    if (!(value >= 0 && value < Number.POSITIVE_INFINITY)) return;
    const bounds = this.#bounds;
    // Most values are small, so that they are found sooner from below than by halves.
    let at = 0;
    while (at < bounds.length && value > (bounds[at] ?? 0)) at++;
    this.#buckets[at] = (this.#buckets[at] ?? 0) + 1;
    this.#count++;
    this.#sum += value;
  }

  /** What has been counted so far. */
  get value(): Distribution {
    return { count: this.#count, sum: this.#sum, buckets: Array.from(this.#buckets) };
  }
}
