import type { Socket } from 'node:net';
import type { RawHeaders, ResponseHandler, ResponseHeaders, StreamedBody, UpstreamCall } from './client.ts';
import {
  bodyFailure,
  connectionFailure,
  connectTimeout,
  MalformedResponse,
  redirected,
  responseTimeout,
  type UpstreamError,
} from './errors.ts';
import { BodyWriter, ResponseDeadline } from './request-writer.ts';
import { ResponseParser, type ResponseSink } from './response-parser.ts';
import { openSocket, readPastFailedWrites, type SocketTarget } from './socket.ts';

/** Connection of a call. */
export interface Carrier {
  /** Closes the connection without a callback. */
  close(): void;
  /** Resumes the response body. */
  resume(): void;
}

/** An in-flight request. */
export class Http1Call implements UpstreamCall {
  readonly handler: ResponseHandler;
  /** Encoded request, only its head if the body is streamed; or the error that encoding failed with. */
  readonly request: string | Buffer | UpstreamError;
  /** Body that follows the head. */
  readonly streamed: StreamedBody | undefined;
  /** True for HEAD: the response has no body, whatever its head declares. */
  readonly headOnly: boolean;
  /** Undefined until the call has a connection. */
  carrier: Carrier | undefined = undefined;
  /** Set before the last callback; no callback follows. */
  over = false;

  constructor(
    handler: ResponseHandler,
    request: string | Buffer | UpstreamError,
    streamed: StreamedBody | undefined,
    headOnly: boolean,
  ) {
    this.handler = handler;
    this.request = request;
    this.streamed = streamed;
    this.headOnly = headOnly;
  }

  abort(): void {
    if (this.over) return;
    this.over = true;
    this.carrier?.close();
  }

  resume(): void {
    if (!this.over) this.carrier?.resume();
  }

  /** Must not be called after the end of the call. */
  fail(error: UpstreamError): void {
    this.over = true;
    this.handler.onError(error);
  }
}

/** Pool that owns connections. */
export interface ConnectionOwner extends SocketTarget {
  /** Address for messages. */
  readonly address: string;
  readonly connectTimeoutMs: number;
  readonly firstByteTimeoutMs: number | undefined;
  readonly passesRedirects: boolean;
  /** Returns an idle connection to the pool; `keepAliveMs` is the timeout that the upstream announced. */
  release(connection: Connection, keepAliveMs: number | undefined): void;
  /** Removes a closed connection. */
  forget(connection: Connection): void;
}

/** Read buffer of a connection. Half the size made bodies of 1 MB 15 % slower, twice the size was no faster. */
const READ_BYTES = 32 * 1024;

/**
 * One connection: carries one call at a time. Reads into its own buffer, bypassing the streams of Node.js (`onread`), parses
 * in place and copies body chunks for the handler.
 */
export class Connection implements Carrier, ResponseSink {
  /** End of its idle time (`performance.now()`); managed by the owner. */
  expiresAt = 0;
  /** It cannot carry further calls. */
  closed = false;
  readonly #owner: ConnectionOwner;
  readonly #socket: Socket;
  readonly #parser: ResponseParser;
  #call: Http1Call | undefined;
  #connectTimer: NodeJS.Timeout | undefined;
  /** Timeout of the response; ends with its first byte. */
  #deadline: ResponseDeadline | undefined = undefined;
  /** Writer of a streamed request body, until the end of the response. */
  #writer: BodyWriter | undefined = undefined;
  #connected = false;
  /** The upstream has closed its side. */
  #ended = false;
  /** Input received while the handler is paused. */
  #pending: Buffer | undefined = undefined;
  /** Error of a failed write; only detected while a body is streamed. What can still be read is the last response. */
  #writeFailure: Error | undefined = undefined;
  #ignoresWriteErrors = false;

