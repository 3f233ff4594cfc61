import type { FilterMetrics } from '@sluice/contract';
import { Durations } from './durations.ts';

/**
 * Counters of one filter (decisions 4.4, "Metrics"). A request that reaches the filter is counted once, when the filter is
 * done with it, by one of these methods; each takes how long the filter had it, in milliseconds. Part of the hot path:
 * counting makes no objects.
 */
export class FilterCounters {
  #continued = 0;
  #rejected = 0;
  #other = 0;
  #errors = 0;
  readonly #duration = new Durations();

  /** It passed the request on. */
  passed(ms: number): void {
    this.#continued++;
    this.#duration.add(ms);
  }

  /** It answered with an error. */
  rejected(ms: number): void {
    this.#rejected++;
    this.#duration.add(ms);
  }

  /** It answered otherwise. */
  answered(ms: number): void {
    this.#other++;
    this.#duration.add(ms);
  }

  /** It threw. */
  broke(ms: number): void {
    this.#errors++;
    this.#duration.add(ms);
  }

  /** The counts so far. */
  snapshot(): FilterMetrics {
    return {
      requests_continue: this.#continued,
      requests_reject: this.#rejected,
      requests_other: this.#other,
      errors: this.#errors,
      duration: this.#duration.snapshot(),
    };
  }
}
