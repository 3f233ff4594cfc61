import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import type { ResponseLike } from '../exchange.ts';
import type { RequestHead } from './request-parser.ts';
import type { HeadEncoder } from './response-head.ts';

/** The connection of a response. */
export interface ResponseConnection {
  readonly socket: Socket;
  readonly heads: HeadEncoder;
  /** Whether the end of a response is sent at the end of the turn, by its `finish`; else it is sent at once. */
  endsLater(response: ServerResponse): boolean;
  /** The response collects what is written until the end of the turn. */
  onCork(response: ServerResponse): void;
  /** The whole response was written to the socket. */
  onResponseEnd(response: ServerResponse): void;
}

/** Text that is collected before the client counts as slow, in characters: the size of the socket's own buffer. */
const MAX_CORKED = 64 * 1024;
/** Buffers up to this size are copied behind the head or into their chunk, so that they are one write. */
const MAX_COPIED_BYTES = 4 * 1024;
const LAST_CHUNK = '0\r\n\r\n';

/** Never changed: the second listener begins a new list. */
const NO_LISTENERS: (() => void)[] = [];

type Encoding = 'latin1' | 'utf8';
type OnWritten = (error?: Error | null) => void;

/**
 * The response to one request, with the members of `ServerResponse` of node:http that are used. A response that ends with its
 * first part is one write to the socket. Events: `drain`, and `close` when it is complete or the client has disconnected.
 */
export class ServerResponse implements ResponseLike {
  statusCode = 200;
  statusMessage = '';
  sendDate = true;
  shouldKeepAlive: boolean;
  headersSent = false;
  writableEnded = false;
  /** The whole response was passed to the operating system. */
  writableFinished = false;
  /** The client has disconnected. */
  destroyed = false;
  readonly #request: RequestHead;
  readonly #connection: ResponseConnection;
  /** Head that is sent with the first bytes of the body. */
  #head = '';
  #hasBody = true;
  #chunked = false;
  /** Bytes of the body that must follow; -1 if its length is not known. */
  #remaining = -1;
  #isFinished = false;
  #needsDrain = false;
  #isCorked = false;
  #isSocketCorked = false;
  /** Latin-1 text that is sent when the response is uncorked. */
  #text = '';
  /** The first listener of `close`, and the others. */
  #closeListener: (() => void) | undefined = undefined;
  #otherListeners = NO_LISTENERS;
  /** Most responses need none. */
  #drain: EventEmitter | undefined = undefined;

  constructor(request: RequestHead, connection: ResponseConnection) {
    this.#request = request;
    this.#connection = connection;
    this.shouldKeepAlive = request.persistent;
  }

  on(event: 'close' | 'drain', listener: () => void): this {
    if (event === 'close') return this.once(event, listener);
    this.#drain ??= new EventEmitter();
    this.#drain.on(event, listener);
    return this;
  }

  once(event: 'close' | 'drain', listener: () => void): this {
    if (event === 'close') {
      // V8 allocates 17 slots when an empty array grows, and most responses have two listeners.
      if (!this.#closeListener) this.#closeListener = listener;
      else if (this.#otherListeners.length === 0) this.#otherListeners = [listener];
      else this.#otherListeners.push(listener);
    } else {
      this.#drain ??= new EventEmitter();
      this.#drain.once(event, listener);
    }
    return this;
  }

  /** Sets the head, which is sent with the first part of the body. Throws TypeError for invalid headers. */
  writeHead(status: number, headers: readonly string[]): this {
    if (this.headersSent) throw new Error('the response has begun already');
    const { method, httpVersion } = this.#request;
    this.#hasBody = method !== 'HEAD' && status !== 204 && status !== 304;
    const head = this.#connection.heads.encode(headers, {
      status,
      reason: this.statusMessage,
      keepsAlive: this.shouldKeepAlive,
      sendsDate: this.sendDate,
      hasBody: this.#hasBody,
      httpVersion,
    });
    this.#head = head.text;
    this.#chunked = head.chunked;
    this.#remaining = head.length;
    this.shouldKeepAlive = head.keepsAlive;
    this.headersSent = true;
    this.statusCode = status;
    return this;
  }

  /** False if the client reads too slowly: `drain` follows. */
  write(chunk: string | Buffer, callback?: OnWritten): boolean {
    if (this.writableEnded || this.destroyed) {
      if (callback) process.nextTick(callback, new Error('the response has ended'));
      return false;
    }
    if (!this.headersSent) this.writeHead(200, []);
    if (!this.#isCorked) {
      // A stream may get several events in a turn of the event loop.
      this.#isCorked = true;
      this.#connection.onCork(this);
    }
    const more = this.#send(chunk, undefined, false, callback);
    if (!more) this.#needsDrain = true;
    return more;
  }

