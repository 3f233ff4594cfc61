import type { DurationMetrics } from '@sluice/contract';

/** How often something was measured, and how long it took in all. */
export class Durations {
  #count = 0;
  #totalMs = 0;

  /** Takes one more measurement, in milliseconds. */
  add(ms: number): void {
    this.#count++;
    this.#totalMs += ms;
  }

  /** What there is so far, in milliseconds with three decimals; the average of nothing is 0. */
  snapshot(): DurationMetrics {
    const average = this.#count === 0 ? 0 : this.#totalMs / this.#count;
    return { count: this.#count, total_ms: rounded(this.#totalMs), avg_ms: rounded(average) };
  }
}

function rounded(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}
