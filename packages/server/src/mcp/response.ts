import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { acceptsEventStream, acceptsJson } from '@sluice/protocol/mcp/accept';
import { INTERNAL_ERROR } from '@sluice/protocol/mcp/constants';
import { encodeMessage } from '@sluice/protocol/mcp/event-stream';
import type { ExchangeFacts } from '../exchange/facts.ts';
import type { ResponseLike } from '../http/exchange.ts';
import { errorJson, type RpcError } from '../http/outcome.ts';
import { type ClientFacts, NO_CLIENT } from '../upstreams/client-facts.ts';
import type { CallOutcome, ResponseBody, ResponseSink } from '../upstreams/response-sink.ts';
import type { OpenResponse, OpenResponses } from './open-responses.ts';
import type { ClientStream, OpenBody } from './sessions/resumable-streams.ts';

const LF = 10;
const CR = 13;
const SPACE = 32;

/** Opens the stream of the response to a request; undefined if it cannot be resumed. */
export type OpenStream = (idText: string) => ClientStream | undefined;

/**
 * Writes the response to one request: HTTP, JSON or an event stream. All responses to JSON-RPC requests are written here,
 * so that the envelope is created in one place.
 */
export class ResponseWriter implements ResponseSink, OpenResponse {
  readonly idText: string;
  /** Set by the listener for outcomes that are executed upstream. */
  client: ClientFacts = NO_CLIENT;
  slot = -1;
  dueAt = 0;
  isResumable = false;
  /** Whether the event stream has begun. */
  isStreaming = false;
  readonly isAwaited = true;
  readonly observer = undefined;
  readonly clientRequests = undefined;
  readonly #response: ResponseLike;
  readonly #headers: readonly string[];
  readonly #openStream: OpenStream | undefined;
  readonly #facts: Pick<ExchangeFacts, 'error'> | undefined;
  /** Set once a result was begun that is sent while it arrives. */
  #body: OpenBody | undefined = undefined;
  /** Set if the event stream can be resumed. */
  #stream: ClientStream | undefined = undefined;
  #disconnectListener: (() => void) | undefined = undefined;
  /** Set while the client waits for an upstream. */
  #openResponses: OpenResponses | undefined = undefined;
  #accept: string | undefined = undefined;
  /** A comment could not be sent: the client reads too slowly. */
  #isBlocked = false;

  /** `openStream` for clients that can resume streams: those with a session. An error is written to `facts`. */
  constructor(
    response: ResponseLike,
    headers: readonly string[],
    idText: string,
    openStream?: OpenStream,
    facts?: Pick<ExchangeFacts, 'error'>,
  ) {
    this.#facts = facts;
    this.#response = response;
    this.#headers = headers;
    this.#openStream = openStream;
    this.idText = idText;
  }

  get hasEnded(): boolean {
    return this.#response.writableEnded || this.#response.destroyed;
  }

  /**
   * Sends something from time to time until the response has ended, for a client that accepts event streams: by its header
   * `Accept`. Its request arrived at `startedAt`; `isResumable`: it knows event ids without a message.
   */
  keepOpen(responses: OpenResponses, accept: string | undefined, startedAt: number, isResumable: boolean): void {
    this.#openResponses = responses;
    this.#accept = accept;
    this.isResumable = isResumable;
    responses.add(this, startedAt);
  }

