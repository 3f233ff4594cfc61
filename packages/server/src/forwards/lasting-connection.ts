import { ReconnectDelay, type ReconnectDelayOptions } from '@sluice/protocol/backoff';
import type { StreamConnection } from './stream-connection.ts';

/**
 * The connections of a stream that is opened again whenever it ends, one at a time, for a reader that may be slow: while
 * it is, nothing more is sent to it and nothing is opened.
 */
export class LastingConnection {
  /** The time before the next attempt. */
  readonly delay: ReconnectDelay;
  readonly #connect: () => StreamConnection;
  #connection: StreamConnection | undefined = undefined;
  #timer: NodeJS.Timeout | undefined = undefined;
  #paused = false;
  /** `resume` was called, perhaps by the reader while it is being called itself. */
  #resumed = false;
  /** The time to connect again came while the reader wanted no more. */
  #due = false;
  #closed = false;

  /** `connect` makes a connection. */
  constructor(connect: () => StreamConnection, delays?: ReconnectDelayOptions) {
    this.#connect = connect;
    this.delay = new ReconnectDelay(delays);
  }

  /** Connects now. */
  open(): void {
    if (this.#closed) return;
    this.#due = false;
    this.#connection = this.#connect();
  }

  /** The connection is over; another one follows after the delay. */
  openLater(): void {
    this.#connection = undefined;
    this.#timer = setTimeout(() => {
      if (this.#paused) this.#due = true;
      else this.open();
    }, this.delay.next()).unref();
  }

  /** Hands the reader something: `read` returns false when it wants no more until `resume`, and so does this. */
  pass(read: () => boolean): boolean {
    this.#resumed = false;
    const more = read() || this.#resumed;
    if (!more) this.#paused = true;
    return more;
  }

  /** The reader goes on. */
  resume(): void {
    this.#resumed = true;
    if (!this.#paused) return;
    this.#paused = false;
    if (this.#due) this.open();
    else this.#connection?.resume();
  }

  /** Ends the connection, without a word of it. */
  drop(): void {
    this.#connection?.close();
    this.#connection = undefined;
  }

  /** Ends it for good. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.drop();
  }
}
