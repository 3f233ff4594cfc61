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
import { mediaType } from '../../http/client/response-parser.ts';
import { copyOf } from '../../http/message-parser.ts';
import { BodyStart, isNoEventStream, isObjectStart } from './body-start.ts';
import { LARGE_MESSAGE_BYTES, LargeMessage } from './relay/large-message.ts';
import { isAnonymousId, isSameId } from './request-ids.ts';
import type { BodyScan, ReadRequest, Rejection, RpcResponseHandler } from './response-handler.ts';
import { ScannedBody } from './scanned-body.ts';
import { rejectionText, type SessionVerdict, sessionVerdict } from './session-loss.ts';
import { describeUnusable, remedyOf } from './unusable-response.ts';

type Mode = 'head' | 'start' | 'json' | 'stream' | 'scan' | 'other' | 'done';

/** Bytes of a body that are read for its text. */
const MAX_OTHER_BYTES = 4 * 1024;
/** Time for the body of an error, in milliseconds: it may never end. */
const ERROR_BODY_MS = 5_000;
/** Time an upstream may keep a response open after it is complete, so that its connection can be reused, in milliseconds. */
const LINGER_MS = 1_000;
/** Bytes of it. */
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
  /** What the response reveals about the session, once the handler is called. */
  session: SessionVerdict = 'known';
  readonly #handler: RpcResponseHandler;
  readonly #request: ReadRequest;
  readonly #address: string;
  #call: UpstreamCall | undefined = undefined;
  #mode: Mode = 'head';
  #isStream = false;
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

  /** True if the response is an event stream. */
  get isStream(): boolean {
    return this.#isStream;
  }

  /** Aborts the request; nothing is called afterwards. */
  abort(): void {
    this.#finish();
    clearTimeout(this.#timer);
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
      this.#finish();
      this.#linger();
      return this.#handler.onEnd({ kind: 'done' });
    }
    if (this.#isSuccess && isEventStream(headers)) {
      this.#isStreamByLabel = !requiresStream;
      return this.#beginStream();
    }
    this.#mode = 'start';
    if (!this.#isSuccess || requiresStream)
      this.#timer = setTimeout(() => this.#onBodyTimeout(), ERROR_BODY_MS).unref();
  }

  get #isSuccess(): boolean {
    return this.status < 300;
  }

  #beginStream(): void {
    const { scan } = this.#request;
    if (this.#request.requiresStream) clearTimeout(this.#timer);
    this.#isStream = true;
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
        return this.#readScan(chunk);
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
    this.#isStream = false;
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
    const body = this.#body;
    const size = (this.#large ?? body).length + chunk.length;
    if (size > maxBytes && !this.#large?.isTaken) return this.#rejectTooLarge(`more than ${maxBytes} bytes`);
    const isFirst = !this.#large;
    if (!isFirst) this.#writeLarge(chunk);
    else {
      body.push(chunk);
      if (size >= LARGE_MESSAGE_BYTES) for (const part of body.chunks) this.#writeLarge(part);
    }
    if (this.#large) this.#handler.onLargePart?.(this.#large, isFirst);
  }

  /** Scans a large message as it arrives. */
  #writeLarge(bytes: Buffer): void {
    this.#large ??= new LargeMessage();
    this.#large.write(bytes);
  }

  #readScan(chunk: Buffer): boolean {
    const scanned = this.#scanned;
    scanned?.write(chunk).then(
      (isEnough) => this.#guard(() => this.#onScanStep(scanned, isEnough)),
      (error: unknown) => this.#onError(error),
    );
    return scanned === undefined;
  }

  /** Returns for how long a scan was busy since the last call, in milliseconds. */
  takeBusyMs(): number {
    return this.#scanned?.takeBusyMs() ?? 0;
  }

  #onScanStep({ scan, hasEnded }: ScannedBody, isEnough: boolean): void {
    if (this.#mode === 'done') return;
    if (isEnough && scan.isFound) {
      this.#finish();
      this.#linger();
      this.#handler.onEnd({ kind: 'done' });
    } else if (hasEnded) this.#complete();
    this.#call?.resume();
  }

  onEnd(): void {
    if (this.#mode === 'done') return clearTimeout(this.#timer);
    if (this.#scanned?.isBusy) this.#scanned.hasEnded = true;
    else this.#guard(() => this.#complete());
  }

  /** 5 s after the head of an error: the upstream may keep its body open. */
  #onBodyTimeout(): void {
    this.#mayBeProcessed = true;
    this.#guard(() => this.#complete());
    this.#call?.abort();
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
    if (this.#isStream) this.#handler.onEnd({ kind: 'interrupted', error, isRegular: false });
    else this.#handler.onEnd({ kind: 'rejected', error, status: this.status || undefined });
  }

  /** The body is complete, or as much of it as is read. */
  #complete(): void {
    clearTimeout(this.#timer);
    switch (this.#mode) {
      case 'json':
        return this.#completeJson();
      case 'stream':
        if (!this.#isSuccess) return this.#rejectBody(Buffer.alloc(0));
        return this.#onStreamEnd();
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
    if (isJsonObject(value) ? this.#takeJson(text, value) : this.#takeBatch(text, value)) return;
    this.#rejectBody(Buffer.from(text.slice(0, MAX_OTHER_BYTES)), value);
  }

  /** Version 2025-03-26 allows arrays of messages. */
  #takeBatch(text: string, value: unknown): boolean {
    if (!Array.isArray(value)) return false;
    if (this.#rejectLargeBatch(value)) return true;
    let index = 0;
    for (const { start, end } of elements(text)) {
      const message: unknown = value[index++];
      if (!isJsonObject(message)) continue;
      // A copy: a stream may store the message, which must not retain the whole array.
      const own = detach(text.slice(start, end));
      if (typeof message.method === 'string') this.#handler.onMessage(own, message);
      else if (this.#takeJson(own, message)) return true;
      if (this.#mode === 'done') return true;
    }
    return false;
  }

  /** Takes a JSON body; false if it is not the response. */
  #takeJson(content: string | LargeMessage, value: JsonObject): boolean {
    if (!this.#isResponse(value, !this.#isSuccess)) return false;
    this.#respond(content, value, this.#isAscii);
    return true;
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
    const { id, sessionId } = this.#request;
    const isFailure = 'error' in value || !this.#isSuccess;
    if (isFailure && sessionId !== undefined) {
      const isOwn = id !== undefined && isSameId(id, value.id);
      this.#evaluateSession(rejectionText(value, ''), isOwn, sessionId);
    }
    this.#finish();
    if (this.#isStream) this.#linger();
    if (this.session !== 'unknown') return this.#handler.onResponse(content, value, isAscii);
    const body = Buffer.from(typeof content === 'string' ? content : '');
    this.#handler.onEnd({ kind: 'session-unknown', ...this.reject(body, value) });
  }

  /** A request that the upstream may have processed is not repeated. */
  #evaluateSession(text: string, isOwn: boolean, sessionId: string): void {
    const verdict = sessionVerdict({ status: this.status, text, isOwn, sessionId });
    this.session = verdict === 'unknown' && this.#mayBeProcessed ? 'lost' : verdict;
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
    const isMessage = isJsonObject(value);
    const isResponse = isMessage && value.method === undefined;
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
    if (isJsonObject(known) ? this.#takeJson(parsed?.text ?? large, known) : false) return;
    if (parsed && this.#takeBatch(parsed.text, known)) return;
    this.#rejectBody(large.start(MAX_OTHER_BYTES), known);
  }

  #completeScan(): void {
    const { scan, start = Buffer.alloc(0) } = this.#scanned ?? {};
    if (this.#isStream && !scan?.isFound) return this.#onStreamEnd();
    this.#finish();
    if (scan?.isFound) this.#handler.onEnd({ kind: 'done' });
    else this.#handler.onEnd({ kind: 'rejected', ...this.reject(start, scan?.isJson ? {} : undefined) });
  }

  /** The event stream has ended before the response. */
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
    this.#writeLarge(bytes);
    if (this.#large) this.#handler.onLargePart?.(this.#large, false);
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
    if (this.#rejectLargeBatch(value)) return;
    let index = 0;
    for (const { start, end } of elements(data)) {
      if (this.#mode === 'stream') this.#takeMessage(detach(data.slice(start, end)), value[index++]);
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
    const { sessionId } = this.#request;
    const text = rejectionText(value, body.toString('utf8', 0, MAX_OTHER_BYTES));
    const isOwn = isJsonObject(value) && this.#request.id !== undefined && isSameId(this.#request.id, value.id);
    if (sessionId !== undefined && !this.#isSuccess) this.#evaluateSession(text, isOwn, sessionId);
    const rejection = this.reject(body, value);
    // The rest of the body is of no use.
    const call = this.#call;
    const { session } = this;
    this.#finish();
    call?.abort();
    this.#handler.onEnd({ kind: session === 'unknown' ? 'session-unknown' : 'rejected', ...rejection });
  }

  /** Describes the response as one that cannot be used; `parsed` is its body, undefined if that is not JSON. */
  reject(body: Buffer, parsed: unknown): Rejection {
    const { status, headers } = this;
    const content = body.subarray(0, MAX_OTHER_BYTES);
    const path = URL.parse(this.#address)?.pathname ?? '/';
    const response = { request: this.#request.name, path, status, headers, body: content, value: parsed };
    const error = new UpstreamError(status < 300 ? 'invalid' : 'http', this.#address, describeUnusable(response), {
      status,
      remedy: remedyOf(response),
    });
    return { error, status, value: isJsonObject(parsed) ? parsed : undefined };
  }

  #rejectLargeBatch({ length }: readonly unknown[]): boolean {
    if (length <= MAX_BATCH_MESSAGES) return false;
    this.#rejectTooLarge(`an array of ${length} messages: the limit is ${MAX_BATCH_MESSAGES}`);
    return true;
  }

  #rejectTooLarge(what: string): void {
    const { status } = this;
    const error = new UpstreamError('too-large', this.#address, `answered ${this.#request.name} with ${what}`, {
      status,
    });
    this.abort();
    this.#handler.onEnd({ kind: 'rejected', error, status });
  }

  /** Reading or the handler failed. */
  #onError(error: unknown): void {
    if (error instanceof UpstreamError && this.#mode !== 'done') {
      this.abort();
      return this.#handler.onEnd({ kind: 'rejected', error, status: this.status });
    }
    this.#handler.onInternalError(error);
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

/** Whether the label of a response is that of an event stream. */
function isEventStream(headers: ResponseHeaders): boolean {
  const { 'content-type': type } = headers;
  return (
    mediaType(headers) === 'text/event-stream' ||
    (Array.isArray(type) && type.every((line) => /^text\/event-stream\b/i.test(line)))
  );
}