  /** Connects and sends the call; fails it if there is no connection. */
  constructor(owner: ConnectionOwner, call: Http1Call) {
    this.#owner = owner;
    this.#parser = new ResponseParser(this);
    this.#call = call;
    call.carrier = this;
    const { connectTimeoutMs, url } = owner;
    this.#connectTimer = setTimeout(() => {
      this.#fail(connectTimeout(owner.address, connectTimeoutMs));
    }, connectTimeoutMs);
    const buffer = Buffer.allocUnsafeSlow(READ_BYTES);
    const onread = { buffer, callback: (bytes: number) => this.#read(buffer, bytes) };
    this.#socket = openSocket(owner, onread);
    this.#socket.once(url.protocol === 'https:' ? 'secureConnect' : 'connect', () => this.#onConnect());
    this.#socket.on('end', () => this.#onEnd());
    this.#socket.on('error', (error) => this.#lose(error));
    this.#socket.on('close', () => this.#onClose());
  }

  /** Sends a call on an idle connection. */
  send(call: Http1Call): void {
    this.#call = call;
    call.carrier = this;
    this.#socket.ref();
    this.#write(call);
  }

  close(): void {
    this.closed = true;
    this.#call = undefined;
    this.#pending = undefined;
    this.#parser.halted = true;
    clearTimeout(this.#connectTimer);
    this.#deadline?.end();
    this.#socket.destroy();
    this.#writer?.stop();
    this.#writer = undefined;
  }

  /** Closes the connection and fails its call. */
  destroy(error: UpstreamError): void {
    this.#fail(error);
  }

  resume(): void {
    if (!this.#parser.halted || this.closed) return;
    this.#parser.halted = false;
    const pending = this.#pending;
    this.#pending = undefined;
    if (pending !== undefined) this.#parse(pending, pending.length);
    else if (this.#parser.done) this.#complete(true);
    // After parsing: pending input must not grow while the handler reads it in small chunks.
    if (this.closed || this.#parser.halted) return;
    if (this.#ended) this.#finish();
    else this.#socket.resume();
  }

  onHead(status: number, headers: ResponseHeaders, raw: RawHeaders, reason: string): void {
    if (status >= 300 && status < 400 && status !== 304 && !this.#owner.passesRedirects) {
      this.#fail(redirected(this.#owner.address, status, headers.location));
    } else {
      this.#call?.handler.onHead(status, headers, raw, reason);
    }
  }

  onBody(buffer: Buffer, start: number, end: number): void {
    const piece = Buffer.allocUnsafe(end - start);
    buffer.copy(piece, 0, start, end);
    if (this.#call?.handler.onData(piece) === false) this.#parser.halted = true;
  }

  #write({ request, streamed, headOnly }: Http1Call): void {
    const { firstByteTimeoutMs } = this.#owner;
    this.#parser.headOnly = headOnly;
    if (firstByteTimeoutMs !== undefined) this.#deadline = this.#startDeadline(firstByteTimeoutMs);
    if (streamed !== undefined) return this.#stream(request, streamed);
    if (typeof request === 'string') this.#socket.write(request, 'latin1');
    else if (Buffer.isBuffer(request)) this.#socket.write(request);
    this.#deadline?.start();
  }

  #stream(head: Http1Call['request'], body: StreamedBody): void {
    if (typeof head !== 'string') return;
    const socket = this.#socket;
    if (!this.#ignoresWriteErrors) {
      this.#ignoresWriteErrors = true;
      readPastFailedWrites(socket, (error) => {
        this.#writeFailure = error;
        this.#writer?.stop();
      });
    }
    this.#writer = new BodyWriter(socket, body, this.#deadline, (how) => {
      this.#fail(bodyFailure(this.#owner.address, how));
    });
    // The first chunk of the body is sent with the head.
    socket.cork();
    socket.write(head, 'latin1');
    this.#writer.start();
    process.nextTick(() => socket.uncork());
  }

  #startDeadline(milliseconds: number): ResponseDeadline {
    return new ResponseDeadline(milliseconds, () => this.#fail(responseTimeout(this.#owner.address, milliseconds)));
  }

  /** Returns whether to continue reading. */
  #read(buffer: Buffer, bytes: number): boolean {
    if (this.#call === undefined) {
      // Unsolicited data would be taken for the response to the next call.
      this.close();
    } else if (this.#parser.halted) {
      // TLS delivers data that is already decrypted.
      const pending = this.#pending ?? Buffer.alloc(0);
      this.#pending = Buffer.concat([pending, buffer.subarray(0, bytes)]);
    } else {
      this.#parse(buffer, bytes);
    }
    return !this.#parser.halted;
  }

  #parse(buffer: Buffer, end: number): void {
    let at = end;
    try {
      at = this.#parser.execute(buffer, 0, end);
    } catch (error) {
      if (!(error instanceof MalformedResponse)) {
        this.close();
        throw error;
      }
      this.#lose(error);
    }
    if (this.closed) return;
    if (this.#deadline !== undefined && this.#parser.begun) this.#deadline.end();
    if (!this.#parser.halted) {
      if (this.#parser.done) this.#complete(at === end);
    } else if (at < end) {
      this.#pending = Buffer.from(buffer.subarray(at, end));
    }
  }

  /** Completes the call. `clean`: there is no input after the response. */
  #complete(clean: boolean): void {
    const call = this.#call;
    const writer = this.#writer;
    this.#call = undefined;
    // Set before the body is stopped, since that may abort the call.
    if (call !== undefined) call.over = true;
    // The connection cannot be reused if the upstream responded before the end of the request.
    const sent = this.#socket.writableLength === 0 && writer?.complete !== false && this.#writeFailure === undefined;
    if (clean && sent && this.#parser.persistent && !this.#ended) {
      this.#writer = undefined;
      writer?.stop();
      this.#parser.reset();
      this.#socket.unref();
      this.#owner.release(this, this.#parser.keepAliveMs);
    } else {
      this.close();
    }
    call?.handler.onEnd();
  }

  #onConnect(): void {
    clearTimeout(this.#connectTimer);
    this.#connected = true;
    if (this.#call !== undefined) this.#write(this.#call);
  }

  #onEnd(): void {
    this.#ended = true;
    if (this.#call === undefined) this.close();
    else if (!this.#parser.halted) this.#finish();
    // Node.js has closed our side as well.
    else this.#writer?.stop();
  }

  #finish(): void {
    // After a failed write, the end of the input may be that of a reset connection and does not complete a response.
    if (this.#writeFailure === undefined && this.#parser.finish()) this.#complete(false);
    else this.#lose(this.#writeFailure ?? new Error('other side closed'));
  }

  #onClose(): void {
    // A paused handler still receives the pending input.
    if (!this.#ended || !this.#parser.halted) this.#lose(new Error('closed'));
    this.#owner.forget(this);
  }

  #lose(cause: Error): void {
    if (!this.#connected) this.#owner.tlsSession = undefined;
    this.#fail(connectionFailure(this.#owner.address, cause, this.#connected));
  }

  #fail(error: UpstreamError): void {
    const call = this.#call;
    this.close();
    call?.fail(error);
  }
}
