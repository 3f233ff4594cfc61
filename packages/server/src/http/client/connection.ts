import type { Socket } from 'node:net';
import { type InputTurns, LARGE_INPUT_BYTES } from '../input-turns.ts';
import { copyOf, MalformedMessage, MessageParser, type MessageSink } from '../message-parser.ts';
import type { ResponseHeaders, StreamedBody, TransportSettings } from './client.ts';
import { codingsOf } from './content-coding.ts';
import { type EgressProxy, ProxyError } from './egress-proxies.ts';
import { connectionFailure, connectTimeout, proxyConnectionFailure, proxyFailure, UpstreamError } from './errors.ts';
import { type CallConnection, connectTimeLeft, type Http1Call } from './http1-call.ts';
import { isRedirect, type Redirects } from './redirects.ts';
import { BodyWriter, type EncodedRequest, ResponseDeadline } from './request-writer.ts';
import { mediaType, ResponseFormat, type ResponseHead } from './response-parser.ts';
import { connectEvent, openSocket, openTlsInTunnel, readPastFailedWrites, type SocketTarget } from './socket.ts';
import { credentialsRejected, openTunnel } from './tunnel.ts';

/** The pool of a connection. */
export interface ConnectionOwner {
  readonly target: SocketTarget;
  readonly address: string;
  readonly settings: TransportSettings;
  /** Shares the time for large responses among connections. */
  readonly turns: InputTurns;
  /** Buffer for the reads of one connection, or of all. */
  readonly readBuffer: Buffer;
  readonly redirects: Redirects;
  /** Takes back an idle connection; `announcedMs` is the timeout that the upstream announced. */
  release(connection: Connection, announcedMs: number | undefined): void;
  /** Removes a closed connection. */
  remove(connection: Connection): void;
}

/**
 * One connection: carries one call at a time. Reads into a buffer, bypassing the streams of Node.js (`onread`), parses in place
 * and copies body chunks for the handler, unless it takes the whole body from there.
 */
export class Connection implements MessageSink<ResponseHead>, CallConnection {
  /** End of its idle time (`performance.now()`); managed by the pool. */
  expiresAt = 0;
  /** It cannot carry further calls. */
  closed = false;
  readonly #pool: ConnectionOwner;
  /** First the tunnel, if there is one, then TLS in it. */
  #socket: Socket;
  #isTunnelOpen = false;
  readonly #format = new ResponseFormat();
  readonly #parser = new MessageParser(this.#format, this);
  readonly #buffer: Buffer;
  #call: Http1Call | undefined;
  #connectTimer: NodeJS.Timeout | undefined;
  /** Timeout of the response; ends with its first byte. */
  #deadline: ResponseDeadline | undefined = undefined;
  /** Writer of a streamed request body, until the end of the response. */
  #writer: BodyWriter | undefined = undefined;
  #connected = false;
  /** It keeps the process alive. */
  #isRef = true;
  /** The next part of the body is its first. */
  #isBodyNew = false;
  /** The upstream has closed its side. */
  #ended = false;
  /** Input received while the handler is paused, or the connection waits for a turn. */
  #pending: Buffer | undefined = undefined;
  /** It continues in a later turn, since others or its own input took the time of this one. */
  #waits = false;
  /** Error of a failed write; only detected while a body is streamed. Only the pending response can still be read. */
  #writeFailure: Error | undefined = undefined;
  #ignoresWriteErrors = false;

  /** Connects and sends the call; fails it if there is no connection. */
  constructor(pool: ConnectionOwner, call: Http1Call) {
    this.#pool = pool;
    this.#buffer = pool.readBuffer;
    this.#call = call;
    call.connection = this;
    const { target, settings } = pool;
    const { url } = target;
    const { proxy, connectTimeoutMs } = settings;
    const timeLeftMs = Math.max(connectTimeLeft(call, connectTimeoutMs, performance.now()), 0);
    this.#connectTimer = setTimeout(() => this.#onConnectTimeout(), timeLeftMs);
    if (proxy === undefined) {
      this.#socket = this.#use(openSocket(target, this.#onread), url);
    } else if (url.protocol === 'http:') {
      this.#socket = this.#use(openSocket({ url: proxy.url, tlsSession: undefined }, this.#onread), proxy.url);
    } else {
      this.#socket = this.#openTunnel(proxy);
    }
  }

  get #onread() {
    return { buffer: this.#buffer, callback: this.#read };
  }

