import type { JsonObject } from '@sluice/protocol/json/parse';
import { sendableId } from '@sluice/protocol/mcp/event-stream';
import { type ReconnectDelayOptions, withTimeout } from '@sluice/protocol/timing';
import type { UpstreamTransport } from '../../../http/client/client.ts';
import { UpstreamError } from '../../../http/client/errors.ts';
import { filterHeaders } from '../../../http/header-lines.ts';
import type { ResponseEnd, RpcResponseHandler } from '../response-handler.ts';
import { ResponseReader } from '../response-reader.ts';
import type { LegacyClient } from '../rpc-client.ts';
import { DefaultResponder, postMessage } from '../rpc-request.ts';
import { type Connection, isTemporary, MAX_EVENT_BYTES, Reconnector } from './reconnecting-stream.ts';

/** Optional callbacks of a {@link NotificationStream}, and `onMessage`; none from its constructor, none after `close`. */
export interface NotificationStreamHandler {
  /**
   * A JSON-RPC message of the upstream, as text and parsed; arrays of messages are split. False pauses the stream until
   * `resume`; messages that have already arrived are still delivered.
   */
  onMessage(text: string, value: JsonObject): boolean;
  /** The stream is open. `gap`: messages may have been missed, since it was not resumed by event id. */
  onOpen?(gap: boolean): void;
  /** The upstream has lost the session; the stream is closed. */
  onSessionLost?(error: UpstreamError): void;
  /** The upstream offers no such stream; it is closed. */
  onUnavailable?(): void;
}

export interface NotificationStreamOptions extends ReconnectDelayOptions {
  /** Limit on one event in bytes (default 64 MiB). */
  readonly maxEventBytes?: number;
}

const POST_ONLY_HEADERS = new Set(['accept', 'content-type', 'last-event-id']);

/**
 * Milliseconds after which a stream without a response counts as open: some servers, such as those of the Java SDK, send its head
 * with the first event.
 */
const HEAD_MS = 500;

/** Milliseconds after which an open stream resets the reconnect delay. */
const STABLE_MS = 10_000;

/**
 * Notification stream of a legacy upstream session (2025-11-25, "Listening for Messages from the Server"): opened
 * immediately and again whenever it ends, after the upstream's `retry` time and from the last event id. Closed if the
 * upstream offers no stream (405 or another 4xx). Has no idle timeout.
 */
export class NotificationStream implements RpcResponseHandler {
  readonly #transport: UpstreamTransport;
  readonly #session: Pick<LegacyClient, 'sessionHeaders' | 'isLost'>;
  readonly #headers: readonly string[];
  readonly #handler: NotificationStreamHandler;
  readonly #maxEventBytes: number;
  readonly #connection: Reconnector;
  /** Reads the current connection. */
  #reader: ResponseReader | undefined = undefined;
  readonly #responder: DefaultResponder;
  readonly #opened = Promise.withResolvers<void>();
  #lastEventId: string | undefined = undefined;
  /** Milliseconds of `performance.now()`. */
  #openedAt: number | undefined = undefined;
  /** Before and on the first connection, nothing can have been missed. */
  #isFirst = true;
  /** The current connection resumes after an event. */
  #isResumed = false;
  #closed = false;

  /** `headers` besides those of the session, names and values alternating; those only for POST are omitted. */
  constructor(
    transport: UpstreamTransport,
    session: Pick<LegacyClient, 'sessionHeaders' | 'isLost'>,
    headers: readonly string[],
    handler: NotificationStreamHandler,
    { maxEventBytes = MAX_EVENT_BYTES, ...delays }: NotificationStreamOptions = {},
  ) {
    this.#transport = transport;
    this.#session = session;
    const all = [...session.sessionHeaders, ...headers];
    this.#headers = ['accept', 'text/event-stream', ...filterHeaders(all, (name) => !POST_ONLY_HEADERS.has(name))];
    this.#handler = handler;
    this.#maxEventBytes = maxEventBytes;
    this.#responder = new DefaultResponder((response) => postMessage(transport, all, response));
    this.#connection = new Reconnector(() => this.#connect(), delays);
    this.#connection.open();
  }

