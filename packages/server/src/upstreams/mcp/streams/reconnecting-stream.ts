import { ReconnectDelay, type ReconnectDelayOptions } from '@sluice/protocol/backoff';
import { isJsonObject, type JsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { elements } from '@sluice/protocol/json/scan';
import { type EventSink, EventStreamDecoder, type ServerSentEvent } from '@sluice/protocol/mcp/event-stream';
import type { ResponseHandler, ResponseHeaders, UpstreamCall, UpstreamRequest, UpstreamTransport } from '../../../http/client/client.ts';
import { UpstreamError } from '../../../http/client/errors.ts';
import { ChunkBuffer } from '../../../http/request-body.ts';
import { contentType, isInconclusive } from '../rpc-request.ts';

/** How a connection came to its end. */
export type ConnectionEnd =
  /** The stream was there and is over; `error` when it did not end well. */
  | { readonly kind: 'ended'; readonly error: UpstreamError | undefined }
  /** The upstream answered with something that is no event stream; `value` is its body, where that is a JSON object. */
  | { readonly kind: 'answered'; readonly status: number; readonly value: JsonObject | undefined }
  /** There was no answer. */
  | { readonly kind: 'failed'; readonly error: UpstreamError };

/** What a {@link StreamConnection} calls back; nothing after `onOver`, and nothing after `close`. */
export interface ConnectionSink {
  /** The event stream begins. */
  onStream(): void;
  /** One JSON-RPC message, as text and parsed. False: send no more until `resume`. */
  onMessage(text: string, value: JsonObject): boolean;
  /** An event has been handed on that carries an id, which is empty for none, or a time to reconnect after. */
  onCursor(id: string | undefined, retryMs: number | undefined): void;
  onOver(end: ConnectionEnd): void;
}

/** What is read of an answer that is no stream, and the milliseconds there are for it. */
const MAX_BODY_BYTES = 64 * 1024;
const BODY_TIMEOUT_MS = 10_000;

/**
 * One connection on which an upstream sends messages for as long as it likes, without any limit on its silence. Arrays
 * of messages are taken apart; what is no message is skipped.
 */
export class StreamConnection implements ResponseHandler, EventSink {
  readonly #sink: ConnectionSink;
  readonly #address: string;
  readonly #maxEventBytes: number | undefined;
  readonly #call: UpstreamCall;
  readonly #body = new ChunkBuffer();
  #status = 0;
  #decoder: EventStreamDecoder | undefined = undefined;
  #bodyTimer: NodeJS.Timeout | undefined = undefined;
  #paused = false;
  #delivering = false;
  #over = false;

  /** Sends the request. `maxEventBytes` bounds one event (default 64 MiB, decisions 8): a larger one ends it. */
  constructor(transport: UpstreamTransport, request: UpstreamRequest, sink: ConnectionSink, maxEventBytes?: number) {
    this.#sink = sink;
    this.#address = transport.address;
    this.#maxEventBytes = maxEventBytes;
    this.#call = transport.dispatch(request, this);
  }

  /** Goes on after `onMessage` returned false. */
  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    // From inside a delivery the transport is told by what `onData` returns.
    if (!this.#delivering) this.#call.resume();
  }

  /** Ends the request; nothing is called back any more. */
  close(): void {
    this.#over = true;
    clearTimeout(this.#bodyTimer);
    this.#decoder?.stop();
    this.#call.abort();
  }

  onHead(status: number, headers: ResponseHeaders): void {
    this.#status = status;
    if (status < 200 || status > 299 || contentType(headers) !== 'text/event-stream') {
      this.#bodyTimer = setTimeout(() => this.#end(this.#answered()), BODY_TIMEOUT_MS).unref();
      return;
    }
    this.#decoder = new EventStreamDecoder(this, this.#maxEventBytes);
    this.#sink.onStream();
  }

  onData(chunk: Buffer): boolean {
    if (this.#decoder !== undefined) {
      this.#delivering = true;
      this.#decoder.write(chunk);
      this.#delivering = false;
      return !this.#paused;
    }
    if (this.#body.length + chunk.length <= MAX_BODY_BYTES) this.#body.push(chunk);
    else this.#end(this.#answered());
    return true;
  }

  onEnd(): void {
    this.#end(this.#decoder === undefined ? this.#answered() : { kind: 'ended', error: undefined });
  }

  onError(error: UpstreamError): void {
    if (this.#decoder !== undefined) this.#end({ kind: 'ended', error });
    else if (this.#status !== 0) this.#end(this.#answered());
    else this.#end({ kind: 'failed', error });
  }

  onEvent({ data, event, id, retry }: ServerSentEvent): void {
    if (data !== '' && (event === undefined || event === 'message')) this.#messages(data);
    if (!this.#over && (id !== undefined || retry !== undefined)) this.#sink.onCursor(id, retry);
  }

  onEventError(error: Error): void {
    this.#end({
      kind: 'ended',
      error: new UpstreamError('too-large', this.#address, `sent too much: ${error.message}`),
    });
  }

  #messages(data: string): void {
    const value = tryParseJson(data);
    if (!Array.isArray(value)) return this.#message(data, value);
    // Version 2025-03-26 may send arrays of messages.
    let index = 0;
    for (const { start, end } of elements(data)) {
      if (!this.#over) this.#message(data.slice(start, end), value[index++]);
    }
  }

  #message(text: string, value: unknown): void {
    if (isJsonObject(value) && !this.#sink.onMessage(text, value)) this.#paused = true;
  }

  #answered(): ConnectionEnd {
    const value = tryParseJson(this.#body.take().toString('utf8'));
    return { kind: 'answered', status: this.#status, value: isJsonObject(value) ? value : undefined };
  }

  #end(end: ConnectionEnd): void {
    if (this.#over) return;
    this.close();
    this.#sink.onOver(end);
  }
}

/**
 * True for the statuses that say nothing about whether a stream is offered: 401, 403, 429, 5xx but 501, 408, and 409,
 * with which the reference server says that it has not noticed yet that the last connection is gone.
 */
export function isTemporary(status: number): boolean {
  return (isInconclusive(status) && status !== 501) || status === 408 || status === 409;
}

/**
 * The connections of a stream that is opened again whenever it ends, one at a time, for a reader that may be slow: while
 * it is, nothing more is sent to it and nothing is opened.
 */
export class ReconnectingConnection {
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