  /** Uses the socket for calls. */
  #use(socket: Socket, url: URL): Socket {
    return socket
      .once(connectEvent(url), () => this.#onConnect())
      .on('end', () => this.#onEnd())
      .on('error', (error) => this.#failConnection(error))
      .on('close', () => this.#onClose());
  }

  #openTunnel(proxy: EgressProxy): Socket {
    const { target, address } = this.#pool;
    const onOpen = () => {
      tunnel.off('close', onClose);
      this.#isTunnelOpen = true;
      this.#socket = this.#use(openTlsInTunnel(target, tunnel, this.#onread), target.url);
    };
    const tunnel = openTunnel(target.url, proxy, onOpen, (error) => this.destroy(proxyFailure(address, error)));
    const onClose = () => this.#onClose();
    return tunnel.on('error', (error) => this.#failConnection(error)).on('close', onClose);
  }

  /** Sends a call on an idle connection. */
  send(call: Http1Call): void {
    this.#call = call;
    call.connection = this;
    if (!this.#isRef) this.#socket.ref();
    this.#isRef = true;
    this.#write(call);
  }

  /** Lets the process end while the connection is idle. */
  unref(): void {
    if (!this.#isRef) return;
    this.#isRef = false;
    this.#socket.unref();
  }

  /** Closes the connection without a callback. */
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

  /** Resumes the response body. */
  resume(): void {
    if (!this.#parser.halted || this.closed) return;
    this.#parser.halted = false;
    if (!this.#waits) this.#continue();
  }

  /** Parses the pending input, and reads what follows unless the handler is paused. */
  #continue(): void {
    const pending = this.#pending;
    this.#pending = undefined;
    if (pending !== undefined) this.#parse(pending, pending.length);
    else if (this.#parser.done) this.#complete(true);
    // After parsing: pending input must not grow while the handler reads it in small chunks.
    if (this.closed || this.#parser.halted) return;
    if (this.#ended) this.#finish();
    else this.#socket.resume();
  }

  onHead({ status, headers, raw, reason }: ResponseHead): void {
    const call = this.#call;
    if (call === undefined) return;
    if (status >= 300) {
      if (this.#isHandledHere(call, status, headers)) return;
    } else if (call.redirects > 0 && mediaType(headers) !== 'text/html') {
      // No page, as of a server that is being maintained.
      this.#pool.redirects.remember(call);
    }
    if (headers['content-encoding'] !== undefined && this.#pool.settings.codings !== 'pass') {
      const codings = codingsOf(headers['content-encoding']);
      if (codings) call.decode(codings, this.#pool.address, this.#pool.settings.maxDecodedBytes);
    }
    this.#isBodyNew = true;
    call.handler.onHead(status, headers, raw, reason);
  }

  /** Handles redirects that are not passed on, and the rejection of a proxy; the handler of the call does not get them. */
  #isHandledHere(call: Http1Call, status: number, headers: ResponseHeaders): boolean {
    const { address, settings } = this.#pool;
    const { proxy, redirects } = settings;
    if (status === 407 && proxy !== undefined && !this.#isTunnelOpen) {
      this.destroy(proxyFailure(address, credentialsRejected(proxy)));
      return true;
    }
    if (status === 404) this.#pool.redirects.forget();
    if (redirects === 'pass' || !isRedirect(status)) return false;
    // The next request may use another connection before the body of this response has arrived.
    this.close();
    this.#pool.redirects.follow(call, status, headers);
    return true;
  }

  onBody(buffer: Buffer, start: number, end: number): void {
    const isWhole = this.#isBodyNew && this.#parser.done;
    this.#isBodyNew = false;
    const handler = this.#call?.handler;
    if (handler === undefined) return;
    const more =
      isWhole && handler.onWholeBody
        ? handler.onWholeBody(buffer, start, end)
        : handler.onData(copyOf(buffer, start, end));
    if (!more) this.#parser.halted = true;
  }

  #write({ request }: Http1Call): void {
    const { address, settings } = this.#pool;
    if (request instanceof Error) return this.destroy(request);
    const { firstByteTimeoutMs } = settings;
    const { encoded, streamed, source } = request;
    this.#format.headOnly = source.method === 'HEAD';
    if (firstByteTimeoutMs !== undefined) {
      const what = `did not respond within ${firstByteTimeoutMs / 1000} s`;
      const onTimeout = () => this.destroy(new UpstreamError('timeout', address, what));
      this.#deadline = new ResponseDeadline(firstByteTimeoutMs, onTimeout);
    }
    if (streamed !== undefined) return this.#stream(encoded, streamed);
    if (typeof encoded === 'string') this.#socket.write(encoded, 'latin1');
    else if (Buffer.isBuffer(encoded)) this.#socket.write(encoded);
    else {
      this.#socket.cork();
      for (const part of encoded) this.#socket.write(part);
      this.#socket.uncork();
    }
    this.#deadline?.start();
  }

  #stream(head: EncodedRequest, body: StreamedBody): void {
    if (typeof head !== 'string') return;
    const socket = this.#socket;
    if (!this.#ignoresWriteErrors) {
      this.#ignoresWriteErrors = true;
      readPastFailedWrites(socket, (error) => {
        this.#writeFailure = error;
        this.#writer?.stop();
      });
    }
    this.#writer = new BodyWriter(socket, body, this.#deadline, (problem) => {
      const what = `did not receive the whole request: its body ${problem}`;
      this.destroy(new UpstreamError('aborted', this.#pool.address, what));
    });
    // The first chunk of the body is sent with the head.
    socket.cork();
    socket.write(head, 'latin1');
    this.#writer.start();
    process.nextTick(() => socket.uncork());
  }

  /** Returns whether to continue reading. */
  readonly #read = (bytes: number): boolean => {
    if (this.#call === undefined) {
      // Unsolicited data would be interpreted as the response to the next call.
      this.close();
    } else if (this.#parser.halted || this.#waits) {
      // TLS delivers data that is already decrypted.
      const pending = this.#pending ?? Buffer.alloc(0);
      this.#pending = Buffer.concat([pending, this.#buffer.subarray(0, bytes)]);
    } else if (bytes < LARGE_INPUT_BYTES) {
      this.#parse(this.#buffer, bytes);
    } else if (this.#pool.turns.begin()) {
      this.#parse(this.#buffer, bytes);
      if (this.#call !== undefined && this.#pool.turns.isOver) this.#wait();
    } else {
      this.#pending = Buffer.from(this.#buffer.subarray(0, bytes));
      this.#wait();
    }
    return !this.#parser.halted && !this.#waits;
  };

  #wait(): void {
    this.#waits = true;
    this.#pool.turns.wait(() => {
      this.#waits = false;
      if (!this.closed && !this.#parser.halted) this.#continue();
    });
  }

  #parse(buffer: Buffer, end: number): void {
    let at = end;
    try {
      at = this.#parser.execute(buffer, 0, end);
    } catch (error) {
      if (!(error instanceof MalformedMessage)) {
        this.close();
        throw error;
      }
      this.#failConnection(error);
    }
    if (this.closed) return;
    if (this.#deadline !== undefined && this.#parser.hasBegun) this.#deadline.end();
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
    if (call !== undefined) call.ended = true;
    // The connection cannot be reused if the upstream responded before the end of the request.
    const sent = this.#socket.writableLength === 0 && writer?.complete !== false && this.#writeFailure === undefined;
    if (call) call.isSent = sent;
    if (clean && sent && this.#format.persistent && !this.#ended) {
      this.#writer = undefined;
      writer?.stop();
      this.#parser.reset();
      this.#pool.release(this, this.#format.keepAliveMs);
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
    else if (!this.#parser.halted && !this.#waits) this.#finish();
    // Node.js has closed our side as well.
    else this.#writer?.stop();
  }

  #finish(): void {
    // After a failed write, the end of the input may be that of a reset connection and does not complete a response.
    if (this.#writeFailure === undefined && this.#parser.finish()) this.#complete(false);
    else this.#failConnection(this.#writeFailure ?? new Error('other side closed'));
  }

  #onClose(): void {
    // A paused handler still receives the pending input.
    if (!this.#ended || !(this.#parser.halted || this.#waits)) this.#failConnection(new Error('closed'));
    this.#pool.remove(this);
  }

  #onConnectTimeout(): void {
    const { address, settings } = this.#pool;
    const { connectTimeoutMs, proxy } = settings;
    if (proxy === undefined || this.#isTunnelOpen) return this.destroy(connectTimeout(address, connectTimeoutMs));
    const what = this.#socket.connecting ? 'accept a connection' : 'answer CONNECT';
    this.destroy(proxyFailure(address, new ProxyError(proxy, `did not ${what} within ${connectTimeoutMs / 1000} s`)));
  }

  #failConnection(cause: Error): void {
    const { address, settings } = this.#pool;
    if (this.#connected) return this.destroy(connectionFailure(address, cause, true));
    this.#pool.target.tlsSession = undefined;
    const proxy = this.#isTunnelOpen ? undefined : settings.proxy;
    this.destroy(proxy ? proxyConnectionFailure(address, proxy, cause) : connectionFailure(address, cause, false));
  }

  /** Closes the connection and fails its call. */
  destroy(error: UpstreamError): void {
    const call = this.#call;
    this.close();
    call?.fail(error);
  }
}