  end(chunk: string | Buffer = '', encoding?: Encoding): this {
    if (this.writableEnded || this.destroyed) return this;
    if (!this.headersSent) this.writeHead(200, ['Content-Length', String(Buffer.byteLength(chunk))]);
    const isLater = !this.#isCorked && this.#connection.endsLater(this);
    if (isLater) this.#isCorked = true;
    this.#send(chunk, encoding, true);
    this.writableEnded = true;
    if (!isLater) this.finish();
    return this;
  }

  /** Sends what is left of an ended response. */
  finish(): void {
    if (this.#isFinished || this.destroyed) return;
    this.#isFinished = true;
    this.uncork();
    // A client would take the next response for the rest of this one.
    if (this.#remaining > 0) this.#connection.socket.destroy();
    else this.#connection.onResponseEnd(this);
  }

  /** Collects what is written until `uncork`; without it, what is written in a turn is sent at its end, which costs more. */
  cork(): void {
    this.#isCorked = true;
  }

  /** Sends what was collected. */
  uncork(): void {
    if (!this.#isCorked) return;
    this.#isCorked = false;
    this.#sendText();
    const { socket } = this.#connection;
    if (this.#isSocketCorked) {
      this.#isSocketCorked = false;
      socket.uncork();
    }
    // The socket has taken all of the text, and emits nothing.
    if (this.#needsDrain && !socket.writableNeedDrain) this.onSocketDrain();
  }

  /** Closes the connection, unless the response is complete: then the connection may have the next one. */
  destroy(): this {
    if (this.writableEnded) this.finish();
    if (!this.writableFinished) this.#connection.socket.destroy();
    return this;
  }

  /** The socket has sent what was buffered. */
  onSocketDrain(): void {
    if (!this.#needsDrain) return;
    this.#needsDrain = false;
    this.#drain?.emit('drain');
  }

  /** The response is complete, or the connection was closed. */
  close(finished: boolean): void {
    if (this.destroyed) return;
    this.writableFinished = finished;
    this.destroyed = true;
    const first = this.#closeListener;
    const others = this.#otherListeners;
    // A call may retain its response, which must not retain what listened to it.
    this.#closeListener = undefined;
    this.#otherListeners = NO_LISTENERS;
    first?.();
    for (const listener of others) listener();
  }

  #sendText(): void {
    const text = this.#text;
    if (text === '') return;
    this.#text = '';
    if (!this.#connection.socket.write(text, 'latin1')) this.#needsDrain = true;
  }

  #send(chunk: string | Buffer, encoding: Encoding | undefined, isLast: boolean, callback?: OnWritten): boolean {
    const head = this.#head;
    this.#head = '';
    const isText = typeof chunk === 'string';
    const bytes = !this.#hasBody ? 0 : encoding === 'latin1' || !isText ? chunk.length : Buffer.byteLength(chunk);
    if (bytes === 0) return this.#write(head + (isLast && this.#chunked ? LAST_CHUNK : ''), 'latin1', callback);
    if (this.#remaining >= 0) {
      // More than the announced length would be taken for the next response.
      if (bytes > this.#remaining) {
        this.#connection.socket.destroy();
        return false;
      }
      this.#remaining -= bytes;
    }
    const before = this.#chunked ? `${head}${bytes.toString(16)}\r\n` : head;
    const after = !this.#chunked ? '' : isLast ? `\r\n${LAST_CHUNK}` : '\r\n';
    if (isText && bytes === chunk.length) return this.#write(`${before}${chunk}${after}`, 'latin1', callback);
    if (before === '' && after === '') return this.#write(chunk, encoding, callback);
    if (bytes <= MAX_COPIED_BYTES || isText) {
      const whole = Buffer.allocUnsafe(before.length + bytes + after.length);
      whole.write(before, 0, 'latin1');
      if (isText) whole.write(chunk, before.length);
      else whole.set(chunk, before.length);
      whole.write(after, before.length + bytes, 'latin1');
      return this.#write(whole, undefined, callback);
    }
    const { socket } = this.#connection;
    socket.cork();
    this.#write(before, 'latin1');
    let more = this.#write(chunk, undefined, callback);
    if (after !== '') more = this.#write(after, 'latin1');
    socket.uncork();
    return more;
  }

  #write(data: string | Buffer, encoding?: Encoding, callback?: OnWritten): boolean {
    const { socket } = this.#connection;
    if (data === '' && !callback) return true;
    if (this.#isCorked) {
      // Several texts are one write, which costs less than `writev`.
      if (encoding === 'latin1' && !callback) {
        this.#text += data;
        return !this.#needsDrain && this.#text.length < MAX_CORKED;
      }
      if (!this.#isSocketCorked) {
        this.#isSocketCorked = true;
        socket.cork();
      }
      this.#sendText();
    }
    return encoding === undefined ? socket.write(data, callback) : socket.write(data, encoding, callback);
  }
}
