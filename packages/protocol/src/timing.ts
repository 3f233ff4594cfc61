import { MAX_RETRY_MS } from './mcp/event-stream.ts';

const QUICK_MIN_MS = 250;
const QUICK_MAX_MS = 1_500;
const QUICK_PERIOD_MS = 10 * 60_000;
const SLOW_MAX_MS = 30_000;

/**
 * Delays between attempts to reach an upstream that is down: 0.25 to 1.5 s in the first ten minutes; after that up to a bound
 * that doubles with every attempt to 30 s, and at least half of it. Jitter spreads the retries of upstreams that failed together.
 */
export class Backoff {
  readonly #random: () => number;
  readonly #now: () => number;
  #firstFailure: number | undefined = undefined;
  #slowBoundMs = QUICK_MAX_MS;

  /** `random` returns numbers from 0 to below 1, `now` the milliseconds of a monotonic clock. */
  constructor(random: () => number = Math.random, now: () => number = () => performance.now()) {
    this.#random = random;
    this.#now = now;
  }

  /** Milliseconds to wait after a failure. */
  next(): number {
    const now = this.#now();
    this.#firstFailure ??= now;
    if (now - this.#firstFailure < QUICK_PERIOD_MS) {
      return Math.round(QUICK_MIN_MS + this.#random() * (QUICK_MAX_MS - QUICK_MIN_MS));
    }
    this.#slowBoundMs = Math.min(this.#slowBoundMs * 2, SLOW_MAX_MS);
    return Math.round((this.#slowBoundMs / 2) * (1 + this.#random()));
  }

  /** Called after a success: the next failure is the first one again. */
  reset(): void {
    this.#firstFailure = undefined;
    this.#slowBoundMs = QUICK_MAX_MS;
  }
}

/** Options of {@link ReconnectDelay}. */
export interface ReconnectDelayOptions {
  /** Milliseconds before the first attempt unless the server sent a `retry` (default 1000). */
  readonly firstMs?: number;
  /** Maximum delay (default 30000). */
  readonly maxMs?: number;
  /** Returns numbers from 0 to below 1. */
  readonly random?: () => number;
}

/** Minimum delay, regardless of the server's request. */
const MIN_RETRY_MS = 50;

/**
 * Delays between attempts to open a long-lived stream: first the `retry` of the server's events, or slightly more; then
 * twice as long each time up to 30 s, with up to 50 % jitter, which spreads streams that broke together.
 */
export class ReconnectDelay {
  readonly #maxMs: number;
  readonly #random: () => number;
  #retryMs: number;
  #failures = 0;

  constructor({ firstMs = 1_000, maxMs = 30_000, random = Math.random }: ReconnectDelayOptions = {}) {
    this.#retryMs = firstMs;
    this.#maxMs = maxMs;
    this.#random = random;
  }

  /** Sets the minimum delay, from `retry` of an event; capped at an hour. */
  setRetryMs(retryMs: number): void {
    this.#retryMs = Math.min(Math.max(retryMs, MIN_RETRY_MS), MAX_RETRY_MS);
  }

  /** Milliseconds to wait before the next attempt. */
  next(): number {
    const bound = Math.min(this.#retryMs * 2 ** this.#failures, this.#maxMs);
    const jittered = this.#failures === 0 ? bound * (1 + this.#random() / 10) : (bound / 2) * (1 + this.#random());
    this.#failures++;
    return Math.round(Math.max(jittered, this.#retryMs));
  }

  /** Called when a stream is stable: the next delay is the first one again. */
  reset(): void {
    this.#failures = 0;
  }
}

/**
 * Waits for the promise, but no longer than `ms` milliseconds; the work behind it continues. Rejects as the promise
 * does, and not on timeout.
 */
export async function withTimeout(ms: number, promise: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  try {
    await Promise.race([promise, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

/** Time in which one Ctrl-C may arrive several times. */
const SAME_INTERRUPT_MS = 1_000;

/**
 * Creates a listener of SIGINT that calls back once for each Ctrl-C: the terminal sends it to every process in the foreground,
 * and each package runner that started this one passes it on as well, later on a busy machine.
 */
export function oncePerInterrupt(onInterrupt: () => void, now: () => number = () => performance.now()): () => void {
  let last = Number.NEGATIVE_INFINITY;
  return () => {
    const at = now();
    if (at - last < SAME_INTERRUPT_MS) return;
    last = at;
    onInterrupt();
  };
}
