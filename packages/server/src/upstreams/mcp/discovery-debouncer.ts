/** Times of a {@link DiscoveryDebouncer} in milliseconds; for tests. */
export interface DebounceOptions {
  /** From the first trigger to the run: upstreams often change several things at once (default 20). */
  readonly delayMs?: number;
  /** Average time between the starts of runs under continuous triggers (default 500). */
  readonly intervalMs?: number;
}

const DELAY_MS = 20;
const INTERVAL_MS = 500;
/** Runs that may ignore the interval after a quiet time, so that occasional changes are discovered at once. */
const BURST = 3;

/**
 * Turns change notifications of an upstream, however many, into runs of discovery: one shortly after the first
 * notification, never two at once, one more for all notifications during a run, and at most two per second on average.
 */
export class DiscoveryDebouncer {
  readonly #run: () => Promise<unknown>;
  readonly #delayMs: number;
  readonly #intervalMs: number;
  #timer: NodeJS.Timeout | undefined = undefined;
  #running = false;
  #rerun = false;
  #closed = false;
  /** Start of the next run if all runs had observed the interval, in milliseconds of `performance.now()`. */
  #nextRunAt = 0;

  /** `run` discovers; its failure has no effect here. */
  constructor(run: () => Promise<unknown>, { delayMs = DELAY_MS, intervalMs = INTERVAL_MS }: DebounceOptions = {}) {
    this.#run = run;
    this.#delayMs = delayMs;
    this.#intervalMs = intervalMs;
  }

  /** Called for every notification; nearly free. */
  trigger(): void {
    if (this.#running) this.#rerun = true;
    else if (!this.#closed) this.#timer ??= setTimeout(() => this.#start(), this.#delay()).unref();
  }

  /** Prevents further runs. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  #delay(): number {
    const ahead = (BURST - 1) * this.#intervalMs;
    return Math.max(this.#delayMs, this.#nextRunAt - ahead - performance.now());
  }

  #start(): void {
    this.#timer = undefined;
    this.#running = true;
    this.#rerun = false;
    this.#nextRunAt = Math.max(this.#nextRunAt, performance.now()) + this.#intervalMs;
    const done = () => {
      this.#running = false;
      if (this.#rerun) this.trigger();
    };
    this.#run().then(done, done);
  }
}
