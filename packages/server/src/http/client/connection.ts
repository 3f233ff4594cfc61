import type { Socket } from 'node:net';
import type { RawHeaders, ResponseHandler, ResponseHeaders, StreamedBody, UpstreamCall } from './client.ts';
import {
  answerTimeout,
  bodyFailure,
  connectionFailure,
  connectTimeout,
  MalformedResponse,
  redirected,
  type UpstreamError,
} from './errors.ts';
import { AnswerDeadline, BodyWriter } from './request-writer.ts';
import { ResponseParser, type ResponseSink } from './response-parser.ts';
import { openSocket, readPastFailedWrites, type SocketTarget } from './socket.ts';

/** The connection that a call is on, as the call needs it. */
export interface Carrier {
  /** Ends the connection without calling back. */
  close(): void;
  /** Lets the body flow again. */
  resume(): void;
}

/** One request under way. */
export class Http1Call implements UpstreamCall {
  readonly handler: ResponseHandler;
  /** The request's bytes, only its head's when the body is streamed, or why there are none. */
  readonly request: string | Buffer | UpstreamError;
  /** What is to be sent behind the bytes. */
  readonly streamed: StreamedBody | undefined;
  /** Whether its answer has a head and nothing else, whatever that says. */
  readonly headOnly: boolean;
  /** Undefined until the call has got a connection. */
  carrier: Carrier | undefined = undefined;
  /** Set before the last callback: nothing is called any more. */
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

  /** Only while it is not over. */
  fail(error: UpstreamError): void {
    this.over = true;
    this.handler.onError(error);
  }
}

/** Where connections lead, and who keeps them. */
export interface ConnectionOwner extends SocketTarget {
  /** The address as it may be shown. */
  readonly address: string;
  readonly connectTimeoutMs: number;
  readonly firstByteTimeoutMs: number | undefined;
  readonly passesRedirects: boolean;
  /** The connection can carry another request; `keepAliveMs` is what its upstream announced. */
  release(connection: Connection, keepAliveMs: number | undefined): void;
  /** Its socket is closed. */
  forget(connection: Connection): void;
}

/** Bytes read at once, which every connection holds. Half of it cost 15 % more for bodies of a megabyte, twice saved 0. */
const READ_BYTES = 32 * 1024;

/**
 * One connection: carries a call, and after its answer another one, never two at once. Reads into a buffer of its own
 * past the stream machinery (`onread`), parses in place and copies what a handler may keep.
 */
export class Connection implements Carrier, ResponseSink {
  /** When it must no longer be used, in milliseconds of `performance.now()`; kept by the owner. */
  expiresAt = 0;
  /** No call can be sent on it any more. */
  closed = false;
  readonly #owner: ConnectionOwner;
  readonly #socket: Socket;
  readonly #parser: ResponseParser;
  #call: Http1Call | undefined;
  #connectTimer: NodeJS.Timeout | undefined;
  /** Until the answer begins. */
  #deadline: AnswerDeadline | undefined = undefined;
  /** What streams the call's body, until the answer is complete. */
  #writer: BodyWriter | undefined = undefined;
  #connected = false;
  /** The upstream sends no more. */
  #ended = false;
  /** Input that came with the piece after which the handler wanted no more. */
  #held: Buffer | undefined = undefined;
  /** How writing failed: what can still be read is the last. Only found out when a body has been streamed. */
  #writeFailure: Error | undefined = undefined;
  #outlivesWrites = false;

  /** Connects and sends the call, or fails it. */
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

  /** Sends a call. Only for a connection that was released. */
  send(call: Http1Call): void {
    this.#call = call;
    call.carrier = this;
    this.#socket.ref();
    this.#write(call);
  }

  close(): void {
    this.closed = true;
    this.#call = undefined;
    this.#held = undefined;
    this.#parser.halted = true;
    clearTimeout(this.#connectTimer);
    this.#deadline?.end();
    this.#socket.destroy();
    this.#writer?.stop();
    this.#writer = undefined;
  }

  /** Closes it and fails the call that it carries. */
  destroy(error: UpstreamError): void {
    this.#fail(error);
  }

  resume(): void {
    if (!this.#parser.halted || this.closed) return;
    this.#parser.halted = false;
    const held = this.#held;
    this.#held = undefined;
    if (held !== undefined) this.#parse(held, held.length);
    else if (this.#parser.done) this.#complete(true);
    // Only now, so that what is held does not grow while the handler takes it in small pieces.
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
    if (firstByteTimeoutMs !== undefined) this.#deadline = this.#answerWithin(firstByteTimeoutMs);
    if (streamed !== undefined) return this.#stream(request, streamed);
    if (typeof request === 'string') this.#socket.write(request, 'latin1');
    else if (Buffer.isBuffer(request)) this.#socket.write(request);
    this.#deadline?.start();
  }

  #stream(head: Http1Call['request'], body: StreamedBody): void {
    if (typeof head !== 'string') return;
    const socket = this.#socket;
    if (!this.#outlivesWrites) {
      this.#outlivesWrites = true;
      readPastFailedWrites(socket, (error) => {
        this.#writeFailure = error;
        this.#writer?.stop();
      });
    }
    this.#writer = new BodyWriter(socket, body, this.#deadline, (how) => {
      this.#fail(bodyFailure(this.#owner.address, how));
    });
    // What is there of the body goes out with the head.
    socket.cork();
    socket.write(head, 'latin1');
    this.#writer.start();
    process.nextTick(() => socket.uncork());
  }

  #answerWithin(milliseconds: number): AnswerDeadline {
    return new AnswerDeadline(milliseconds, () => this.#fail(answerTimeout(this.#owner.address, milliseconds)));
  }

  /** Returns whether to read on. */
  #read(buffer: Buffer, bytes: number): boolean {
    if (this.#call === undefined) {
      // Nobody has asked: what the next call would read here is not its answer.
      this.close();
    } else if (this.#parser.halted) {
      // TLS hands out what it has deciphered already.
      const held = this.#held ?? Buffer.alloc(0);
      this.#held = Buffer.concat([held, buffer.subarray(0, bytes)]);
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
      this.#held = Buffer.from(buffer.subarray(at, end));
    }
  }

  /** The answer is complete. `clean`: nothing came after it. */
  #complete(clean: boolean): void {
    const call = this.#call;
    const writer = this.#writer;
    this.#call = undefined;
    // Before its body is stopped, which may be answered by an abort.
    if (call !== undefined) call.over = true;
    // An upstream that answers before it has the whole request leaves the rest of it on the connection.
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
    // Node.js has ended our side too.
    else this.#writer?.stop();
  }

  #finish(): void {
    // A connection that was reset ends no answer, although reading may end like any other once writing has failed.
    if (this.#writeFailure === undefined && this.#parser.finish()) this.#complete(false);
    else this.#lose(this.#writeFailure ?? new Error('other side closed'));
  }

  #onClose(): void {
    // What is held for a handler that wanted no more is still its.
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
