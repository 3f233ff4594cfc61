import { MAX_RETRY_MS } from '@sluice/protocol/mcp/event-stream';
import type { UpstreamError } from '../../../http/client/errors.ts';

/** Delay before an ended stream is resumed if the upstream sends none, in milliseconds, and its lower bound. */
const DEFAULT_RETRY_MS = 1_000;
const MIN_RETRY_MS = 100;
/** Maximum number of consecutive failed attempts. */
const MAX_FAILURES = 5;

/** Errors that may not recur in another attempt. */
const TRANSIENT: ReadonlySet<UpstreamError['kind']> = new Set(['dropped', 'refused', 'timeout', 'http']);

/**
 * Schedule of the attempts to resume the interrupted event stream of a call (2025-11-25, "Resumability and Redelivery").
 * Created for the first attempt, which few calls need.
 */
export class ResumeSchedule {
  /** Delay that the upstream wants between the end of its stream and the next attempt, in milliseconds. */
  retryMs = DEFAULT_RETRY_MS;
  /** Attempts since the last message, or since the upstream last ended its stream properly. */
  #failures = 0;
  #timer: NodeJS.Timeout | undefined = undefined;
  /** An attempt was made since the last message. */
  #attempted = false;

  /** True until the delay of the upstream has passed: it may be idle. */
  get isWaiting(): boolean {
    return this.#timer !== undefined && !this.#attempted;
  }

  /** A message has arrived. */
  onMessage(): void {
    this.#failures = 0;
    this.#attempted = false;
  }

  /** The upstream ended its stream properly, which is not a failure. */
  onEnd(): void {
    this.#failures = 0;
  }

  /** Schedules a call of `resume`; `retry` is the upstream's last one. False if another attempt is useless. */
  schedule(error: UpstreamError, retry: number | undefined, resume: () => void): boolean {
    if (!TRANSIENT.has(error.kind) || this.#failures >= MAX_FAILURES) return false;
    if (retry !== undefined) this.retryMs = Math.min(Math.max(retry, MIN_RETRY_MS), MAX_RETRY_MS);
    const delay = Math.min(this.retryMs * 2 ** this.#failures++, MAX_RETRY_MS);
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#attempted = true;
      resume();
    }, delay).unref();
    return true;
  }

  cancel(): void {
    clearTimeout(this.#timer);
  }
}
