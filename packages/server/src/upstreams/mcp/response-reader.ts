import { ChunkBuffer } from '@sluice/protocol/chunk-buffer';
import { isJsonObject, type JsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { elements } from '@sluice/protocol/json/text';
import { type EventSink, EventStreamDecoder, type ServerSentEvent } from '@sluice/protocol/mcp/event-stream';
import { detach } from '@sluice/protocol/text';
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
import { LARGE_MESSAGE_BYTES, LargeMessage } from './relay/large-message.ts';
import { isAnonymousId, isSameId } from './request-ids.ts';
import type { BodyScan, ReadRequest, Rejection, RpcResponseHandler } from './response-handler.ts';
import { ScannedBody } from './scanned-body.ts';
import { type SessionVerdict, sessionVerdict } from './session-loss.ts';
import { unusableResponse } from './unusable-response.ts';

type Mode = 'head' | 'start' | 'json' | 'stream' | 'scan' | 'other' | 'done';

/** Bytes of a body that are read for its text. */
const MAX_OTHER_BYTES = 4 * 1024;
/** Time for the body of an error, in milliseconds: it may never end. */
const ERROR_BODY_MS = 5_000;
/** Time, in milliseconds, and bytes after which a response that is complete is closed: till then its connection can be reused. */
const LINGER_MS = 1_000;
const MAX_LINGERING_BYTES = 64 * 1024;
/** Messages of an array, which are passed on in one turn of the event loop. */
const MAX_BATCH_MESSAGES = 5_000;

/**
 * Reads the response of an upstream to one request: the only place that knows which statuses, content types, framings and
 * events are accepted, and what they mean for the session. Used by calls, discovery, subscriptions, health checks and
 * notifications alike.
 *
 * A body counts by its content: JSON and event streams are read under any content type. Events that are not JSON-RPC are
 * skipped. Messages other than the response are passed on.
 *
 * Hot path: one object per call is the HTTP response handler and the event sink.
 */
export class ResponseReader implements ResponseHandler, EventSink {
  /** Status of the response; 0 before its head. */
  status = 0;
  headers: ResponseHeaders = {};
  /** Whether it is an event stream. */
  isStream = false;
  /** What the response reveals about the session, once the handler is called. */
  session: SessionVerdict = 'known';
  readonly #handler: RpcResponseHandler;
  readonly #request: ReadRequest;
  readonly #address: string;
  #call: UpstreamCall | undefined = undefined;
  #mode: Mode = 'head';
  /** Whether the label says so, and nothing was read yet. */
  #isStreamByLabel = false;
  #decoder: EventStreamDecoder | undefined = undefined;
  /** The beginning of a body that is not known by its first byte. */
  #start: BodyStart | undefined = undefined;
  /** A body that arrives in several pieces. */
  #body: ChunkBuffer | undefined = undefined;
  #text = '';
  #isAscii = false;
  /** Set for a large JSON body, or while a large event arrives. */
  #large: LargeMessage | undefined = undefined;
  #scanned: ScannedBody | undefined = undefined;
  /** The body was cut off, so that it may say something else, or the upstream has sent messages before the response. */
  #mayBeProcessed = false;
  #lingeringBytes = 0;
  /** The first event that was skipped. */
  #skipped: string | undefined = undefined;
  #timer: NodeJS.Timeout | undefined = undefined;

  constructor(address: string, request: ReadRequest, handler: RpcResponseHandler) {
    this.#address = address;
    this.#request = request;
    this.#handler = handler;
  }

  /** Sends the request. To be called once. */
  send(transport: UpstreamTransport, request: UpstreamRequest): void {
    this.#call = transport.dispatch(request, this);
  }

  /** True if the request was sent completely, once the response is complete. */
  get isSent(): boolean {
    return this.#call?.isSent === true;
  }

  /** Bytes of the content, if the response announces them. */
  get contentLength(): number | undefined {
    const { 'content-length': length } = this.headers;
    return typeof length === 'string' ? Number(length) - (this.#start?.skippedBytes ?? 0) : undefined;
  }

  /** Aborts the request; nothing is called afterwards. */
  abort(): void {
    this.#finish();
    this.#call?.abort();
  }

  /** Continues after the handler was blocked. Must not be called from inside a callback. */
  resume(): void {
    if (!this.#scanned?.isBusy) this.#call?.resume();
  }

  onHead(status: number, headers: ResponseHeaders): void {
    this.status = status;
    this.headers = headers;
    const { id, requiresStream } = this.#request;
    // A stream that is resumed must contain a message.
    if (!requiresStream) this.#handler.onActivity();
    if (id === undefined && !requiresStream && this.#isSuccess) {
      return this.#endEarly();
    }
    if (this.#isSuccess && isEventStream(headers)) {
      this.#isStreamByLabel = !requiresStream;
      return this.#beginStream();
    }
    this.#mode = 'start';
    if (this.#isSuccess && !requiresStream) return;
    this.#timer = setTimeout(() => {
      this.#mayBeProcessed = true;
      this.#guard(() => this.#complete());
      this.#call?.abort();
    }, ERROR_BODY_MS).unref();
  }

  get #isSuccess(): boolean {
    return this.status < 300;
  }

  #beginStream(): void {
    const { scan } = this.#request;
    if (this.#request.requiresStream) clearTimeout(this.#timer);
    this.isStream = true;
    if (scan && this.#isSuccess) return this.#beginScan(scan(true));
    this.#mode = 'stream';
    this.#decoder = new EventStreamDecoder(this, this.#request.maxBytes);
    this.#handler.onStream?.();
  }

  #beginScan(scan: BodyScan): void {
    this.#mode = 'scan';
    this.#scanned = new ScannedBody(scan);
  }

  onData(chunk: Buffer): boolean {
    try {
      return this.#read(chunk);
    } catch (error) {
      this.#onError(error);
      return true;
    }
  }

  #read(chunk: Buffer): boolean {
    if (this.#isStreamByLabel) {
      this.#isStreamByLabel = false;
      if (isNoEventStream(chunk)) return this.#readStart(chunk);
    }
    switch (this.#mode) {
      case 'stream':
        this.#handler.cork?.(true);
        this.#decoder?.write(chunk);
        this.#handler.cork?.(false);
        return !this.#handler.isBlocked;
      case 'json':
        this.#readJson(chunk);
        return !this.#handler.isBlocked;
      case 'start':
        return this.#readStart(chunk);
      case 'scan':
        if (this.#scanned) void this.#readScan(this.#scanned, chunk);
        return false;
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
    const isSimple = this.#mode === 'start' && isObjectStart(buffer[start]) && !this.#request.scan;
    if (!isSimple || size >= LARGE_MESSAGE_BYTES || size > this.#request.maxBytes) {
      return this.onData(copyOf(buffer, start, end));
    }
    this.#mode = 'json';
    this.#handler.onActivity();
    this.#decode(buffer, start, end);
    return !this.#handler.isBlocked;
  }

  #decode(buffer: Buffer, start: number, end: number): void {
    this.#text = buffer.toString('utf8', start, end);
    // Bytes that are not UTF-8 are replaced, each by one character.
    this.#isAscii = this.#text.length === end - start && !this.#text.includes('\ufffd');
  }

  /** Decides by the first bytes of a body what it is. */
  #readStart(chunk: Buffer): boolean {
    const { scan, maxBytes, requiresStream } = this.#request;
    this.isStream = false;
    if (!requiresStream) this.#handler.onActivity();
    const isKnown = !this.#start && isObjectStart(chunk[0]);
    if (!isKnown) this.#start ??= new BodyStart();
    const kind = isKnown ? 'json' : this.#start?.push(chunk, maxBytes);
    if (!kind) return true;
    if (kind === 'events' && (this.#isSuccess || !requiresStream)) this.#beginStream();
    else if (kind !== 'json' || requiresStream) this.#mode = 'other';
    else if (scan && this.#isSuccess) this.#beginScan(scan(false));
    else this.#mode = 'json';
    return this.#read(isKnown ? chunk : (this.#start?.take() ?? chunk));
  }

  #readJson(chunk: Buffer): void {
    const { maxBytes } = this.#request;
    this.#handler.onActivity();
    this.#body ??= new ChunkBuffer();
    const size = (this.#large ?? this.#body).length + chunk.length;
    if (size > maxBytes && !this.#large?.isTaken) return this.#rejectTooLarge(`more than ${maxBytes} bytes`);
    if (this.#large) return this.#writeLarge([chunk], false);
    this.#body.push(chunk);
    if (size >= LARGE_MESSAGE_BYTES) this.#writeLarge(this.#body.chunks, true);
  }

  /** Scans a large message as it arrives. */
  #writeLarge(parts: readonly Buffer[], isFirst: boolean): void {
    this.#large ??= new LargeMessage();
    for (const part of parts) this.#large.write(part);
    this.#handler.onLargePart?.(this.#large, isFirst);
  }

  async #readScan(scanned: ScannedBody, chunk: Buffer): Promise<void> {
    try {
      const isEnough = await scanned.write(chunk);
      if (this.#mode === 'done') return;
      if (isEnough && scanned.scan.isFound) this.#endEarly();
      else if (scanned.hasEnded) this.#complete();
      this.#call?.resume();
    } catch (error) {
      this.#onError(error);
    }
  }

  /** Returns for how long a scan was busy since the last call, in milliseconds. */
  takeBusyMs(): number {
    return this.#scanned?.takeBusyMs() ?? 0;
  }

  onEnd(): void {
    if (this.#mode === 'done') return clearTimeout(this.#timer);
    if (this.#scanned?.isBusy) this.#scanned.hasEnded = true;
    else this.#guard(() => this.#complete());
  }

  #guard(step: () => void): void {
    try {
      step();
    } catch (error) {
      this.#onError(error);
    }
  }

  onError(error: UpstreamError): void {
    if (this.#mode === 'done') return clearTimeout(this.#timer);
    // A body that is cut off still says something.
    const isKnown = this.#mode === 'other' || (this.#mode !== 'head' && this.status >= 300);
    this.#mayBeProcessed = true;
    if (isKnown && error.kind !== 'aborted' && error.kind !== 'timeout') return this.#guard(() => this.#complete());
    this.#finish();
    if (this.isStream) this.#handler.onEnd({ kind: 'interrupted', error, isRegular: false });
    else this.#handler.onEnd({ kind: 'rejected', error, status: this.status || undefined });
  }

  /** The body is complete, or as much of it as is read. */
  #complete(): void {
    clearTimeout(this.#timer);
    switch (this.#mode) {
      case 'json':
        return this.#completeJson();
      case 'stream':
        return this.#isSuccess ? this.#onStreamEnd() : this.#rejectBody(Buffer.alloc(0));
      case 'scan':
        return this.#completeScan();
      default:
        return this.#rejectBody(this.#body?.concat() ?? this.#start?.take() ?? Buffer.alloc(0));
    }
  }

  #completeJson(): void {
    if (this.#large) return this.#completeLarge(this.#large, undefined);
    const body = this.#body?.concat();
    if (body) this.#decode(body, 0, body.length);
    const text = this.#text;
    const value = tryParseJson(text);
    if (!this.#takeBody(text, value)) this.#rejectBody(Buffer.from(text.slice(0, MAX_OTHER_BYTES)), value);
  }

  /** Takes a JSON body, an array of messages too, which version 2025-03-26 allows; false if it has no response. */
  #takeBody(content: string | LargeMessage, value: unknown): boolean {
    if (isJsonObject(value)) this.#takeJson(content, value);
    else if (typeof content === 'string' && Array.isArray(value)) {
      for (const [text, message] of this.#messagesIn(content, value)) {
        if (this.#mode === 'done') break;
        if (!isJsonObject(message)) continue;
        if (typeof message.method === 'string') this.#handler.onMessage(text, message);
        else this.#takeJson(text, message);
      }
    }
    return this.#mode === 'done';
  }

  /**
   * Yields the messages of an array, as text and parsed; rejects an array of too many. The texts are copies: a stream may store
   * one, which must not retain the whole array.
   */
  *#messagesIn(text: string, values: readonly unknown[]): Generator<readonly [string, unknown]> {
    const { length } = values;
    if (length > MAX_BATCH_MESSAGES)
      return this.#rejectTooLarge(`an array of ${length} messages: the limit is ${MAX_BATCH_MESSAGES}`);
    let index = 0;
    for (const { start, end } of elements(text)) yield [detach(text.slice(start, end)), values[index++]];
  }

  #takeJson(content: string | LargeMessage, value: JsonObject): void {
    if (this.#isResponse(value, !this.#isSuccess)) this.#respond(content, value, this.#isAscii);
  }

  /**
   * Whether a message is the response. In the body of an HTTP response, an error without an id means that the server could not
   * read the request; `anyId`: an error with any other.
   */
  #isResponse(value: JsonObject, anyId = false): boolean {
    const { id } = this.#request;
    if (id === undefined || value.method !== undefined) return false;
    if (isSameId(id, value.id)) return 'result' in value || isJsonObject(value.error);
    if (!isJsonObject(value.error) || 'result' in value) return false;
    return anyId || isAnonymousId(value.id);
  }

  #respond(content: string | LargeMessage, value: JsonObject, isAscii: boolean): void {
    if ('error' in value || !this.#isSuccess) this.session = this.#sessionVerdict(value, '');
    this.#finish();
    if (this.isStream) this.#linger();
    if (this.session !== 'unknown') return this.#handler.onResponse(content, value, isAscii);
    const body = Buffer.from(typeof content === 'string' ? content : '');
    this.#handler.onEnd({ kind: 'session-unknown', ...this.reject(body, value) });
  }

  #sessionVerdict(value: unknown, body: string): SessionVerdict {
    return sessionVerdict(this.#request, { status: this.status, value, body, mayBeProcessed: this.#mayBeProcessed });
  }

  /** Handles a large message: as text if it may have to be changed and can be parsed quickly, else as bytes. */
  #completeLarge(large: LargeMessage, event: Omit<ServerSentEvent, 'data'> | undefined): void {
    this.#large = undefined;
    if (this.#handler.onLargeEnd?.()) {
      this.#finish();
      if (event) this.#linger();
      return;
    }
    const { value } = large;
    const isResponse = isJsonObject(value) && value.method === undefined;
    const mustBeText = !isResponse || this.#handler.requiresText(value);
    const isText = value !== undefined && (mustBeText || value.error !== undefined);
    const result = isText ? large.parse() : undefined;
    if (typeof result === 'string' && mustBeText) {
      return this.#rejectTooLarge(`a message that is too large to be parsed: ${result}`);
    }
    const parsed = typeof result === 'string' ? undefined : result;
    if (event) {
      if (parsed) this.#takeEvent(parsed.text, parsed.value);
      else if (isResponse && this.#isResponse(value)) this.#respond(large, value, false);
      return;
    }
    const known = parsed ? parsed.value : value;
    if (!this.#takeBody(parsed?.text ?? large, known)) this.#rejectBody(large.start(MAX_OTHER_BYTES), known);
  }

  #completeScan(): void {
    const { scan, start = Buffer.alloc(0) } = this.#scanned ?? {};
    if (this.isStream && !scan?.isFound) return this.#onStreamEnd();
    this.#finish();
    if (scan?.isFound) this.#handler.onEnd({ kind: 'done' });
    else this.#handler.onEnd({ kind: 'rejected', ...this.reject(start, scan?.isJson ? {} : undefined) });
  }

  #onStreamEnd(): void {
    this.#finish();
    // Of JSON, which may be the result of another request, it has only the names of the members.
    const skipped = this.#skipped === undefined ? '' : `, and another event: "${quoted(this.#skipped)}"`;
    const what = `ended the event stream of ${this.#request.name} before the response${skipped}`;
    const error = new UpstreamError('dropped', this.#address, what, { status: this.status });
    this.#handler.onEnd({ kind: 'interrupted', error, isRegular: true });
  }

  onEvent({ data, id, retry }: ServerSentEvent): void {
    // A stream may begin with an event that only carries an id to resume from.
    if (data !== '') this.#takeEvent(data, tryParseJson(data));
    if ((id !== undefined || retry !== undefined) && this.#mode === 'stream') this.#handler.onCursor?.(id, retry);
  }

  onLargeData(bytes: Buffer): void {
    this.#handler.onActivity();
    this.#writeLarge([bytes], false);
  }

  onLargeEvent(event: Omit<ServerSentEvent, 'data'>): void {
    const { id, retry } = event;
    if (this.#large) this.#completeLarge(this.#large, event);
    if ((id !== undefined || retry !== undefined) && this.#mode === 'stream') this.#handler.onCursor?.(id, retry);
  }

  onEventError({ message }: Error): void {
    this.#rejectTooLarge(`too much: ${message}`);
  }

  #takeEvent(data: string, value: unknown): void {
    if (!Array.isArray(value)) return this.#takeMessage(data, value);
    for (const [text, message] of this.#messagesIn(data, value)) {
      if (this.#mode === 'stream') this.#takeMessage(text, message);
    }
  }

  #takeMessage(text: string, value: unknown): void {
    if (isJsonObject(value) && typeof value.method === 'string') {
      this.#mayBeProcessed = true;
      this.#handler.onMessage(text, value);
    } else if (isJsonObject(value) && this.#isResponse(value)) {
      this.#handler.onActivity();
      this.#respond(text, value, false);
    } else this.#skipped ??= isJsonObject(value) ? Object.keys(value).join(', ') : detach(text.slice(0, 100));
  }

  #rejectBody(body: Buffer, parsed?: unknown): void {
    const value = parsed ?? tryParseJson(body.toString());
    if (!this.#isSuccess) this.session = this.#sessionVerdict(value, body.toString('utf8', 0, MAX_OTHER_BYTES));
    const rejection = this.reject(body, value);
    // The rest of the body is of no use.
    this.abort();
    this.#handler.onEnd({ kind: this.session === 'unknown' ? 'session-unknown' : 'rejected', ...rejection });
  }

  /** Describes the response as one that cannot be used; `parsed` is its body, undefined if that is not JSON. */
  reject(body: Buffer, parsed: unknown): Rejection {
    const { status, headers } = this;
    const start = body.subarray(0, MAX_OTHER_BYTES);
    const response = { request: this.#request.name, status, headers, body: start, value: parsed };
    const value = isJsonObject(parsed) ? parsed : undefined;
    return { error: unusableResponse(this.#address, response), status, value };
  }

  #rejectTooLarge(what: string): void {
    const { status } = this;
    const problem = `answered ${this.#request.name} with ${what}`;
    this.#fail(new UpstreamError('too-large', this.#address, problem, { status }));
  }

  /** Reading or the handler failed. */
  #onError(error: unknown): void {
    if (error instanceof UpstreamError && this.#mode !== 'done') this.#fail(error);
    else this.#handler.onInternalError(error);
  }

  #fail(error: UpstreamError): void {
    this.abort();
    this.#handler.onEnd({ kind: 'rejected', error, status: this.status });
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
    this.#decoder?.stop();
    this.#large = undefined;
    this.#body = undefined;
  }
}
