import type { Socket } from 'node:net';
import { detach } from '@sluice/protocol/text';
import { comparableName, HeaderLines, HOP_BY_HOP, TOKEN } from '../header-lines.ts';
import type { ServerRequest } from '../server/request.ts';
import type { RequestBody } from '../server/request-body.ts';
import type { BodySink, StreamedBody, TransportOptions, UpstreamRequest } from './client.ts';

const NO_TARGET = /[^\x21-\x7e]/;
/** Methods that send `Content-Length: 0` without a body (RFC 9110 8.6). */
const WITH_BODY: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH']);
/** Headers that frame the message or control the connection; callers cannot set them. */
const RESERVED: ReadonlySet<string> = new Set([...HOP_BY_HOP, 'host', 'content-length', 'expect']);
/** Meaning of a line that is not sent. */
const DROPPED = Symbol('dropped');
/** Heads up to this length are compared with the next ones. */
const MAX_CACHED_LENGTH = 2 * 1024;

/** A request as it is sent. */
export type EncodedRequest = string | Buffer | readonly Buffer[];

/** Returns whether a body is in parts. */
export function isInParts(body: UpstreamRequest['body']): body is readonly Buffer[] {
  return Array.isArray(body);
}

/** Encodes requests to one address. */
export class RequestEncoder {
  /** Target of requests without a path. */
  readonly path: string;
  /** Before the path: the origin for a proxy that gets whole URLs (RFC 9112 3.2.2), else empty. */
  readonly #origin: string;
  readonly #fixed: string;
  /** Lines of default headers by lower-case name, and all of them. */
  readonly #defaults = new Map<string, string>();
  readonly #allDefaults: string;
  readonly #options: Pick<TransportOptions, 'droppedHeaders'>;
  #dropped: ReadonlySet<string> | undefined = undefined;
  #lines: HeaderLines<string | typeof DROPPED | undefined>;
  /** The last head up to its length: requests in one session often have the same one. */
  #lastMethod = '';
  #lastPath = '';
  #lastHeaders: readonly string[] | undefined = undefined;
  #lastText = '';

  constructor(url: URL, options: Pick<TransportOptions, 'defaultHeaders' | 'droppedHeaders' | 'proxy'> = {}) {
    const { defaultHeaders = [], proxy } = options;
    this.#options = options;
    this.#lines = this.#createLines();
    for (let index = 0; index < defaultHeaders.length; index += 2) {
      const name = defaultHeaders[index] ?? '';
      this.#defaults.set(name, `${name}: ${defaultHeaders[index + 1]}\r\n`);
    }
    this.#allDefaults = [...this.#defaults.values()].join('');
    this.path = url.pathname + url.search;
    // A tunnel is not visible to the requests in it.
    const usesProxy = proxy !== undefined && url.protocol === 'http:';
    this.#origin = usesProxy ? url.origin : '';
    const { authorization } = (usesProxy && proxy) || {};
    const credentials = authorization === undefined ? '' : `proxy-authorization: ${authorization}\r\n`;
    this.#fixed = ` HTTP/1.1\r\nhost: ${url.host}\r\nconnection: keep-alive\r\n${credentials}`;
  }

  /**
   * Returns the whole request: a string if all characters are latin1, which is the fastest to write, else a buffer, or for a
   * body in parts its head and these. For a streamed body, returns only the head. Throws TypeError, without the value, for an
   * invalid method, path or header.
   */
  encode({ method, path: own, headers, body, isAscii }: UpstreamRequest, path = own ?? this.path): EncodedRequest {
    let head = this.#start(method, path, headers);
    if (body === undefined) return WITH_BODY.has(method) ? `${head}content-length: 0\r\n\r\n` : `${head}\r\n`;
    if (isInParts(body)) {
      const size = body.reduce((sum, part) => sum + part.length, 0);
      return [Buffer.from(`${head}content-length: ${size}\r\n\r\n`, 'latin1'), ...body];
    }
    if (typeof body !== 'string' && !Buffer.isBuffer(body)) return head + streamedFraming(body.length);
    const length = isAscii ? body.length : Buffer.byteLength(body);
    head += `content-length: ${length}\r\n\r\n`;
    if (typeof body !== 'string') return Buffer.concat([Buffer.from(head, 'latin1'), body]);
    if (length === body.length) return head + body;
    const bytes = Buffer.allocUnsafe(head.length + length);
    bytes.write(body, bytes.write(head, 'latin1'), 'utf8');
    return bytes;
  }

