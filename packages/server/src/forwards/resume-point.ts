import { MAX_RETRY_MS, sendableId } from '@sluice/protocol/mcp/event-stream';
import type { UpstreamError } from '../transport/upstream-error.ts';

/** When an upstream that has ended its stream is asked for the rest, where it does not say when; and how often in vain. */
const RETRY_MS = 1_000;
const MIN_RETRY_MS = 100;
const MAX_FAILURES = 5;

/** Failures that another attempt may not meet again. */
const PASSING: ReadonlySet<UpstreamError['kind']> = new Set(['dropped', 'refused', 'timeout', 'http']);

/**
 * Where the event stream of one call can be taken up again, and when that is tried (2025-11-25, "Resumability and
 * Redelivery"): the upstream says both with its events. Made for calls whose upstream says so, which few do.
 */
export class ResumePoint {
  #eventId: string | undefined = undefined;
  #retryMs = RETRY_MS;
  /** Attempts since the last message, or since the upstream last ended its stream in good order. */
  #failures = 0;
  #timer: NodeJS.Timeout | undefined = undefined;
  /** The upstream has been asked for the rest since its last message. */
  #asked = false;

  /** Milliseconds after which the upstream wants to be asked, when it has ended its stream. */
  get retryMs(): number {
    return this.#retryMs;
  }

  /** True before the time that the upstream has named: its silence is what it announced. */
  get early(): boolean {
    return this.#timer !== undefined && !this.#asked;
  }

  /** Takes in what an event says: its id, and `retry`. */
  noted(id: string | undefined, retry: number | undefined): void {
    if (id !== undefined) this.#eventId = sendableId(id);
    if (retry !== undefined) this.#retryMs = Math.min(Math.max(retry, MIN_RETRY_MS), MAX_RETRY_MS);
  }

  /** A message has come. */
  delivered(): void {
    this.#failures = 0;
    this.#asked = false;
  }

  /** The upstream has ended its stream in good order: that is no failure. */
  ended(): void {
    this.#failures = 0;
  }

  /** Has `ask` called with the event id when it is time. False when there is no point in it, after this error. */
  schedule(error: UpstreamError, ask: (eventId: string) => void): boolean {
    const eventId = this.#eventId;
    if (eventId === undefined || !PASSING.has(error.kind) || this.#failures >= MAX_FAILURES) return false;
    const delay = Math.min(this.#retryMs * 2 ** this.#failures++, MAX_RETRY_MS);
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#asked = true;
      ask(eventId);
    }, delay).unref();
    return true;
  }

  /** Nobody is asked any more. */
  cancel(): void {
    clearTimeout(this.#timer);
  }
}
