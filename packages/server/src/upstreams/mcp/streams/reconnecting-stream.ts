import { ReconnectDelay, type ReconnectDelayOptions } from '@sluice/protocol/timing';
import { isInconclusive } from '../rpc-request.ts';

/** Default limit on one event. */
export const MAX_EVENT_BYTES = 64 * 1024 * 1024;

/**
 * True for statuses that do not mean that no stream is offered: 401, 403, 429, 5xx except 501, 408, and 409, which the
 * reference server sends until it notices that the last connection is closed.
 */
export function isTemporary(status: number): boolean {
  return (isInconclusive(status) && status !== 501) || status === 408 || status === 409;
}

/** A connection that is reopened. */
export interface Connection {
  /** Continues after `deliver` has returned false. */
  resume(): void;
  close(): void;
}

/**
 * Reopens a connection whenever it ends, with backpressure: while the reader is paused, nothing is delivered and no
 * connection is opened.
 */
export class Reconnector {
  readonly delay: ReconnectDelay;
  readonly #connect: () => Connection;
  #connection: Connection | undefined = undefined;
  #timer: NodeJS.Timeout | undefined = undefined;
  #paused = false;
  /** `resume` was called, possibly from within the delivery. */
  #resumed = false;
  /** The reconnect delay elapsed while the reader was paused. */
  #due = false;
  #closed = false;

  /** `connect` opens a connection. */
  constructor(connect: () => Connection, delays?: ReconnectDelayOptions) {
    this.#connect = connect;
    this.delay = new ReconnectDelay(delays);
  }

  /** Connects immediately. */
  open(): void {
    this.#due = false;
    this.#connection = this.#connect();
  }

  /** Closes the connection and connects again after the delay; `immediately`: as soon as the reader is not paused. */
  reconnect(immediately = false): void {
    if (this.#closed) return;
    this.#disconnect();
    this.#timer = setTimeout(
      () => {
        if (this.#paused) this.#due = true;
        else this.open();
      },
      immediately ? 0 : this.delay.next(),
    ).unref();
  }

  /** Calls the reader; returns false if the reader is paused until `resume`. */
  deliver(read: () => boolean): boolean {
    this.#resumed = false;
    const more = read() || this.#resumed;
    if (!more) this.#paused = true;
    return more;
  }

  /** Resumes the reader. */
  resume(): void {
    this.#resumed = true;
    if (!this.#paused) return;
    this.#paused = false;
    if (this.#due) this.open();
    else this.#connection?.resume();
  }

  /** Closes for good, without callbacks. */
  close(): void {
    this.#closed = true;
    this.#disconnect();
  }

  #disconnect(): void {
    clearTimeout(this.#timer);
    this.#connection?.close();
    this.#connection = undefined;
  }
}