  /** Returns the head without the lines about the body. */
  #start(method: string, path: string, headers: readonly string[]): string {
    if (this.#dropped !== this.#options.droppedHeaders) this.#forgetLines();
    const last = this.#lastHeaders;
    if (method === this.#lastMethod && path === this.#lastPath && headers.length === last?.length) {
      if (headers.every((text, at) => text === last[at])) return this.#lastText;
    }
    if (method !== 'POST') checkMethod(method);
    const isAsterisk = method === 'OPTIONS' && path === '*';
    if (path !== this.path && !isAsterisk && (!path.startsWith('/') || NO_TARGET.test(path)))
      throw new TypeError('invalid path');
    const { misses } = this.#lines;
    const copied: string[] = [];
    let replaced: string[] | undefined;
    // To a proxy, `OPTIONS *` is a URL without a path (RFC 9112 3.2.4).
    let text = `${method} ${this.#origin}${isAsterisk && this.#origin !== '' ? '' : path}${this.#fixed}`;
    for (let index = 0; index < headers.length; index += 2) {
      const line = this.#lines.line(headers[index] ?? '', headers[index + 1]);
      copied.push(line.name, line.value);
      if (line.meaning === DROPPED) continue;
      text += line.text;
      if (line.meaning !== undefined) replaced = [...(replaced ?? []), line.meaning];
    }
    text += replaced === undefined ? this.#allDefaults : this.#defaultsWithout(replaced);
    // A head with a new line hardly occurs again. Cached lines do not retain the heads that they are from.
    if (text.length <= MAX_CACHED_LENGTH && this.#lines.misses === misses) {
      this.#lastMethod = method === 'POST' ? method : detach(method);
      this.#lastPath = path === this.path ? path : detach(path);
      this.#lastHeaders = copied;
      this.#lastText = detach(text);
    }
    return text;
  }

  /** The meaning of a line is the name of the default header that it replaces, unless it is dropped. */
  #createLines(): HeaderLines<string | typeof DROPPED | undefined> {
    return new HeaderLines((name) => {
      if (RESERVED.has(name)) throw new TypeError(`header ${name} is set by the client`);
      if (this.#dropped?.has(comparableName(name))) return DROPPED;
      return this.#defaults.has(name) ? name : undefined;
    });
  }

  /** Other headers are dropped from now on. */
  #forgetLines(): void {
    this.#dropped = this.#options.droppedHeaders;
    this.#lines = this.#createLines();
    this.#lastHeaders = undefined;
  }

  #defaultsWithout(replaced: readonly string[]): string {
    return [...this.#defaults].map(([name, line]) => (replaced.includes(name) ? '' : line)).join('');
  }
}

function checkMethod(method: string): void {
  if (!TOKEN.test(method)) throw new TypeError('invalid method');
  // The response would be a tunnel.
  if (method === 'CONNECT') throw new TypeError('method CONNECT is not supported');
}

/** Returns the end of the head before a streamed body. */
function streamedFraming(length: number | undefined): string {
  if (length === undefined) return 'transfer-encoding: chunked\r\n\r\n';
  if (!Number.isSafeInteger(length) || length < 0) throw new TypeError('invalid length of the body');
  return `content-length: ${length}\r\n\r\n`;
}

/** Timeout for the first byte of a response. */
export class ResponseDeadline {
  readonly #afterMs: number;
  readonly #onTimeout: () => void;
  #timer: NodeJS.Timeout | undefined = undefined;
  #hasEnded = false;

  constructor(afterMs: number, onTimeout: () => void) {
    this.#afterMs = afterMs;
    this.#onTimeout = onTimeout;
  }

