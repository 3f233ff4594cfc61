/** Options of a {@link DiscoveryDebouncer}; times in milliseconds, for tests. */
export interface DebounceOptions {
  /** From the first trigger to the run: upstreams often change several things at once (default 20). */
  readonly delayMs?: number;
  /** Average time between the starts of runs under continuous triggers (default 500). */
  readonly intervalMs?: number;
  /** Called with the time between runs when it begins to be limited or changes, and with 0 when it no longer is. */
  readonly onPaced?: (distanceMs: number) => void;
}

const DELAY_MS = 20;
const INTERVAL_MS = 500;
/** Runs that may ignore the interval after a quiet time, so that occasional changes are discovered at once. */
const BURST = 3;
/** Delay of a run after an echo: the notifications of one read are followed by one run. */
const ECHO_DELAY_MS = 50;
/** Weight of an echo after a run that found nothing new, and after one that did, as the first; and of those that limit the rate. */
const FRUITLESS = 3;
const FRUITFUL = 1;
/** Weight of an echo that arrives late after a run that found nothing new, and may be another change. */
const LATE = 1;
const TOO_MANY = FRUITFUL + 2 * FRUITLESS;
/** Times between runs while the rate is limited, doubled by each echo, and time without an echo that ends the limit. */
const FIRST_DISTANCE_MS = 5_000;
const LAST_DISTANCE_MS = 60_000;
const CALM_MS = 60_000;
/** Time after a run in which its echo arrives. */
const LAST_ECHO_MS = 1_000;

/**
 * Converts any number of change notifications of an upstream into runs of discovery: one shortly after the first
 * notification, never two at once, one more for all notifications during a run, and at most two per second on average.
 *
 * An upstream that sends a notification whenever its lists are read would be read forever. Such an echo is followed by one run,
 * since a change may be behind it. If that happens three times in a row without anything new after the first, or seven times with
 * something, the runs are 5, 10, 20, 40, then 60 s apart until there was no echo for a minute. A notification within a second of a
 * run that found nothing new counts as well, if that happens seven times in a row.
 */
export class DiscoveryDebouncer {
  readonly #run: () => Promise<unknown>;
  readonly #delayMs: number;
  readonly #intervalMs: number;
  readonly #onPaced: (distanceMs: number) => void;
  #timer: NodeJS.Timeout | undefined = undefined;
  /** When the timer is due: milliseconds of `performance.now()`, as all times here. */
  #timerAt = 0;
  #calmTimer: NodeJS.Timeout | undefined = undefined;
  #running = false;
  #rerun = false;
  #closed = false;
  /** Start of the next run if all runs had observed the interval. */
  #nextRunAt = 0;
  /** Runs in progress, however they were started, and the start of the last one. */
  #reads = 0;
  #readAt = Number.NEGATIVE_INFINITY;
  #readEndedAt = Number.NEGATIVE_INFINITY;
  #foundChanges = true;
  /** The last run has had an echo, and it was counted. */
  #hasEcho = false;
  #isEchoCounted = false;
  /** Sum of the weights of echoes in a row. */
  #echoes = 0;
  #distanceMs = 0;

  /** `run` discovers; its failure has no effect here. */
  constructor(run: () => Promise<unknown>, options: DebounceOptions = {}) {
    this.#run = run;
    this.#delayMs = options.delayMs ?? DELAY_MS;
    this.#intervalMs = options.intervalMs ?? INTERVAL_MS;
    this.#onPaced = options.onPaced ?? (() => undefined);
  }

  /** Called for every notification of a change; costs almost nothing. */
  trigger(): void {
    if (this.#running) this.#rerun = true;
    else if (this.#isLateEcho) this.#onEcho(this.#delayMs, LATE);
    else this.#schedule(this.#delayMs, () => this.#start());
  }

  /** Called for every notification that is probably caused by reading the lists. */
  echo(): void {
    this.#onEcho(ECHO_DELAY_MS, FRUITLESS);
  }

  /**
   * Whether a notification now follows a run that found nothing new: perhaps because of that run, on a slow connection or from an
   * upstream that announces a change for each session that ends.
   */
  get #isLateEcho(): boolean {
    return !this.#foundChanges && this.#reads === 0 && performance.now() - this.#readEndedAt < LAST_ECHO_MS;
  }

  #onEcho(delayMs: number, fruitless: number): void {
    if (this.#closed) return;
    this.#hasEcho = true;
    if (this.#distanceMs > 0) this.#awaitCalm();
    this.#schedule(delayMs, () => this.#afterEcho(fruitless));
  }

  /** Called when all lists begin to be read, also by other runs: nothing that was announced before is missed. */
  onReading(): void {
    if (!this.#hasEcho) this.#echoes = 0;
    this.#hasEcho = false;
    this.#isEchoCounted = false;
    this.#readAt = performance.now();
    this.#reads++;
    this.#clear();
  }

  /** Called at the end of that; `foundChanges`: whether the lists differ from those that were read before. */
  onRead(foundChanges: boolean): void {
    this.#reads--;
    this.#readEndedAt = performance.now();
    this.#foundChanges = foundChanges;
  }

  /** Prevents further runs. */
  close(): void {
    this.#closed = true;
    this.#clear();
    clearTimeout(this.#calmTimer);
  }

  /** Schedules the earlier of this and what is scheduled already. */
  #schedule(delayMs: number, callback: () => void): void {
    if (this.#closed) return;
    const now = performance.now();
    const ahead = (BURST - 1) * this.#intervalMs;
    const pacedAt = this.#distanceMs > 0 ? this.#readAt + this.#distanceMs : 0;
    const at = Math.max(now + delayMs, this.#nextRunAt - ahead, pacedAt);
    if (this.#timer && this.#timerAt <= at) return;
    this.#clear();
    this.#timerAt = at;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      callback();
    }, at - now).unref();
  }

  #clear(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** `fruitless`: weight of the echo if the run found nothing new. */
  #afterEcho(fruitless: number): void {
    // Only after the run is known whether it found changes.
    if (this.#reads > 0) return this.#schedule(ECHO_DELAY_MS, () => this.#afterEcho(fruitless));
    if (this.#hasEcho && !this.#isEchoCounted) {
      this.#isEchoCounted = true;
      this.#echoes += this.#foundChanges ? FRUITFUL : fruitless;
      if (this.#echoes >= TOO_MANY) {
        if (this.#distanceMs === 0) this.#awaitCalm();
        this.#setDistance(Math.min(this.#distanceMs * 2 || FIRST_DISTANCE_MS, LAST_DISTANCE_MS));
        return this.#schedule(0, () => this.#start());
      }
    }
    this.#start();
  }

  /** The limit ends when this was called for the last time a minute ago, unless a run is due or may still have an echo. */
  #awaitCalm(ms = CALM_MS): void {
    clearTimeout(this.#calmTimer);
    this.#calmTimer = setTimeout(() => {
      const isPending = this.#timer !== undefined || this.#reads > 0;
      if (isPending || performance.now() - this.#readEndedAt < LAST_ECHO_MS) return this.#awaitCalm(LAST_ECHO_MS);
      this.#echoes = 0;
      this.#setDistance(0);
    }, ms).unref();
  }

  #setDistance(distanceMs: number): void {
    if (this.#distanceMs === distanceMs) return;
    this.#distanceMs = distanceMs;
    this.#onPaced(distanceMs);
  }

  #start(): void {
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
