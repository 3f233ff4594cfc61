import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import type { ResponseEnd } from '../../exchange/facts.ts';
import type { ResponseLike } from '../exchange.ts';
import type { ServerRequest } from './request.ts';
import type { HeadEncoder } from './response-head.ts';

/** The connection of a response. */
export interface ResponseConnection {
  readonly socket: Socket;
  readonly owner: { readonly heads: HeadEncoder; readonly turn: ResponseTurn };
  /** The whole response was passed to the socket. */
  onResponseEnd(keepsAlive: boolean): void;
}

/** What is left to do for the responses of a server at the end of a turn of the event loop. */
export class ResponseTurn {
  #corked: ServerResponse[] = [];
  #written: ServerResponse[] = [];
  #isEnding = false;

  /** Whether a response was written in this turn: sent one after the other at its end, others wake up their clients less often. */
  get hasWritten(): boolean {
    return this.#written.length > 0;
  }

  /** Calls `uncork` of a response at the end. */
  uncorkLater(response: ServerResponse): void {
    this.#corked.push(response);
    this.#schedule();
  }

  /** Calls `close` of a response at the end, after those that are uncorked. */
  closeLater(response: ServerResponse): void {
    this.#written.push(response);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#isEnding) return;
    this.#isEnding = true;
    setImmediate(this.#end);
  }

  readonly #end = (): void => {
    this.#isEnding = false;
    const corked = this.#corked;
    this.#corked = [];
    for (const response of corked) response.uncork();
    const written = this.#written;
    this.#written = [];
    for (const response of written) response.close();
  };
}

/** Text that is collected before the client counts as slow, in characters: the size of the socket's own buffer. */
const MAX_CORKED = 64 * 1024;
/** Buffers up to this size are copied behind the head or into their chunk, so that they are one write. */
const MAX_COPIED_BYTES = 4 * 1024;
const LAST_CHUNK = '0\r\n\r\n';
const EMPTY = Buffer.alloc(0);

interface ResponseEvents {
  /** The client has read what was written. */
  readonly drain: () => void;
  /** The response is complete, or the client has disconnected. */
  readonly close: (end: ResponseEnd) => void;
}

/** Never changed: the second listener begins a new list. */
const NO_LISTENERS: ResponseEvents['close'][] = [];

type Encoding = 'latin1' | 'utf8';
type OnWritten = (error?: Error | null) => void;

/**
 * The response to one request, with the members of `ServerResponse` of node:http that are used. A response that ends with its
 * first part is one write to the socket.
 */
export class ServerResponse implements ResponseLike {
  headersSent = false;
  writableEnded = false;
  /** The client has disconnected. */
  destroyed = false;
  readonly #request: ServerRequest;
  readonly #connection: ResponseConnection;
  /** Head that is sent with the first bytes of the body. */
  #head = '';
  #hasBody = true;
  #chunked = false;
  /** Bytes of the body that must follow; -1 if its length is not known. */
  #remaining = -1;
  #status = 0;
  #keepsAlive = false;
  #isFinished = false;
  /** It was passed to the operating system. */
  #isWritten = false;
  #needsDrain = false;
  #isCorked = false;
  #isSocketCorked = false;
  /** Latin-1 text that is sent when the response is uncorked. */
  #text = '';
  /** The first listener of `close`, and the others. */
  #closeListener: ResponseEvents['close'] | undefined = undefined;
  #otherListeners = NO_LISTENERS;
  /** Most responses need none. */
  #drain: EventEmitter | undefined = undefined;

  constructor(request: ServerRequest, connection: ResponseConnection) {
    this.#request = request;
    this.#connection = connection;
  }

  on<Event extends keyof ResponseEvents>(event: Event, listener: ResponseEvents[Event]): void {
    if (event === 'close') return this.once(event, listener);
    this.#drain ??= new EventEmitter();
    this.#drain.on(event, listener);
  }