  /** Starts or continues: the request was sent, or the upstream is not reading it. */
  start(): void {
    if (!this.#hasEnded) this.#timer ??= setTimeout(this.#onTimeout, this.#afterMs);
  }

  /** Pauses while the request is being sent. */
  pause(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** Ends: the response has begun, or the call has ended. */
  end(): void {
    this.#hasEnded = true;
    this.pause();
  }
}

/**
 * Writes a streamed request body, with chunked encoding if its length is unknown (RFC 9112 7.1). Backpressure is that of the
 * socket: `write` returns false when its buffer is full.
 */
export class BodyWriter implements BodySink {
  /** The body is completely written, including its last chunk. */
  complete = false;
  readonly #socket: Socket;
  readonly #body: StreamedBody;
  readonly #deadline: ResponseDeadline | undefined;
  readonly #onFailure: (problem: string) => void;
  /** Remaining bytes of a known length. */
  #remaining: number | undefined;
  /** Calls are ignored. */
  #hasEnded = false;
  readonly #onDrain = () => {
    if (this.complete) return;
    this.#deadline?.pause();
    this.#body.resume();
  };

  /** `onFailure` handles an invalid body; `problem` completes "its body …". */
  constructor(
    socket: Socket,
    body: StreamedBody,
    deadline: ResponseDeadline | undefined,
    onFailure: (problem: string) => void,
  ) {
    this.#socket = socket;
    this.#body = body;
    this.#deadline = deadline;
    this.#onFailure = onFailure;
    this.#remaining = body.length;
  }

  /** Starts the body after the head was written. */
  start(): void {
    this.#socket.on('drain', this.#onDrain);
    if (this.#remaining === 0) this.#completed();
    this.#body.start(this);
  }

  /** Ends the writer with the request; stops an incomplete body. */
  stop(): void {
    if (this.#hasEnded) return;
    this.#close();
    if (!this.complete) this.#body.stop();
  }

  write(chunk: Buffer): boolean {
    if (this.#hasEnded) return false;
    // An empty chunk would end the body.
    if (chunk.length === 0) return !this.#socket.writableNeedDrain;
    const more = this.#remaining === undefined ? this.#writeChunk(chunk) : this.#writePart(chunk, this.#remaining);
    if (!more && !this.#hasEnded) this.#deadline?.start();
    return more;
  }

  end(): void {
    if (this.#hasEnded || this.complete) return;
    if (this.#remaining !== undefined) {
      const { length } = this.#body;
      return this.#fail(`ended ${this.#remaining} bytes before its length of ${length} bytes`);
    }
    this.#socket.write('0\r\n\r\n', 'latin1');
    this.#completed();
  }

  fail(): void {
    if (!this.#hasEnded && !this.complete) this.#fail('was aborted');
  }

  #writeChunk(chunk: Buffer): boolean {
    if (this.complete) return false;
    this.#socket.cork();
    this.#socket.write(`${chunk.length.toString(16)}\r\n`, 'latin1');
    this.#socket.write(chunk);
    const more = this.#socket.write('\r\n', 'latin1');
    this.#socket.uncork();
    return more;
  }

  #writePart(chunk: Buffer, remaining: number): boolean {
    if (chunk.length > remaining) {
      this.#fail(`exceeds its length of ${this.#body.length} bytes`);
      this.#body.stop();
      return false;
    }
    this.#remaining = remaining - chunk.length;
    const more = this.#socket.write(chunk);
    if (this.#remaining > 0) return more;
    this.#completed();
    // The body is complete: a source that paused now would never be resumed.
    return true;
  }

  #completed(): void {
    this.complete = true;
    this.#deadline?.start();
  }

  #fail(problem: string): void {
    this.#close();
    this.#onFailure(problem);
  }

  #close(): void {
    this.#hasEnded = true;
    this.#socket.off('drain', this.#onDrain);
  }
}

/** Receives every chunk of a body after it was forwarded or discarded. Must not modify it or throw. */
export type BodyObserver = (chunk: Buffer) => void;

/**
 * Returns the body of a client's request for forwarding, with its length or chunked; undefined if the request has none
 * (RFC 9112 6.3). A client that disconnects before the end aborts the upstream request. After `stop`, the rest is discarded,
 * so that the client can read its response.
 *
 * While the upstream reads nothing, the client's socket is not read either, and a client that disconnects then with unread
 * data in flight is noticed only when the upstream continues to read, closes the connection or times out.
 */
export function incomingBody(request: ServerRequest, observe?: BodyObserver): StreamedBody | undefined {
  const { 'content-length': length, 'transfer-encoding': encoding } = request.headers;
  if (length === undefined && encoding === undefined) return undefined;
  return new ForwardedBody(request.body, length === undefined ? undefined : Number(length), observe);
}

class ForwardedBody implements StreamedBody {
  readonly length: number | undefined;
  readonly #body: RequestBody;
  readonly #observe: BodyObserver | undefined;
  #sink: BodySink | undefined = undefined;
  #stopped = false;
  readonly #onData = (chunk: Buffer) => {
    // The write itself may have stopped the body.
    if (this.#sink?.write(chunk) === false && this.#sink !== undefined) this.#body.pause();
    this.#observe?.(chunk);
  };
  readonly #onEnd = () => {
    this.#detach();
    this.#sink?.end();
  };
  readonly #onClose = () => {
    this.#detach();
    this.#sink?.fail();
  };

  constructor(body: RequestBody, length: number | undefined, observe: BodyObserver | undefined) {
    this.#body = body;
    this.length = length;
    this.#observe = observe;
  }

  start(sink: BodySink): void {
    this.#sink = sink;
    // `close` is not emitted again for a client that has disconnected.
    if (this.#body.destroyed) return sink.fail();
    this.#body.on('data', this.#onData).on('end', this.#onEnd).on('close', this.#onClose).resume();
  }

  resume(): void {
    this.#body.resume();
  }

  stop(): void {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#detach();
    this.#sink = undefined;
    if (this.#observe) this.#body.on('data', this.#observe);
    this.#body.resume();
  }

  #detach(): void {
    this.#body.off('data', this.#onData).off('end', this.#onEnd).off('close', this.#onClose);
  }
}
