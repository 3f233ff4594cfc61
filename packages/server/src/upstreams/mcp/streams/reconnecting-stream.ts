import type { JsonObject } from '@sluice/protocol/json/parse';
import { ReconnectDelay, type ReconnectDelayOptions } from '@sluice/protocol/timing';
import type { UpstreamRequest, UpstreamTransport } from '../../../http/client/client.ts';
import { UpstreamError } from '../../../http/client/errors.ts';
import type { ReadRequest, Rejection, ResponseEnd, RpcResponseHandler } from '../response-handler.ts';
import { ResponseReader } from '../response-reader.ts';
import { isInconclusive } from '../rpc-request.ts';

/**
 * End of a connection; without an error if the stream ended regularly. `status` is that of a response that is no event stream;
 * `value` is its body if that is a JSON object, or the response to the request on the stream.
 */
export type ConnectionEnd = Partial<Rejection>;

/** Default limit on one event. */
export const MAX_EVENT_BYTES = 64 * 1024 * 1024;

/** Callbacks of a {@link StreamConnection}; none after `onClosed` or `close`. */
export interface ConnectionHandler {
  /** The event stream is open. */
  onStream?(): void;
  /** A JSON-RPC message, as text and parsed. False pauses until `resume`. */
  onMessage(text: string, value: JsonObject): boolean;
  /** A delivered event had an id (empty to clear it) or a `retry` time. */
  onCursor(id: string | undefined, retryMs: number | undefined): void;
  onClosed(end: ConnectionEnd): void;
}

/**
 * One connection with an event stream of messages, without idle timeout. Arrays of messages are split; anything else is
 * skipped.
 */
export class StreamConnection implements RpcResponseHandler {
  isBlocked = false;
  readonly #handler: ConnectionHandler;
  readonly #address: string;
  readonly #reader: ResponseReader;
  #delivering = false;
  #closed = false;

  /** Sends the request, whose response is read as `read` says. */
  constructor(transport: UpstreamTransport, request: UpstreamRequest, read: ReadRequest, handler: ConnectionHandler) {
    this.#handler = handler;
    this.#address = transport.address;
    this.#reader = new ResponseReader(transport.address, read, this);
    this.#reader.send(transport, request);
  }

  /** Resumes after `onMessage` returned false. */
  resume(): void {
    if (!this.isBlocked) return;
    this.isBlocked = false;
    // During a delivery the return value of `onData` resumes the transport.
    if (!this.#delivering) this.#reader.resume();
  }

  /** Aborts the request; no callbacks afterwards. */
  close(): void {
    this.#closed = true;
    this.#reader.abort();
  }

  onActivity(): void {}

  onStream(): void {
    this.#handler.onStream?.();
  }

  cork(isCorked: boolean): void {
    this.#delivering = isCorked;
  }

  onMessage(text: string, value: JsonObject): void {
    if (!this.#handler.onMessage(text, value)) this.isBlocked = true;
  }

  onCursor(id: string | undefined, retryMs: number | undefined): void {
    this.#handler.onCursor(id, retryMs);
  }

  requiresText(): boolean {
    return true;
  }

  onResponse(text: string, value: JsonObject): void {
    this.#end(this.#reader.isStream ? { value } : this.#reader.reject(Buffer.from(text), value));
  }

  onEnd(end: ResponseEnd): void {
    if (end.kind === 'done') return;
    const { error } = end;
    if (end.kind === 'interrupted') this.#end(end.isRegular ? {} : { error });
    else this.#end(this.#reader.isStream ? { error } : end);
  }

  onInternalError(cause: unknown): void {
    const what = 'sent a message that could not be handled';
    this.#end({ error: new UpstreamError('invalid', this.#address, what, { cause }) });
  }

  #end(end: ConnectionEnd): void {
    if (this.#closed) return;
    this.close();
    this.#handler.onClosed(end);
  }
}

/**
 * True for statuses that do not mean that no stream is offered: 401, 403, 429, 5xx except 501, 408, and 409, which the
 * reference server sends until it notices that the last connection is closed.
 */
export function isTemporary(status: number): boolean {
  return (isInconclusive(status) && status !== 501) || status === 408 || status === 409;
}

/**
 * Reopens a connection whenever it ends, with backpressure: while the reader is paused, nothing is delivered and no
 * connection is opened.
 */
export class Reconnector<Connection extends { resume(): void; close(): void }> {
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
