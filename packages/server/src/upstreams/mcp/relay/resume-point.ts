import { MAX_RETRY_MS, sendableId } from '@sluice/protocol/mcp/event-stream';
import type { UpstreamError } from '../../../http/client/errors.ts';

/** Delay before an ended stream is resumed if the upstream names none, in milliseconds, and its lower bound. */
const DEFAULT_RETRY_MS = 1_000;
const MIN_RETRY_MS = 100;
/** Maximum number of consecutive failed attempts. */
const MAX_FAILURES = 5;

/** Errors that another attempt may not meet again. */
const TRANSIENT: ReadonlySet<UpstreamError['kind']> = new Set(['dropped', 'refused', 'timeout', 'http']);

/**
 * Position from which the event stream of a call can be resumed, and the schedule of the attempts (2025-11-25,
 * "Resumability and Redelivery"): the upstream names both in its events. Created only for calls whose upstream does, which
 * are few.
 */
export class ResumePoint {
  #eventId: string | undefined = undefined;
  #retryMs = DEFAULT_RETRY_MS;
  /** Attempts since the last message, or since the upstream last ended its stream in good order. */
  #failures = 0;
  #timer: NodeJS.Timeout | undefined = undefined;
  /** An attempt was made since the last message. */
  #attempted = false;

  /** Delay that the upstream wants between the end of its stream and the next attempt, in milliseconds. */
  get retryMs(): number {
    return this.#retryMs;
  }

  /** True until the delay that the upstream named has passed: its silence is expected. */
  get isWaiting(): boolean {
    return this.#timer !== undefined && !this.#attempted;
  }

  /** Takes id and `retry` of an event. */
  update(id: string | undefined, retry: number | undefined): void {
    if (id !== undefined) this.#eventId = sendableId(id);
    if (retry !== undefined) this.#retryMs = Math.min(Math.max(retry, MIN_RETRY_MS), MAX_RETRY_MS);
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

  /** Schedules a call of `resume` with the event id. False if the stream cannot be resumed after this error. */
  schedule(error: UpstreamError, resume: (eventId: string) => void): boolean {
    const eventId = this.#eventId;
    if (eventId === undefined || !TRANSIENT.has(error.kind) || this.#failures >= MAX_FAILURES) return false;
    const delay = Math.min(this.#retryMs * 2 ** this.#failures++, MAX_RETRY_MS);
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#attempted = true;
      resume(eventId);
    }, delay).unref();
    return true;
  }

  cancel(): void {
    clearTimeout(this.#timer);
  }
}
