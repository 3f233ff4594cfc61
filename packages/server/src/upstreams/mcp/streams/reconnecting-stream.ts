import { ChunkBuffer } from '@sluice/protocol/chunk-buffer';
import { isJsonObject, type JsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { elements } from '@sluice/protocol/json/text';
import { type EventSink, EventStreamDecoder, type ServerSentEvent } from '@sluice/protocol/mcp/event-stream';
import { ReconnectDelay, type ReconnectDelayOptions } from '@sluice/protocol/timing';
import type {
  ResponseHandler,
  ResponseHeaders,
  UpstreamCall,
  UpstreamRequest,
  UpstreamTransport,
} from '../../../http/client/client.ts';
import { UpstreamError } from '../../../http/client/errors.ts';
import { mediaType } from '../../../http/client/response-parser.ts';
import { LargeMessage } from '../relay/large-message.ts';
import { isInconclusive } from '../rpc-request.ts';

/** End of a connection. */
export type ConnectionOutcome =
  /** The stream was open and has ended; `error` unless it ended regularly. */
  | { readonly kind: 'ended'; readonly error: UpstreamError | undefined }
  /** The response is not an event stream; `value` is its body if that is a JSON object. */
  | { readonly kind: 'answered'; readonly status: number; readonly value: JsonObject | undefined }
  /** There was no response. */
  | { readonly kind: 'failed'; readonly error: UpstreamError };

/** Callbacks of a {@link StreamConnection}; none after `onClosed` or `close`. */
export interface ConnectionHandler {
  /** The event stream is open. */
  onStream(): void;
  /** A JSON-RPC message, as text and parsed. False pauses until `resume`. */
  onMessage(text: string, value: JsonObject): boolean;
  /** A delivered event had an id (empty to clear it) or a `retry` time. */
  onCursor(id: string | undefined, retryMs: number | undefined): void;
  onClosed(end: ConnectionOutcome): void;
}

/** Limits on a response that is not a stream. */
const MAX_BODY_BYTES = 64 * 1024;
const BODY_TIMEOUT_MS = 10_000;

/**
 * One connection with an event stream of messages, without idle timeout. Arrays of messages are split; anything else is
 * skipped.
 */
export class StreamConnection implements ResponseHandler, EventSink {
  readonly #handler: ConnectionHandler;
  readonly #address: string;
  readonly #maxEventBytes: number | undefined;
  readonly #call: UpstreamCall;
  readonly #body = new ChunkBuffer();
  /** Set while a large event arrives. */
  #large: LargeMessage | undefined = undefined;
  #status = 0;
  #decoder: EventStreamDecoder | undefined = undefined;
  #bodyTimer: NodeJS.Timeout | undefined = undefined;
  #paused = false;
  #delivering = false;
  #closed = false;

  /** Sends the request. A larger event than `maxEventBytes` (default 64 MiB, decisions 8) closes the connection. */
  constructor(transport: UpstreamTransport, request: UpstreamRequest, sink: ConnectionHandler, maxEventBytes?: number) {
    this.#handler = sink;
    this.#address = transport.address;
    this.#maxEventBytes = maxEventBytes;
    this.#call = transport.dispatch(request, this);
  }

  /** Resumes after `onMessage` returned false. */
  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    // During a delivery the return value of `onData` resumes the transport.
    if (!this.#delivering) this.#call.resume();
  }

  /** Aborts the request; no callbacks afterwards. */
  close(): void {
    this.#closed = true;
    this.#large = undefined;
    clearTimeout(this.#bodyTimer);
    this.#decoder?.stop();
    this.#call.abort();
  }

  onHead(status: number, headers: ResponseHeaders): void {
    this.#status = status;
    if (status < 200 || status > 299 || mediaType(headers) !== 'text/event-stream') {
      this.#bodyTimer = setTimeout(() => this.#finish(this.#toAnswer()), BODY_TIMEOUT_MS).unref();
      return;
    }
    this.#decoder = new EventStreamDecoder(this, this.#maxEventBytes);
    this.#handler.onStream();
  }

  onData(chunk: Buffer): boolean {
    if (this.#decoder !== undefined) {
      this.#delivering = true;
      this.#decoder.write(chunk);
      this.#delivering = false;
      return !this.#paused;
    }
    if (this.#body.length + chunk.length <= MAX_BODY_BYTES) this.#body.push(chunk);
    else this.#finish(this.#toAnswer());
    return true;
  }

  onEnd(): void {
    this.#finish(this.#decoder === undefined ? this.#toAnswer() : { kind: 'ended', error: undefined });
  }

  onError(error: UpstreamError): void {
    if (this.#decoder !== undefined) this.#finish({ kind: 'ended', error });
    else if (this.#status !== 0) this.#finish(this.#toAnswer());
    else this.#finish({ kind: 'failed', error });
  }

  onEvent({ data, event, id, retry }: ServerSentEvent): void {
    if (data !== '' && event === undefined) this.#deliverMessages(data, tryParseJson(data));
    if (!this.#closed && (id !== undefined || retry !== undefined)) this.#handler.onCursor(id, retry);
  }

  onLargeData(bytes: Buffer): void {
    this.#large ??= new LargeMessage();
    this.#large.write(bytes);
  }

  onLargeEvent({ event, id, retry }: Omit<ServerSentEvent, 'data'>): void {
    const large = this.#large;
    this.#large = undefined;
    const parsed = large?.parse();
    if (large && !parsed) return this.onEventError(new Error(`a message is too large to be parsed: ${large.size}`));
    if (parsed && event === undefined) this.#deliverMessages(parsed.text, parsed.value);
    if (!this.#closed && (id !== undefined || retry !== undefined)) this.#handler.onCursor(id, retry);
  }

  onEventError(error: Error): void {
    this.#finish({
      kind: 'ended',
      error: new UpstreamError('too-large', this.#address, `sent too much: ${error.message}`),
    });
  }

  #deliverMessages(data: string, value: unknown): void {
    if (!Array.isArray(value)) return this.#deliverMessage(data, value);
    // Version 2025-03-26 may send arrays of messages.
    let index = 0;
    for (const { start, end } of elements(data)) {
      if (!this.#closed) this.#deliverMessage(data.slice(start, end), value[index++]);
    }
  }

  #deliverMessage(text: string, value: unknown): void {
    if (isJsonObject(value) && !this.#handler.onMessage(text, value)) this.#paused = true;
  }

  #toAnswer(): ConnectionOutcome {
    const value = tryParseJson(this.#body.concat().toString('utf8'));
    return { kind: 'answered', status: this.#status, value: isJsonObject(value) ? value : undefined };
  }

  #finish(end: ConnectionOutcome): void {
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
