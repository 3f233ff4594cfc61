import { ChunkBuffer } from '@sluice/protocol/chunk-buffer';
import { isJsonObject, type JsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import type {
  ResponseHandler,
  ResponseHeaders,
  UpstreamCall,
  UpstreamRequest,
  UpstreamTransport,
} from '../../http/client/client.ts';
import { quoted, UpstreamError } from '../../http/client/errors.ts';
import { copyOf } from '../../http/message-parser.ts';
import { BodyStart, isEventStream, isNoEventStream, isObjectStart } from './body-start.ts';
import { EventReader } from './event-reader.ts';
import { isResponseTo, largeContent, messagesIn, TooLargeError } from './received-messages.ts';
import { LARGE_MESSAGE_BYTES, LargeMessage } from './relay/large-message.ts';
import type { ReadRequest, RpcResponseHandler, UpstreamResponse } from './response-handler.ts';
import { type SessionVerdict, sessionVerdict } from './session-loss.ts';
import { unusableResponse } from './unusable-response.ts';

type Mode = 'head' | 'start' | 'json' | 'stream' | 'other' | 'done';

const NO_HEADERS: ResponseHeaders = {};
const EMPTY = Buffer.alloc(0);
/** Bytes of a body that are read for its text. */
const MAX_OTHER_BYTES = 4 * 1024;
/** Time for the body of an error, in milliseconds: it may never end. */
const ERROR_BODY_MS = 5_000;
/** Time, in milliseconds, and bytes after which a response that is complete is closed: till then its connection can be reused. */
const LINGER_MS = 1_000;
const MAX_LINGERING_BYTES = 64 * 1024;

/**
 * Reads the response of an upstream to one request: with its parts, the only place that knows which statuses, content types,
 * framings and events are accepted, and what they mean for the session. Used by calls, discovery, subscriptions, health checks and
 * notifications alike.
 *
 * A body counts by its content: JSON and event streams are read under any content type. Messages other than the response are
 * passed on.
 *
 * Hot path: a small JSON body needs no further object.
 */
export class ResponseReader implements ResponseHandler {
  /** Status of the response; 0 before its head. */
  status = 0;
  headers: ResponseHeaders = NO_HEADERS;
  /** Whether it is an event stream. */
  isStream = false;
  readonly #handler: RpcResponseHandler;
  readonly #request: ReadRequest;
  readonly #address: string;
  #call: UpstreamCall | undefined = undefined;
  #mode: Mode = 'head';
  #isPaused = false;
  /** A part of the body is being passed on: what that returns pauses or resumes the connection. */
  #isReading = false;
  /** Whether the label says that it is an event stream, and nothing was read yet. */
  #isStreamByLabel = false;
  #events: EventReader | undefined = undefined;
  /** The beginning of a body that is not known by its first byte. */
  #start: BodyStart | undefined = undefined;
  /** A body that arrives in several pieces. */
  #body: ChunkBuffer | undefined = undefined;
  /** Set for a large JSON body. */
  #large: LargeMessage | undefined = undefined;
  #text = '';
  #isAscii = false;
  /** The body was cut off, so that it may say something else. */
  #isCutOff = false;
  #lingeringBytes = 0;
  #timer: NodeJS.Timeout | undefined = undefined;

  constructor(address: string, request: ReadRequest, handler: RpcResponseHandler) {
    this.#address = address;
    this.#request = request;
    this.#handler = handler;
  }

  /** Sends the request. To be called once. */
  send(transport: UpstreamTransport, request: UpstreamRequest): UpstreamCall {
    this.#call = transport.dispatch(request, this);
    return this.#call;
  }

  /** Reads no more until `resume`; messages that have already arrived are still passed on. */
  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    if (!this.#isReading) this.#call?.resume();
  }

  /** Aborts the request; nothing is called afterwards. */
  abort(): void {
    this.#finish();
    this.#call?.abort();
  }

  onHead(status: number, headers: ResponseHeaders): void {
    this.status = status;
    this.headers = headers;
    const { id, requiresStream } = this.#request;
    // A stream that is resumed must contain a message.
    if (!requiresStream) this.#handler.onActivity?.();
    if (id === undefined && !requiresStream && this.#isSuccess) return this.#endEarly();
    if (this.#isSuccess && isEventStream(headers)) {
      this.#isStreamByLabel = !requiresStream;
      return this.#beginStream();
    }
    this.#mode = 'start';
    if (this.#isSuccess && !requiresStream) return;
    this.#timer = setTimeout(() => {
      this.#isCutOff = true;
      this.#complete();
      this.#call?.abort();
    }, ERROR_BODY_MS).unref();
  }

  get #isSuccess(): boolean {
    return this.status < 300;
  }

  #beginStream(): void {
    if (this.#request.requiresStream) clearTimeout(this.#timer);
    this.isStream = true;
    this.#mode = 'stream';
    this.#events = new EventReader(this.#request, this.#handler);
    this.#handler.onStream?.();
  }

  onData(chunk: Buffer): boolean {
    this.#isReading = true;
    try {
      return this.#read(chunk);
    } catch (error) {
      this.#onError(error);
      return true;
    } finally {
      this.#isReading = false;
    }
  }

  #read(chunk: Buffer): boolean {
    if (this.#isStreamByLabel) {
      this.#isStreamByLabel = false;
      if (isNoEventStream(chunk)) return this.#readStart(chunk);
    }
    switch (this.#mode) {
      case 'stream':
        if (this.#events) this.#readEvents(this.#events, chunk);
        return !this.#isPaused;
      case 'json':
        this.#readJson(chunk);
        return !this.#isPaused;
      case 'start':
        return this.#readStart(chunk);
      case 'other':
        this.#body ??= new ChunkBuffer();
        this.#body.push(chunk);
        if (this.#body.length > MAX_OTHER_BYTES) this.#complete();
        return true;
      default:
        this.#lingeringBytes += chunk.length;
        if (this.#lingeringBytes > MAX_LINGERING_BYTES) this.#call?.abort();
        return true;
    }
  }

  onWholeBody(buffer: Buffer, start: number, end: number): boolean {
    const size = end - start;
    const isSimple = this.#mode === 'start' && isObjectStart(buffer[start]);
    if (!isSimple || size >= LARGE_MESSAGE_BYTES || size > this.#request.maxBytes) {
      return this.onData(copyOf(buffer, start, end));
    }
    this.#mode = 'json';
    this.#handler.onActivity?.();
    this.#decode(buffer, start, end);
    return !this.#isPaused;
  }

  #decode(buffer: Buffer, start: number, end: number): void {
    this.#text = buffer.toString('utf8', start, end);
    // Bytes that are not UTF-8 are replaced, each by one character.
    this.#isAscii = this.#text.length === end - start && !this.#text.includes('\ufffd');
  }

  /** Decides by the first bytes of a body what it is. */
  #readStart(chunk: Buffer): boolean {
    const { maxBytes, requiresStream } = this.#request;
    this.isStream = false;
    if (!requiresStream) this.#handler.onActivity?.();
    const isKnown = !this.#start && isObjectStart(chunk[0]);
    if (!isKnown) this.#start ??= new BodyStart();
    const kind = isKnown ? 'json' : this.#start?.push(chunk, maxBytes);
    if (!kind) return true;
    if (kind === 'events' && (this.#isSuccess || !requiresStream)) this.#beginStream();
    else this.#mode = kind === 'json' && !requiresStream ? 'json' : 'other';
    return this.#read(isKnown ? chunk : (this.#start?.take() ?? chunk));
  }

  #readEvents(events: EventReader, chunk: Buffer): void {
    this.#handler.cork?.(true);
    try {
      events.write(chunk);
      if (!events.isDone || this.#mode === 'done') return;
      if (events.content !== undefined && events.value) this.#respond(events.content, events.value, false);
      else this.#endEarly();
    } finally {
      this.#handler.cork?.(false);
    }
  }

  #readJson(chunk: Buffer): void {
    const { maxBytes } = this.#request;
    this.#handler.onActivity?.();
    this.#body ??= new ChunkBuffer();
    const size = (this.#large ?? this.#body).length + chunk.length;
    if (size > maxBytes && !this.#large?.isTaken) throw new TooLargeError(`more than ${maxBytes} bytes`);
    if (!this.#large) this.#body.push(chunk);
    if (size < LARGE_MESSAGE_BYTES) return;
    const parts = this.#large ? [chunk] : this.#body.chunks;
    this.#large ??= new LargeMessage();
    for (const part of parts) this.#large.write(part);
    this.#handler.large?.onPart(this.#large, this.#contentLength);
  }

  /** Bytes of the content, if the response announces them. */
  get #contentLength(): number | undefined {
    const { 'content-length': length } = this.headers;
    return typeof length === 'string' ? Number(length) - (this.#start?.skippedBytes ?? 0) : undefined;
  }

  onEnd(): void {
    if (this.#mode === 'done') clearTimeout(this.#timer);
    else this.#complete();
  }

  onError(error: UpstreamError): void {
    if (this.#mode === 'done') return clearTimeout(this.#timer);
    // A body that is cut off still says something.
    const isKnown = this.#mode === 'other' || (this.#mode !== 'head' && this.status >= 300);
    this.#isCutOff = true;
    if (isKnown && error.kind !== 'aborted' && error.kind !== 'timeout') return this.#complete();
    this.#finish();
    if (this.isStream) this.#handler.onEnd({ kind: 'interrupted', error, isRegular: false });
    else this.#handler.onEnd({ kind: 'rejected', error, status: this.status || undefined });
  }

  /** The body is complete, or as much of it as is read. */
  #complete(): void {
    clearTimeout(this.#timer);
    try {
      switch (this.#mode) {
        case 'json':
          return this.#completeJson();
        case 'stream':
          return this.#isSuccess ? this.#onStreamEnd() : this.#rejectBody(EMPTY);
        default:
          return this.#rejectBody(this.#body?.concat() ?? this.#start?.take() ?? EMPTY);
      }
    } catch (error) {
      this.#onError(error);
    }
  }

  #completeJson(): void {
    if (this.#large) {
      const received = largeContent(this.#large, this.#handler.large);
      return received ? this.#takeBody(received.content, received.value) : this.#finish();
    }
    const body = this.#body?.concat();
    if (body) this.#decode(body, 0, body.length);
    this.#takeBody(this.#text, tryParseJson(this.#text));
  }

  /** Takes a JSON body, an array of messages too, which version 2025-03-26 allows; rejects one without the response. */
  #takeBody(content: string | LargeMessage, value: unknown): void {
    if (isJsonObject(value)) this.#takeJson(content, value);
    else if (typeof content === 'string' && Array.isArray(value)) {
      for (const [text, message] of messagesIn(content, value)) {
        if (this.#mode === 'done') break;
        if (!isJsonObject(message)) continue;
        if (typeof message.method === 'string') this.#handler.onMessage?.(text, message);
        else this.#takeJson(text, message);
      }
    }
    if (this.#mode === 'done') return;
    const isText = typeof content === 'string';
    this.#rejectBody(isText ? Buffer.from(content.slice(0, MAX_OTHER_BYTES)) : content.start(MAX_OTHER_BYTES), value);
  }

  /** In the body of an HTTP response, an error without an id means that the server could not read the request. */
  #takeJson(content: string | LargeMessage, value: JsonObject): void {
    if (isResponseTo(this.#request.id, value, !this.#isSuccess)) this.#respond(content, value, this.#isAscii);
  }

  #respond(content: string | LargeMessage, value: JsonObject, isAscii: boolean): void {
    const { status } = this;
    const session = 'error' in value || !this.#isSuccess ? this.#sessionVerdict(value, '') : 'known';
    this.#finish();
    if (this.isStream) this.#linger();
    const isText = typeof content === 'string';
    if (session === 'unknown') {
      return this.#reject(Buffer.from(isText ? content : ''), value, session);
    }
    const response: UpstreamResponse = isText
      ? { kind: 'response', text: content, value, status, isAscii }
      : { kind: 'large', large: content, value, status };
    this.#handler.onEnd(session === 'known' ? response : { ...response, session });
  }

  #sessionVerdict(value: unknown, body: string): SessionVerdict {
    const mayBeProcessed = this.#isCutOff || this.#events?.hasMessages === true;
    return sessionVerdict(this.#request, { status: this.status, value, body, mayBeProcessed });
  }

  #onStreamEnd(): void {
    this.#finish();
    // Of JSON, which may be the result of another request, it has only the names of the members.
    const skipped = this.#events?.skipped;
    const other = skipped === undefined ? '' : `, and another event: "${quoted(skipped)}"`;
    const what = `ended the event stream of ${this.#request.name} before the response${other}`;
    const error = new UpstreamError('dropped', this.#address, what, { status: this.status });
    this.#handler.onEnd({ kind: 'interrupted', error, isRegular: true });
  }

  #rejectBody(body: Buffer, parsed?: unknown): void {
    const value = parsed ?? tryParseJson(body.toString());
    const text = body.toString('utf8', 0, MAX_OTHER_BYTES);
    const session = this.#isSuccess ? 'known' : this.#sessionVerdict(value, text);
    // The rest of the body is of no use.
    this.abort();
    this.#reject(body, value, session);
  }

  /** Rejects the response; `parsed` is its body, undefined if that is not JSON. */
  #reject(body: Buffer, parsed: unknown, session: SessionVerdict): void {
    const { status, headers } = this;
    const response = { request: this.#request.name, status, headers, body, value: parsed };
    const error = unusableResponse(this.#address, response);
    const value = isJsonObject(parsed) ? parsed : undefined;
    const kind = session === 'unknown' ? 'session-unknown' : 'rejected';
    this.#handler.onEnd({ kind, error, status, value, session });
  }

  /** Reading or the handler failed. */
  #onError(thrown: unknown): void {
    const { status } = this;
    const isTooLarge = thrown instanceof TooLargeError;
    const what = isTooLarge ? `answered ${this.#request.name} with ${thrown.message}` : '';
    const error = isTooLarge ? new UpstreamError('too-large', this.#address, what, { status }) : thrown;
    if (!(error instanceof UpstreamError) || this.#mode === 'done') {
      return this.#handler.onEnd({ kind: 'internal-error', error });
    }
    this.abort();
    this.#handler.onEnd({ kind: 'rejected', error, status });
  }

  /** Nothing more of the response is needed. */
  #endEarly(): void {
    this.#finish();
    this.#linger();
    this.#handler.onEnd({ kind: 'done' });
  }

  /** Lets the rest of the response arrive, so that the connection can be reused. */
  #linger(): void {
    this.#timer = setTimeout(() => this.#call?.abort(), LINGER_MS).unref();
  }

  #finish(): void {
    clearTimeout(this.#timer);
    this.#mode = 'done';
    this.#isStreamByLabel = false;
    this.#events?.stop();
    this.#large = undefined;
    this.#body = undefined;
  }
}