  onDisconnect(listener: () => void): void {
    this.#disconnectListener = listener;
    const onClose = () => {
      this.#openResponses?.remove(this);
      if (!this.#response.writableEnded && !this.#stream) listener();
    };
    // The client may have disconnected before its outcome was known. Later, once the caller is ready.
    if (this.#response.destroyed) process.nextTick(onClose);
    // Not `once`, which would wrap the listener: a response closes only once.
    else this.#response.on('close', onClose);
  }

  /** Only messages are collected: a response without a stream is one write anyway. */
  cork(isCorked: boolean): void {
    if (!this.isStreaming) return;
    const target = this.#stream ?? this.#response;
    if (isCorked) target.cork();
    else target.uncork();
  }

  onDrain(listener: () => void): void {
    if (this.#stream) this.#stream.onDrain(listener);
    else this.#response.once('drain', listener);
  }

  /** Sends an HTTP response that is not a JSON-RPC message. */
  sendPlain(status: number, headers: readonly string[] = [], body = ''): void {
    const length = status === 204 || status === 304 ? [] : ['Content-Length', String(Buffer.byteLength(body))];
    this.#response.writeHead(status, [...headers, ...length, ...this.#headers]);
    this.#response.end(body);
  }

  /**
   * Sends a JSON-RPC result: as the last event of a stream that has begun, or if this header `Accept` excludes JSON. `bytes`:
   * UTF-8 length of `json`, if known.
   */
  sendResult(
    json: string | Buffer,
    bytes: number = Buffer.byteLength(json),
    headers?: readonly string[],
    accept?: string,
  ): void {
    if (!this.isStreaming && !acceptsJson(accept)) this.beginStream(false, headers);
    if (this.isStreaming) return this.sendLastEvent(`{"jsonrpc":"2.0","id":${this.idText},"result":${json}}`);
    const idBytes = Buffer.byteLength(this.idText);
    // 33 bytes are the envelope's own: {"jsonrpc":"2.0","id":,"result":}
    this.#writeHead(200, 33 + idBytes + bytes, headers);
    const start = `{"jsonrpc":"2.0","id":${this.idText},"result":`;
    if (typeof json === 'string') return this.#endText(`${start}${json}}`, 33 + idBytes + bytes);
    this.#response.write(start);
    this.#response.write(json);
    this.#response.end('}');
  }

  /** Sends a JSON-RPC error, as the last event of a stream that has begun; the status is then ignored. */
  sendError(error: RpcError, status = 200): void {
    if (this.#facts) this.#facts.error = error;
    if (this.#body && !this.#stream) return this.destroy();
    const text = `{"jsonrpc":"2.0","id":${this.idText},"error":${errorJson(error)}}`;
    if (this.isStreaming) return this.sendLastEvent(text);
    const bytes = Buffer.byteLength(text);
    this.#writeHead(status, bytes);
    this.#endText(text, bytes);
  }

  /** Nothing is sent to a client that has disconnected and cannot resume its stream. */
  complete(outcome: CallOutcome): void {
    if (this.#response.destroyed && !this.#stream) return;
    switch (outcome.kind) {
      case 'response':
        return this.#sendResponse(outcome);
      case 'large':
        return this.#sendLarge(outcome);
      case 'sent':
        return this.#body?.end();
      case 'result':
        if (!this.client.accepts.json) this.beginStream();
        return this.sendResult(outcome.json);
      case 'failed':
        return this.sendError(outcome.error, outcome.status);
      case 'canceled':
        return this.#endWithoutResponse();
    }
  }

  /** A complete response is sent as JSON even if the upstream sent a stream: that costs least. */
  #sendResponse({ text, value, status, isAscii }: OutcomeOf<'response'>): void {
    if (!this.#sendsJson(value)) {
      this.beginStream();
      return this.sendLastEvent(text);
    }
    const bytes = isAscii ? text.length : Buffer.byteLength(text);
    this.#writeHead(status, bytes);
    this.#endText(text, bytes);
  }

  #sendLarge({ bytes: { before, after, free }, value, status }: OutcomeOf<'large'>): void {
    const parts = [...before, Buffer.from(this.idText), ...after];
    if (this.#sendsJson(value)) {
      this.#writeHead(status, lengthOf(parts));
      writeParts(this.#response, parts, free);
      this.#response.end();
      return;
    }
    this.beginStream();
    const lines = parts.map(toSingleLine);
    if (this.#stream) return this.#endStream(this.#stream, Buffer.concat(lines));
    writeParts(this.#response, [Buffer.from('event: message\ndata: '), ...lines, Buffer.from('\n\n')]);
    this.#response.end();
  }

  /** Whether a response is sent as JSON, as errors are even if the client does not accept it. Records the code of an error. */
  #sendsJson(value: JsonObject): boolean {
    if ('result' in value) return !this.isStreaming && this.client.accepts.json;
    const code = isJsonObject(value.error) ? value.error.code : undefined;
    // Upstreams may send codes of any type.
    if (this.#facts && Number.isInteger(code)) this.#facts.error = { code: Number(code), message: undefined };
    return !this.isStreaming;
  }

  /** A JSON response that arrives at once is sent at once. */
  startBody(length: number | undefined, isFirst: boolean): ResponseBody | undefined {
    const response = this.#response;
    if (this.isStreaming) this.#body = inOneLine(this.#stream?.beginLast() ?? beginEvent(response));
    else if (this.client.accepts.json && !isFirst) {
      this.#writeHead(200, length);
      this.#body = { write: (parts, onWritten) => writeParts(response, parts, onWritten), end: () => response.end() };
    }
    return this.#body;
  }

  needsText(): boolean {
    return false;
  }

  /** Begins a JSON response whose body follows in chunks; `bytes` is its length, if known. */
  beginJson(status: number, bytes: number | undefined): void {
    this.#writeHead(status, bytes);
  }

  /** Writes a chunk of a body. False if the client reads too slowly: wait for `onDrain`. */
  write(chunk: Buffer | string): boolean {
    return this.#response.write(chunk);
  }

  /** Ends a body, with its last chunk. */
  end(chunk?: Buffer | string): void {
    this.#response.end(chunk);
  }

  /** Begins the event stream unless it was begun. `prime`: sends an event id to resume from before the first message. */
  beginStream(prime = false, headers?: readonly string[]): void {
    if (this.isStreaming) return;
    this.isStreaming = true;
    this.#writeStreamHead(headers);
    const stream = this.#openStream?.(this.idText);
    if (!stream) return;
    this.#stream = stream;
    stream.onDropped = () => this.#disconnectListener?.();
    stream.attach(this.#response);
    if (prime) stream.prime();
  }

  /** Sends a stream that exists already: the events after number `after`, or all of a new one. */
  attachStream(stream: ClientStream, after?: number): void {
    this.isStreaming = true;
    this.#stream = stream;
    this.#writeStreamHead();
    stream.attach(this.#response, after);
  }

  sendMessage(data: string): boolean {
    this.beginStream();
    if (this.#stream) return this.#stream.send(data);
    return this.#response.write(encodeMessage(data));
  }

  sendLastEvent(data: string): void {
    if (this.#stream) return this.#endStream(this.#stream, data);
    this.sendMessage(data);
    this.#response.end();
  }

  /** A stream that cannot be resumed stays connected. */
  disconnect(retryMs: number): void {
    this.beginStream();
    this.#stream?.disconnect(retryMs);
  }

  #endWithoutResponse(): void {
    if (this.#stream) return this.#endStream(this.#stream);
    if (this.#body) return this.destroy();
    if (!this.isStreaming && !this.client.accepts.sse) return this.sendPlain(202);
    if (!this.isStreaming) this.#writeStreamHead();
    this.#response.end();
  }

  keepAlive(): boolean {
    if (this.#body && !this.#stream) return false;
    if (!this.isStreaming) {
      if (!acceptsEventStream(this.#accept)) return false;
      this.beginStream(this.isResumable);
      if (this.isResumable && this.#stream) return true;
    }
    if (this.#stream) this.#stream.keepAlive();
    else if (!this.#isBlocked) this.#sendComment();
    return true;
  }

  #sendComment(): void {
    if (this.#response.write(':\n\n')) return;
    this.#isBlocked = true;
    this.#response.once('drain', () => {
      this.#isBlocked = false;
    });
  }

  /** Closes the connection without a response. */
  destroy(): void {
    this.#response.destroy();
  }

  /** The stream may be stored for a while after this; it must not retain the call and its connections. */
  #endStream(stream: ClientStream, data?: string | Buffer): void {
    stream.onDropped = undefined;
    stream.end(data);
  }

  #writeStreamHead(headers: readonly string[] = []): void {
    this.#response.writeHead(200, [
      'Content-Type',
      'text/event-stream',
      'Cache-Control',
      'no-cache, no-transform',
      'X-Accel-Buffering',
      'no',
      ...headers,
      ...this.#headers,
    ]);
  }

  /** Ends a response with a text of so many bytes. ASCII is written as Latin-1, which costs less than half. */
  #endText(text: string, bytes: number): void {
    this.#response.end(text, bytes === text.length ? 'latin1' : 'utf8');
  }

  #writeHead(status: number, bytes: number | undefined, headers: readonly string[] = []): void {
    const type = 'application/json';
    const own = bytes === undefined ? ['Content-Type', type] : ['Content-Type', type, 'Content-Length', String(bytes)];
    const isWhole = headers.length === 0 && this.#headers.length === 0;
    this.#response.writeHead(status, isWhole ? own : [...own, ...headers, ...this.#headers]);
  }
}

type OutcomeOf<Kind extends CallOutcome['kind']> = Extract<CallOutcome, { kind: Kind }>;

function lengthOf(parts: readonly Buffer[]): number {
  return parts.reduce((bytes, part) => bytes + part.length, 0);
}

/** Writes parts. `onWritten` is not called if the client disconnects before that. False if it reads too slowly. */
function writeParts(response: ResponseLike, parts: readonly Buffer[], onWritten?: () => void): boolean {
  const last = parts.length - 1;
  for (const part of parts.slice(0, last)) response.write(part);
  return response.write(parts[last] ?? '', (error) => error || onWritten?.());
}

function beginEvent(response: ResponseLike): OpenBody {
  response.write('event: message\ndata: ');
  return { write: (parts, onWritten) => writeParts(response, parts, onWritten), end: () => response.end('\n\n') };
}

/** Returns a body whose parts have no line breaks. */
function inOneLine(body: OpenBody): OpenBody {
  return { write: (parts, onWritten) => body.write(parts.map(toSingleLine), onWritten), end: () => body.end() };
}

/** Returns JSON without line breaks, which would end a line of an event: they can only be white space between values. */
function toSingleLine(json: Buffer): Buffer {
  if (!json.includes(LF) && !json.includes(CR)) return json;
  const line = Buffer.from(json);
  // A search for each line break would take seconds if there is nothing else.
  for (let at = 0; at < line.length; at++) if (line[at] === LF || line[at] === CR) line[at] = SPACE;
  return line;
}

/** Error for internal failures, without details. */
export const INTERNAL: RpcError = { code: INTERNAL_ERROR, message: 'internal error' };
