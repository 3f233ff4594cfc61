import { MAX_RETRY_MS, sendableId } from '@sluice/protocol/mcp/event-stream';
import { UpstreamError } from '../../../http/client/errors.ts';
import type { ResponseEnd } from '../response-handler.ts';
import { isInconclusive } from '../rpc-request.ts';

/** Delay before an ended stream is resumed if the upstream sends none, in milliseconds, and its lower bound. */
const DEFAULT_RETRY_MS = 1_000;
const MIN_RETRY_MS = 100;
/** Maximum number of consecutive failed attempts. */
const MAX_FAILURES = 5;

/** Errors that may not recur in another attempt. */
const TRANSIENT: ReadonlySet<UpstreamError['kind']> = new Set(['dropped', 'refused', 'timeout', 'http']);

/** The end of a stream before its response, or of an attempt to resume it. */
export type StreamEnd = Extract<ResponseEnd, { kind: 'interrupted' | 'rejected' | 'session-unknown' }>;

/**
 * Where, when and how often the event stream of a call is resumed (2025-11-25, "Resumability and Redelivery"). Created with the
 * first event that has an id or a reconnection time, which few upstreams send.
 */
export class StreamResumption {
  /** Delay that the upstream wants between the end of its stream and the next attempt, in milliseconds. */
  retryMs = DEFAULT_RETRY_MS;
  /** True once the stream was interrupted. */
  isInterrupted = false;
  /** Id of the last event: empty, or undefined, if the stream cannot be resumed. */
  #eventId: string | undefined = undefined;
  readonly #resume: (eventId: string) => void;
  /** Attempts since the last message, or since the upstream last ended its stream properly. */
  #failures = 0;
  #timer: NodeJS.Timeout | undefined = undefined;
  /** An attempt was made since the last message. */
  #attempted = false;

  /** `resume` requests the stream after the event with this id. */
  constructor(resume: (eventId: string) => void) {
    this.#resume = resume;
  }

  /** True until the delay of the upstream has passed: it may be idle. */
  get isWaiting(): boolean {
    return this.#timer !== undefined && !this.#attempted;
  }

  /** An event had an id (empty to clear it) or a reconnection time. */
  onCursor(id: string | undefined, retryMs: number | undefined): void {
    if (id !== undefined) this.#eventId = id;
    if (retryMs !== undefined) this.retryMs = Math.min(Math.max(retryMs, MIN_RETRY_MS), MAX_RETRY_MS);
  }

  /** A message has arrived. */
  onMessage(): void {
    this.#failures = 0;
    this.#attempted = false;
  }

  /** Schedules another attempt after this end. Returns the error of the call if that is not possible, or useless. */
  next(end: StreamEnd): UpstreamError | undefined {
    const { error } = end;
    if (end.kind === 'interrupted') {
      // The upstream may end its stream properly as often as it likes.
      if (end.isRegular) this.#failures = 0;
      return this.#schedule(error);
    }
    const { status } = end;
    if (status === undefined || error.kind === 'too-large') return this.#schedule(error);
    const what = `did not resume its event stream (HTTP ${status})`;
    const refused = new UpstreamError('http', error.address, what, { status });
    return isInconclusive(status) ? this.#schedule(refused) : refused;
  }

  #schedule(error: UpstreamError): UpstreamError | undefined {
    const eventId = sendableId(this.#eventId ?? '');
    if (eventId === undefined || !TRANSIENT.has(error.kind) || this.#failures >= MAX_FAILURES) return error;
    this.isInterrupted = true;
    this.#timer = setTimeout(
      () => {
        this.#timer = undefined;
        this.#attempted = true;
        this.#resume(eventId);
      },
      Math.min(this.retryMs * 2 ** this.#failures++, MAX_RETRY_MS),
    ).unref();
    return undefined;
  }

  cancel(): void {
    clearTimeout(this.#timer);
  }
}
