import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { BodySink, StreamedBody, UpstreamRequest } from './client.ts';

/** A method or field name: a token (RFC 9110 5.6.2). */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const NO_VALUE = /[^\t\x20-\x7e\x80-\xff]/;
const NO_TARGET = /[^\x21-\x7e]/;
/** Methods of which a body is expected: without one they say that it is empty (RFC 9110 8.6). */
const WITH_BODY: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH']);
/** Fields that decide where a message ends and what becomes of its connection: they are made here or not at all. */
const RESERVED: ReadonlySet<string> = new Set([
  'host',
  'content-length',
  'transfer-encoding',
  'connection',
  'keep-alive',
  'upgrade',
  'expect',
  'te',
  'trailer',
]);
/** Names that were found good are remembered; the bound is for callers that make up new ones. */
const MAX_KNOWN_NAMES = 256;

/** Turns requests to one address into the bytes that go on the wire. */
export class RequestEncoder {
  readonly #path: string;
  readonly #fixed: string;
  readonly #knownNames = new Set<string>();

  constructor(url: URL) {
    this.#path = url.pathname + url.search;
    this.#fixed = ` HTTP/1.1\r\nhost: ${url.host}\r\nconnection: keep-alive\r\n`;
  }

  /**
   * The whole request, to be written at once: a string when each of its characters is one byte (latin1), which is the
   * cheapest to write, else a buffer. Of a body that is streamed, only the head before it. TypeError, without the
   * value, when the method, a header or the path cannot be sent.
   */
  encode({ method, path = this.#path, headers, body }: UpstreamRequest): string | Buffer {
    if (method !== 'POST') checkMethod(method);
    if (!path.startsWith('/') || NO_TARGET.test(path)) throw new TypeError('its path is none');
    let head = `${method} ${path}${this.#fixed}`;
    for (let index = 0; index < headers.length; index += 2) {
      const name = headers[index] ?? '';
      const value = headers[index + 1];
      if (!this.#knownNames.has(name)) this.#checkName(name);
      if (value === undefined || NO_VALUE.test(value)) throw new TypeError(`header ${name} has no valid value`);
      head += `${name}: ${value}\r\n`;
    }
    if (body === undefined) return WITH_BODY.has(method) ? `${head}content-length: 0\r\n\r\n` : `${head}\r\n`;
    if (typeof body !== 'string' && !Buffer.isBuffer(body)) return head + streamedFraming(body.length);
    const length = Buffer.byteLength(body);
    head += `content-length: ${length}\r\n\r\n`;
    if (typeof body !== 'string') return Buffer.concat([Buffer.from(head, 'latin1'), body]);
    if (length === body.length) return head + body;
    const bytes = Buffer.allocUnsafe(head.length + length);
    bytes.write(body, bytes.write(head, 'latin1'), 'utf8');
    return bytes;
  }

  #checkName(name: string): void {
    if (!TOKEN.test(name)) throw new TypeError('a header name is none');
    if (RESERVED.has(name.toLowerCase())) throw new TypeError(`header ${name} is made by the client itself`);
    if (this.#knownNames.size < MAX_KNOWN_NAMES) this.#knownNames.add(name);
  }
}

function checkMethod(method: string): void {
  if (!TOKEN.test(method)) throw new TypeError('its method is none');
  // Its answer would be a tunnel.
  if (method === 'CONNECT') throw new TypeError('the method CONNECT is not for it');
}

/** The last lines of a head before a body that is sent while it comes in. */
function streamedFraming(length: number | undefined): string {
  if (length === undefined) return 'transfer-encoding: chunked\r\n\r\n';
  if (!Number.isSafeInteger(length) || length < 0) throw new TypeError('the length of its body is none');
  return `content-length: ${length}\r\n\r\n`;
}

/** Limits how long an upstream may leave one call waiting for the first byte of its answer (decisions 4.6). */
export class AnswerDeadline {
  readonly #afterMs: number;
  readonly #onPassed: () => void;
  #timer: NodeJS.Timeout | undefined = undefined;
  #over = false;

  constructor(afterMs: number, onPassed: () => void) {
    this.#afterMs = afterMs;
    this.#onPassed = onPassed;
  }

  /** It is the upstream's turn from now on; nothing changes when it was before. */
  start(): void {
    if (!this.#over) this.#timer ??= setTimeout(this.#onPassed, this.#afterMs);
  }

  /** It is our turn. */
  pause(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** The answer has begun, or the call is over. */
  end(): void {
    this.#over = true;
    this.pause();
  }
}

/** What is done when a body turns out not to be what it said: `how` completes "its body …". */
type OnFailure = (how: string) => void;

/**
 * Writes the body of one request on its connection, behind the head: as it is when its length is known, else in chunks
 * (RFC 9112 7.1). What is written is bounded by the socket: `write` says false when that has taken enough.
 */
export class BodyWriter implements BodySink {
  /** All of it is written, its last chunk included. */
  complete = false;
  readonly #socket: Socket;
  readonly #body: StreamedBody;
  readonly #deadline: AnswerDeadline | undefined;
  readonly #onFailure: OnFailure;
  /** Bytes of a known length that are still to come. */
  #remaining: number | undefined;
  /** Nothing has an effect any more. */
  #over = false;
  readonly #onDrain = () => {
    if (this.complete) return;
    this.#deadline?.pause();
    this.#body.resume();
  };

  constructor(socket: Socket, body: StreamedBody, deadline: AnswerDeadline | undefined, onFailure: OnFailure) {
    this.#socket = socket;
    this.#body = body;
    this.#deadline = deadline;
    this.#onFailure = onFailure;
    this.#remaining = body.length;
  }

  /** To be called when the head is written. */
  start(): void {
    this.#socket.on('drain', this.#onDrain);
    if (this.#remaining === 0) this.#completed();
    this.#body.start(this);
  }

  /** The request is over. Stops the body when it is not complete. */
  stop(): void {
    if (this.#over) return;
    this.#close();
    if (!this.complete) this.#body.stop();
  }

  write(piece: Buffer): boolean {
    if (this.#over) return false;
    // A chunk without bytes would be the last one.
    if (piece.length === 0) return !this.#socket.writableNeedDrain;
    const more = this.#remaining === undefined ? this.#writeChunk(piece) : this.#writePart(piece, this.#remaining);
    if (!more && !this.#over) this.#deadline?.start();
    return more;
  }

  end(): void {
    if (this.#over || this.complete) return;
    if (this.#remaining !== undefined) {
      const { length } = this.#body;
      return this.#fail(`ended ${this.#remaining} bytes before the ${length} that it was to have`);
    }
    this.#socket.write('0\r\n\r\n', 'latin1');
    this.#completed();
  }

  fail(): void {
    if (!this.#over && !this.complete) this.#fail('broke off');
  }

  #writeChunk(piece: Buffer): boolean {
    if (this.complete) return false;
    this.#socket.cork();
    this.#socket.write(`${piece.length.toString(16)}\r\n`, 'latin1');
    this.#socket.write(piece);
    const more = this.#socket.write('\r\n', 'latin1');
    this.#socket.uncork();
    return more;
  }

  #writePart(piece: Buffer, remaining: number): boolean {
    if (piece.length > remaining) {
      this.#fail(`is longer than the ${this.#body.length} bytes that it was to have`);
      this.#body.stop();
      return false;
    }
    this.#remaining = remaining - piece.length;
    const more = this.#socket.write(piece);
    if (this.#remaining > 0) return more;
    this.#completed();
    // There is nothing left to wait with, and who paused now would not be told to go on.
    return true;
  }

  #completed(): void {
    this.complete = true;
    this.#deadline?.start();
  }

  #fail(how: string): void {
    this.#close();
    this.#onFailure(how);
  }

  #close(): void {
    this.#over = true;
    this.#socket.off('drain', this.#onDrain);
  }
}

/** Told of every piece of a body after it has been passed on or read away. Must not change it, and not throw. */
export type BodyObserver = (piece: Buffer) => void;

/**
 * The body of a request that came in, to be sent on while it comes, with the length that it came with or in chunks;
 * undefined when it has none (RFC 9112 6.3). A client that leaves before the end of it ends the request upstream. What
 * is not wanted any more is read away, so that the client comes to read its answer.
 *
 * While the upstream takes nothing, nothing is read, and a socket that is not read does not say that its other end has
 * gone: who leaves then, with more on its way than the system's buffers hold, is missed once the upstream reads on, ends
 * the connection or is given up.
 */
export function incomingBody(request: IncomingMessage, observe?: BodyObserver): StreamedBody | undefined {
  const { 'content-length': length, 'transfer-encoding': encoding } = request.headers;
  if (length === undefined && encoding === undefined) return undefined;
  return new IncomingBody(request, length === undefined ? undefined : Number(length), observe);
}

class IncomingBody implements StreamedBody {
  readonly length: number | undefined;
  readonly #request: IncomingMessage;
  readonly #observe: BodyObserver | undefined;
  #sink: BodySink | undefined = undefined;
  #stopped = false;
  readonly #onData = (piece: Buffer) => {
    // Not when it was stopped by that very write.
    if (this.#sink?.write(piece) === false && this.#sink !== undefined) this.#request.pause();
    this.#observe?.(piece);
  };
  readonly #onEnd = () => {
    this.#detach();
    this.#sink?.end();
  };
  readonly #onClose = () => {
    this.#detach();
    this.#sink?.fail();
  };

  constructor(request: IncomingMessage, length: number | undefined, observe: BodyObserver | undefined) {
    this.#request = request;
    this.length = length;
    this.#observe = observe;
  }

  start(sink: BodySink): void {
    this.#sink = sink;
    // Who has left already says so no more.
    if (this.#request.destroyed) return sink.fail();
    this.#request.on('data', this.#onData).on('end', this.#onEnd).on('close', this.#onClose).resume();
  }

  resume(): void {
    this.#request.resume();
  }

  stop(): void {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#detach();
    this.#sink = undefined;
    if (this.#observe) this.#request.on('data', this.#observe);
    this.#request.resume();
  }

  #detach(): void {
    this.#request.off('data', this.#onData).off('end', this.#onEnd).off('close', this.#onClose);
  }
}
