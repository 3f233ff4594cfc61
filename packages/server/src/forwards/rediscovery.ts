/** Milliseconds for {@link Rediscovery}; for tests. */
export interface RediscoveryTimes {
  /** From the first notice to the run: an upstream often changes several things at once (default 20). */
  readonly delayMs?: number;
  /** From the beginning of one run to that of the next, on average, while notices go on and on (default 500). */
  readonly intervalMs?: number;
}

const DELAY_MS = 20;
const INTERVAL_MS = 500;
/** Runs that need not keep the interval after a time of peace: a change now and then is seen at once. */
const BURST = 3;

/**
 * Makes runs of discovery out of an upstream's notices of change, however many there are: one shortly after the first
 * notice, never two at once, exactly one more for all notices that came during a run, and two a second while there is no
 * end of them.
 */
export class Rediscovery {
  readonly #run: () => Promise<unknown>;
  readonly #delayMs: number;
  readonly #intervalMs: number;
  #timer: NodeJS.Timeout | undefined = undefined;
  #running = false;
  #again = false;
  #ended = false;
  /** When the next run would begin if all had kept the interval, in milliseconds of `performance.now()`. */
  #dueAt = 0;

  /** `run` reads anew; how it ends changes nothing here. */
  constructor(run: () => Promise<unknown>, { delayMs = DELAY_MS, intervalMs = INTERVAL_MS }: RediscoveryTimes = {}) {
    this.#run = run;
    this.#delayMs = delayMs;
    this.#intervalMs = intervalMs;
  }

  /** To be told of every notice: costs next to nothing. */
  notice(): void {
    if (this.#running) this.#again = true;
    else if (!this.#ended) this.#timer ??= setTimeout(() => this.#begin(), this.#wait()).unref();
  }

  /** No further run begins. */
  end(): void {
    this.#ended = true;
    clearTimeout(this.#timer);
  }

  #wait(): number {
    const ahead = (BURST - 1) * this.#intervalMs;
    return Math.max(this.#delayMs, this.#dueAt - ahead - performance.now());
  }

  #begin(): void {
    this.#timer = undefined;
    this.#running = true;
    this.#again = false;
    this.#dueAt = Math.max(this.#dueAt, performance.now()) + this.#intervalMs;
    const over = () => {
      this.#running = false;
      if (this.#again) this.notice();
    };
    this.#run().then(over, over);
  }
}
