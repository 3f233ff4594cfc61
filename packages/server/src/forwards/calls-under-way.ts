/** A call, as it is watched for silence and for its whole length. */
export interface Watched {
  /** When it began, and when the other side last gave a sign of life: milliseconds of {@link CallsUnderWay.now}. */
  readonly startedAt: number;
  readonly activeAt: number;
  /** Kept by {@link CallsUnderWay}: its place there, -1 while it is not watched. */
  slot: number;
  /** Set when {@link onLasting} was called. */
  lasting: boolean;
  /** Called once, when it has gone on for so long that its client may lose the connection over it. */
  onLasting(): void;
  /** Called once, when a limit is passed. */
  onDeadline(limit: 'silence' | 'total'): void;
}

export interface DeadlineLimits {
  /** SERVICE_UPSTREAM_IDLE_TIMEOUT_MS. */
  readonly silenceMs: number;
  /** SERVICE_UPSTREAM_MAX_TIMEOUT_MS. */
  readonly totalMs: number;
}

/** From about here on a call lasts. */
const LASTING_MS = 500;

/**
 * All calls under way. Ends those whose upstream stays silent, or that have lasted too long (decisions 4.7): one timer
 * looks at all of them every so often, since a timer per call would cost each call more than its deadline is worth. And
 * finds the call that a message means, which is so rare that calls are not indexed for it.
 */
export class CallsUnderWay<Call extends Watched> {
  readonly limits: DeadlineLimits;
  /**
   * In no order. Not a Set: one whose members come and go at this rate is copied all the time, and a copy that has
   * grown old keeps the next one alive with all that is in it. Measured, that doubled what a call costs.
   */
  readonly #watched: Call[] = [];
  readonly #timer: NodeJS.Timeout;

  constructor(limits: DeadlineLimits) {
    this.limits = limits;
    const step = Math.min(1_000, Math.max(10, Math.min(limits.silenceMs, limits.totalMs) / 4));
    this.#timer = setInterval(() => this.#sweep(), step);
    this.#timer.unref();
  }

  /** How many there are. */
  get size(): number {
    return this.#watched.length;
  }

  now(): number {
    return performance.now();
  }

  watch(call: Call): void {
    if (call.slot !== -1) return;
    call.slot = this.#watched.length;
    this.#watched.push(call);
  }

  unwatch(call: Call): void {
    const { slot } = call;
    const last = slot === -1 ? undefined : this.#watched.pop();
    call.slot = -1;
    if (last === undefined || last === call) return;
    this.#watched[slot] = last;
    last.slot = slot;
  }

  /** The call that the test is true of. */
  find(test: (call: Call) => boolean): Call | undefined {
    return this.#watched.find(test);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #sweep(): void {
    const now = this.now();
    for (const call of [...this.#watched]) {
      // One that was told before may have ended this one.
      if (call.slot === -1) continue;
      if (!call.lasting && now - call.startedAt > LASTING_MS) {
        call.lasting = true;
        call.onLasting();
      }
      const total = now - call.startedAt > this.limits.totalMs;
      if (!total && now - call.activeAt <= this.limits.silenceMs) continue;
      this.unwatch(call);
      call.onDeadline(total ? 'total' : 'silence');
    }
  }
}