  once<Event extends keyof ResponseEvents>(event: Event, listener: ResponseEvents[Event]): void {
    if (event === 'close') {
      // V8 allocates 17 slots when an empty array grows, and most responses have two listeners.
      if (!this.#closeListener) this.#closeListener = listener;
      else if (this.#otherListeners.length === 0) this.#otherListeners = [listener];
      else this.#otherListeners.push(listener);
    } else {
      this.#drain ??= new EventEmitter();
      this.#drain.once(event, listener);
    }
  }

  /** Sets the head, which is sent with the first part of the body. Throws TypeError for invalid headers. */
  writeHead(status: number, headers: readonly string[], reason?: string): this {
    if (this.headersSent) throw new Error('the response has begun already');
    const { method, persistent, head: request } = this.#request;
    this.#hasBody = method !== 'HEAD' && status !== 204 && status !== 304;
    const head = this.#connection.owner.heads.encode(headers, {
      status,
      reason: reason ?? '',
      keepsAlive: persistent,
      sendsDate: reason === undefined,
      hasBody: this.#hasBody,
      httpVersion: request.httpVersion,
    });
    this.#head = head.text;
    this.#chunked = head.chunked;
    this.#remaining = head.length;
    this.#keepsAlive = head.keepsAlive;
    this.headersSent = true;
    this.#status = status;
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
      this.#connection.owner.turn.uncorkLater(this);
    }
    const more = this.#send(chunk, undefined, callback);
    if (!more) this.#needsDrain = true;
    return more;
  }

  end(chunk: string | Buffer = '', encoding?: Encoding): this {
    if (this.writableEnded || this.destroyed) return this;
    if (!this.headersSent) this.writeHead(200, ['Content-Length', String(Buffer.byteLength(chunk))]);
    const { turn } = this.#connection.owner;
    const isLater = !this.#isCorked && turn.hasWritten && this.#request.body.complete;
    if (isLater) {
      this.#isCorked = true;
      turn.uncorkLater(this);
    }
    this.writableEnded = true;
    this.#send(chunk, encoding);
    if (!isLater) this.#finish();
    return this;
  }

  /** Sends what is left of an ended response. */
  #finish(): void {
    if (this.#isFinished || this.destroyed) return;
    this.#isFinished = true;
    this.uncork();
    const { socket } = this.#connection;
    // A client would take the next response for the rest of this one.
    if (this.#remaining > 0) return void socket.destroy();
    if (socket.writableLength === 0) this.#onWritten();
    else socket.write(EMPTY, (error) => (error ? this.close() : this.#onWritten()));
    this.#connection.onResponseEnd(this.#keepsAlive);
  }

  #onWritten(): void {
    this.#isWritten = true;
    this.#connection.owner.turn.closeLater(this);
  }

  /** Collects what is written until `uncork`; without it, what is written in a turn is sent at its end, which costs more. */
  cork(): void {
    this.#isCorked = true;
  }

  /** Sends what was collected. Also called at the end of a turn that has written, and when the socket has sent what it buffered. */
  uncork(): void {
    const { socket } = this.#connection;
    if (this.#isCorked) {
      this.#isCorked = false;
      this.#sendText();
      if (this.#isSocketCorked) {
        this.#isSocketCorked = false;
        socket.uncork();
      }
    }
    // If the socket has taken all of the text, it emits nothing.
    if (this.#needsDrain && !socket.writableNeedDrain) {
      this.#needsDrain = false;
      this.#drain?.emit('drain');
    }
    if (this.writableEnded) this.#finish();
  }

  /** Closes the connection, unless the response is complete: then the connection may have the next one. */
  destroy(): void {
    if (this.writableEnded) this.#finish();
    if (!this.#isWritten) this.#connection.socket.destroy();
  }

  /** The response is complete, or the connection was closed. `status`: of another response that was sent in its place. */
  close(status?: number): void {
    if (this.destroyed) return;
    this.destroyed = true;
    const end = {
      status: this.headersSent ? this.#status : status,
      isComplete: this.#isWritten || status !== undefined,
    };
    const first = this.#closeListener;
    const others = this.#otherListeners;
    // A call may retain its response, which must not retain what listened to it.
    this.#closeListener = undefined;
    this.#otherListeners = NO_LISTENERS;
    first?.(end);
    for (const listener of others) listener(end);
  }

  #sendText(): void {
    const text = this.#text;
    if (text === '') return;
    this.#text = '';
    if (!this.#connection.socket.write(text, 'latin1')) this.#needsDrain = true;
  }

  /** Sends a part of the body, with its framing: the last one if the response has ended. */
  #send(chunk: string | Buffer, encoding?: Encoding, callback?: OnWritten): boolean {
    const isLast = this.writableEnded;
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
