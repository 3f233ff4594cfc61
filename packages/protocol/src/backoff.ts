import { MAX_RETRY_MS } from '@sluice/protocol/mcp/event-stream';

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

/** How long to wait before a stream is opened again; for tests. */
export interface ReconnectDelayOptions {
  /** Milliseconds before the first attempt when the upstream has named no time (default 1000). */
  readonly firstMs?: number;
  /** What attempts that go on failing come to (default 30000). */
  readonly maxMs?: number;
  /** Gives numbers from 0 to below 1. */
  readonly random?: () => number;
}

/** An upstream that wants us back sooner than this would have us do nothing else. */
const LEAST_MS = 50;

/**
 * Delays between attempts to open a long-lived stream. The first one comes after the time that the upstream asked for
 * (`retry` of its events), or a little later; its successors after a time that doubles up to 30 s, of which jitter takes
 * up to half, so that streams that broke together do not come back together.
 */
export class ReconnectDelay {
  readonly #maxMs: number;
  readonly #random: () => number;
  #askedMs: number;
  #failures = 0;

  constructor({ firstMs = 1_000, maxMs = 30_000, random = Math.random }: ReconnectDelayOptions = {}) {
    this.#askedMs = firstMs;
    this.#maxMs = maxMs;
    this.#random = random;
  }

  /** The upstream names the time to reconnect after, in milliseconds; never less is waited, unless it is over an hour. */
  asked(retryMs: number): void {
    this.#askedMs = Math.min(Math.max(retryMs, LEAST_MS), MAX_RETRY_MS);
  }

  /** Milliseconds to wait before the next attempt. */
  next(): number {
    const bound = Math.min(this.#askedMs * 2 ** this.#failures, this.#maxMs);
    const jittered = this.#failures === 0 ? bound * (1 + this.#random() / 10) : (bound / 2) * (1 + this.#random());
    this.#failures++;
    return Math.round(Math.max(jittered, this.#askedMs));
  }

  /** To be told of a stream that is there to stay: the next delay is a first one again. */
  reset(): void {
    this.#failures = 0;
  }
}