  /** Resolves once the stream is open, or will be with its first event, or is closed. */
  ready(): Promise<void> {
    return withTimeout(HEAD_MS, this.#opened.promise);
  }

  /** Resumes after `onMessage` returned false. */
  resume(): void {
    this.#connection.resume();
  }

  /** Answers a server request without a handler: pings with a result, all others with an error. */
  respondByDefault(text: string, method: unknown): void {
    this.#responder.respond(text, method);
  }

  /** Closes the stream without callbacks. */
  close(): void {
    this.#closed = true;
    this.#opened.resolve();
    this.#connection.close();
  }

  onStream(): void {
    this.#openedAt = performance.now();
    this.#opened.resolve();
    this.#handler.onOpen?.(!this.#isFirst && !this.#isResumed);
  }

  onMessage(text: string, value: JsonObject): void {
    this.#connection.delay.reset();
    if (!this.#connection.deliver(() => this.#handler.onMessage(text, value))) this.#reader?.pause();
  }

  onCursor(id: string | undefined, retryMs: number | undefined): void {
    if (id !== undefined) this.#lastEventId = sendableId(id);
    if (retryMs !== undefined) this.#connection.delay.setRetryMs(retryMs);
  }

  onEnd(end: ResponseEnd): void {
    if (this.#closed) return;
    const error = 'error' in end && end.error instanceof UpstreamError ? end.error : undefined;
    // That of a response that is no event stream.
    const status = 'status' in end && !this.#reader?.isStream ? end.status : undefined;
    // A stream that ends immediately, without a message or an event id, is reopened with increasing delay.
    const lasted = performance.now() - (this.#openedAt ?? Number.POSITIVE_INFINITY);
    if (lasted > STABLE_MS || (this.#openedAt !== undefined && this.#lastEventId !== undefined)) {
      this.#connection.delay.reset();
    }
    this.#openedAt = undefined;
    if (status !== undefined) return this.#onRejected(status);
    if (error?.kind === 'redirect' || error?.kind === 'aborted') return this.#stopRetrying();
    // Resuming would deliver the same event again.
    if (error?.kind === 'too-large') this.#lastEventId = undefined;
    this.#reconnectLater();
  }

  #onRejected(status: number): void {
    if (status !== 404 && status >= 400 && status < 500 && !isTemporary(status) && this.#isResumed) {
      // The upstream does not accept the event id.
      this.#lastEventId = undefined;
      return this.#reconnectLater();
    }
    if (status < 300 || status === 405 || status === 501) this.#stopRetrying();
    else void this.#checkSession(status);
  }

  /** Some upstreams without a stream respond as if the session were lost, and some the other way round. */
  async #checkSession(status: number): Promise<void> {
    const isLost = await this.#session.isLost();
    if (this.#closed) return;
    if (isLost) {
      this.close();
      const { address } = this.#transport;
      this.#handler.onSessionLost?.(new UpstreamError('session-lost', address, 'no longer knows the session'));
    } else if (isLost === undefined || isTemporary(status)) this.#reconnectLater();
    else this.#stopRetrying();
  }

  #stopRetrying(): void {
    this.close();
    this.#handler.onUnavailable?.();
  }

  #reconnectLater(): void {
    this.#connection.reconnect();
    this.#isFirst = false;
  }

  #connect(): Connection {
    const eventId = this.#lastEventId;
    this.#isResumed = eventId !== undefined;
    const headers = eventId === undefined ? this.#headers : [...this.#headers, 'last-event-id', eventId];
    const read = {
      id: undefined,
      name: 'GET',
      sessionId: undefined,
      maxBytes: this.#maxEventBytes,
      requiresStream: true,
    };
    const reader = new ResponseReader(this.#transport.address, read, this);
    this.#reader = reader;
    reader.send(this.#transport, { method: 'GET', headers });
    return { resume: () => reader.resume(), close: () => reader.abort() };
  }
}
