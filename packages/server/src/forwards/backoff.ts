/** Delays between attempts to reach an upstream that is down (mcp 4). */

const QUICK_MIN_MS = 250;
const QUICK_MAX_MS = 1_500;
const QUICK_PERIOD_MS = 10 * 60_000;
const SLOW_MAX_MS = 30_000;

/**
 * For ten minutes after the first failure a delay is anywhere from 0.25 to 1.5 s; after that its upper bound doubles
 * with every attempt up to 30 s, and it is never less than half of the bound. The jitter keeps forwards that went down
 * together from coming back together.
 */
export class Backoff {
  readonly #random: () => number;
  readonly #now: () => number;
  #firstFailure: number | undefined = undefined;
  #slowBoundMs = QUICK_MAX_MS;

  /** `random` gives numbers from 0 to below 1, `now` milliseconds of a clock that does not go back. */
  constructor(random: () => number, now: () => number) {
    this.#random = random;
    this.#now = now;
  }

  /** Milliseconds to wait after the failure that has just happened. */
  next(): number {
    const now = this.#now();
    this.#firstFailure ??= now;
    if (now - this.#firstFailure < QUICK_PERIOD_MS) {
      return Math.round(QUICK_MIN_MS + this.#random() * (QUICK_MAX_MS - QUICK_MIN_MS));
    }
    this.#slowBoundMs = Math.min(this.#slowBoundMs * 2, SLOW_MAX_MS);
    return Math.round((this.#slowBoundMs / 2) * (1 + this.#random()));
  }

  /** To be told of a success: the next failure counts as the first again. */
  reset(): void {
    this.#firstFailure = undefined;
    this.#slowBoundMs = QUICK_MAX_MS;
  }
}
