/** What is watched for silence and for its whole length. */
export interface Watched {
  /** When it began, and when the other side last gave a sign of life: milliseconds of {@link Deadlines.now}. */
  readonly startedAt: number;
  readonly activeAt: number;
  /** Kept by {@link Deadlines}: its place there, -1 while it is not watched. */
  slot: number;
  /** Called once, when a limit is passed. */
  onDeadline(limit: 'silence' | 'total'): void;
}

export interface DeadlineLimits {
  /** SERVICE_UPSTREAM_IDLE_TIMEOUT_MS. */
  readonly silenceMs: number;
  /** SERVICE_UPSTREAM_MAX_TIMEOUT_MS. */
  readonly totalMs: number;
}

/**
 * Ends calls whose upstream stays silent, or that have lasted too long (decisions 4.7). One timer looks at all calls
 * every so often, since a timer per call would cost each call more than its deadline is worth.
 */
export class Deadlines {
  readonly limits: DeadlineLimits;
  /**
   * In no order. Not a Set: one whose members come and go at this rate is copied all the time, and a copy that has
   * grown old keeps the next one alive with all that is in it. Measured, that doubled what a call costs.
   */
  readonly #watched: Watched[] = [];
  readonly #timer: NodeJS.Timeout;

  constructor(limits: DeadlineLimits) {
    this.limits = limits;
    const step = Math.min(1_000, Math.max(10, Math.min(limits.silenceMs, limits.totalMs) / 4));
    this.#timer = setInterval(() => this.#sweep(), step);
    this.#timer.unref();
  }

  now(): number {
    return performance.now();
  }

  watch(call: Watched): void {
    if (call.slot !== -1) return;
    call.slot = this.#watched.length;
    this.#watched.push(call);
  }

  unwatch(call: Watched): void {
    const { slot } = call;
    const last = slot === -1 ? undefined : this.#watched.pop();
    call.slot = -1;
    if (last === undefined || last === call) return;
    this.#watched[slot] = last;
    last.slot = slot;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #sweep(): void {
    const now = this.now();
    for (const call of [...this.#watched]) {
      // One that was told before may have ended this one.
      if (call.slot === -1) continue;
      const total = now - call.startedAt > this.limits.totalMs;
      if (!total && now - call.activeAt <= this.limits.silenceMs) continue;
      this.unwatch(call);
      call.onDeadline(total ? 'total' : 'silence');
    }
  }
}
