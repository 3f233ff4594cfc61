import type { Socket } from 'node:net';
import { InputTurns, LARGE_INPUT_BYTES } from '../input-turns.ts';
import { copyOf, MalformedMessage } from '../message-parser.ts';
import type {
  RawHeaders,
  ResponseHandler,
  ResponseHeaders,
  StreamedBody,
  TransportOptions,
  UpstreamCall,
  UpstreamRequest,
  UpstreamTransport,
} from './client.ts';
import { codingsOf } from './content-coding.ts';
import { DecodedResponse, type ResponseInput } from './decoded-response.ts';
import { type EgressProxy, ProxyError } from './egress-proxies.ts';
import {
  bodyFailure,
  connectionFailure,
  connectTimeout,
  displayAddress,
  encodingFailure,
  noSocket,
  proxyConnectionFailure,
  proxyFailure,
  redirectTimeout,
  responseTimeout,
  transportClosed,
  type UpstreamError,
} from './errors.ts';
import { followedRedirect, isLasting, isRedirect } from './redirects.ts';
import {
  BodyWriter,
  type EncodedRequest,
  isInParts,
  RequestEncoder,
  ResponseDeadline,
  targetOf,
} from './request-writer.ts';
import { ResponseParser, type ResponseSink } from './response-parser.ts';
import { connectEvent, openSocket, openTlsInTunnel, readPastFailedWrites, type SocketTarget } from './socket.ts';
import { credentialsRejected, openTunnel } from './tunnel.ts';
import type { IdleConnections, SocketRequest, UpstreamSockets } from './upstream-sockets.ts';

/** A connection is no longer used for some time before the upstream closes it. */
const KEEP_ALIVE_MARGIN_MS = 1_000;
const MAX_KEEP_ALIVE_MS = 600_000;
/** Time for which requests are sent to the target of a redirect. */
const REDIRECT_MS = 3_600_000;
const MAX_DECODED_BYTES = 64 * 1024 * 1024;
/** Minimum interval of the checks for expired connections. */
const MIN_SWEEP_MS = 100;
/** Time after which idle connections no longer keep the process alive: under load, they are used again before that. */
const UNREF_MS = 100;

/** Creates the transport of an http or https URL; does not connect yet. Throws TypeError for an invalid URL. */
export function createTransport(address: string, options: TransportOptions = {}): UpstreamTransport {
  const url = new URL(address);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new TypeError(`invalid upstream address: expected an http or https URL, not ${url.protocol}`);
  }
  return new ConnectionPool(url, options);
}

/**
 * Connection pool of one address: one connection per in-flight call, the most recently used first. No pipelining and no
 * retries: a call that meets a closing connection may have been executed.
 */
export class ConnectionPool implements UpstreamTransport, SocketTarget, IdleConnections {
  readonly url: URL;
  readonly address: string;
  readonly connectTimeoutMs: number;
  readonly firstByteTimeoutMs: number | undefined;
  readonly passesRedirects: boolean;
  readonly passesCodings: boolean;
  readonly maxDecodedBytes: number;
  readonly proxy: EgressProxy | undefined;
  tlsSession: Buffer | undefined = undefined;
  /** Shares the time for large responses among connections. */
  readonly turns = new InputTurns();
  readonly #isSecure: boolean;
  readonly #keepAliveMs: number;
  readonly #encoder: RequestEncoder;
  readonly #sockets: UpstreamSockets | undefined;
  readonly #onRedirect: TransportOptions['onRedirect'];
  /** Number of calls that wait for a socket. */
  #withoutSocket = 0;
  readonly #connections = new Set<Connection>();
  /** Used as a stack. Closed connections are removed when they are popped. */
  #idle: Connection[] = [];
  #waiting: Http1Call[] = [];
  #sweeper: NodeJS.Timeout | undefined = undefined;
  #unrefTimer: NodeJS.Timeout | undefined = undefined;
  #redirectTimer: NodeJS.Timeout | undefined = undefined;
  #state: 'open' | 'closing' | 'destroyed' = 'open';
  readonly #ended = Promise.withResolvers<void>();
  #readBuffer: Buffer | undefined = undefined;

  constructor(url: URL, options: TransportOptions) {
    const { connectTimeoutMs = 5_000, firstByteTimeoutMs, keepAliveMs = 4_000, redirects = 'follow' } = options;
    this.url = url;
    this.address = displayAddress(url);
    this.connectTimeoutMs = connectTimeoutMs;
    this.firstByteTimeoutMs = firstByteTimeoutMs;
    this.passesRedirects = redirects === 'pass';
    this.passesCodings = options.codings === 'pass';
    this.maxDecodedBytes = options.maxDecodedBytes ?? MAX_DECODED_BYTES;
    this.proxy = options.proxy;
    this.#isSecure = url.protocol === 'https:' || options.proxy?.url.protocol === 'https:';
    this.#keepAliveMs = keepAliveMs;
    this.#encoder = new RequestEncoder(url, options.defaultHeaders, options.proxy);
    this.#sockets = options.sockets;
    this.#onRedirect = options.onRedirect;
    this.#sockets?.add(this);
  }

  /**
   * Requests are sent at the end of the event loop turn, after the sockets were read: a connection that was closed by the
   * upstream, or that received bytes outside of a call, is detected before it is reused.
   */
  dispatch(request: UpstreamRequest, handler: ResponseHandler): UpstreamCall {
    const { body, method } = request;
    const streamed = typeof body === 'object' && !Buffer.isBuffer(body) && !isInParts(body) ? body : undefined;
    let encoded: Http1Call['request'];
    try {
      encoded = this.#state === 'open' ? this.#encoder.encode(request) : transportClosed(this.address);
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      encoded = encodingFailure(this.address, error);
    }
    const call = new Http1Call(handler, encoded, streamed, method === 'HEAD');
    if (this.#waiting.push(call) === 1) setImmediate(this.#sendWaiting);
    return call;
  }

  /**
   * Buffer for the reads of a connection. What was read is parsed before anything else is read, so that connections share one. Not
   * with TLS, where a write to one socket may deliver data that another has decrypted.
   */
  get readBuffer(): Buffer {
    if (this.#isSecure) return Buffer.allocUnsafeSlow(TLS_READ_BYTES);
    this.#readBuffer ??= Buffer.allocUnsafeSlow(READ_BYTES);
    return this.#readBuffer;
  }

  close(): Promise<void> {
    if (this.#state === 'open') this.#state = 'closing';
    clearTimeout(this.#sweeper);
    clearTimeout(this.#unrefTimer);
    this.#sockets?.remove(this);
    this.forgetRedirect();
    for (const connection of this.#idle.splice(0)) connection.close();
    this.#endIfDone();
    return this.#ended.promise;
  }

  destroy(): Promise<void> {
    this.#state = 'destroyed';
    for (const connection of this.#connections) connection.destroy(transportClosed(this.address));
    return this.close();
  }

  /** Returns an idle connection to the pool; `announcedMs` is the timeout that the upstream announced. */
  release(connection: Connection, announcedMs: number | undefined): void {
    const idleMs =
      announcedMs === undefined ? this.#keepAliveMs : Math.min(announcedMs - KEEP_ALIVE_MARGIN_MS, MAX_KEEP_ALIVE_MS);
    if (this.#state !== 'open' || idleMs <= 0 || this.#sockets?.areScarce === true) return connection.close();
    connection.expiresAt = performance.now() + idleMs;
    this.#idle.push(connection);
    this.#sweeper ??= setTimeout(() => this.#sweep(), idleMs).unref();
    this.#unrefTimer ??= setTimeout(() => {
      this.#unrefTimer = undefined;
      for (const idle of this.#idle) idle.unref();
    }, UNREF_MS).unref();
  }

  /** Removes a closed connection. */
  remove(connection: Connection): void {
    this.#connections.delete(connection);
    this.#sockets?.release();
    this.#endIfDone();
  }

  closeIdle(): boolean {
    // The one that was idle for longest.
    for (let idle = this.#idle.shift(); idle !== undefined; idle = this.#idle.shift()) {
      if (idle.closed) continue;
      idle.close();
      return true;
    }
    return false;
  }

  /**
   * Follows a redirect of a call whose connection is closed. It counts towards the time for connecting: the request has not
   * reached the upstream that handles it.
   */
  redirect(call: Http1Call, status: number, headers: ResponseHeaders): void {
    const { address, url, connectTimeoutMs } = this;
    const { request, redirects: count, streamed } = call;
    if (request instanceof Error) return;
    const redirected = { address, url: new URL(targetOf(request), url), count, isRepeatable: streamed === undefined };
    const target = followedRedirect(redirected, status, headers);
    if (target instanceof Error) return call.fail(target);
    const now = performance.now();
    if (this.#state === 'destroyed') return call.fail(transportClosed(address));
    if (this.connectTimeLeft(call, now) <= 0) return call.fail(redirectTimeout(address, connectTimeoutMs));
    this.#onRedirect?.(status, target);
    call.redirects++;
    call.request = this.#encoder.redirect(request, pathOf(target));
    this.#send(call, now);
  }

  /** Sends requests to the target of this one, which was redirected and has succeeded. */
  rememberRedirect({ request }: Http1Call): void {
    if (request instanceof Error || this.#state !== 'open') return;
    clearTimeout(this.#redirectTimer);
    this.#encoder.path = pathOf(new URL(targetOf(request), this.url));
    this.#redirectTimer = setTimeout(() => this.forgetRedirect(), REDIRECT_MS).unref();
  }

  /** Sends requests to the original address again. */
  forgetRedirect(): void {
    if (this.#redirectTimer === undefined) return;
    clearTimeout(this.#redirectTimer);
    this.#redirectTimer = undefined;
    this.#encoder.path = pathOf(this.url);
  }

  /** Milliseconds in which a call must be connected. */
  connectTimeLeft({ redirects, sentAt }: Http1Call, now: number): number {
    return redirects === 0 ? this.connectTimeoutMs : sentAt + this.connectTimeoutMs - now;
  }

  readonly #sendWaiting = (): void => {
    const calls = this.#waiting;
    this.#waiting = [];
    const now = performance.now();
    for (const call of calls) {
      if (call.ended) continue;
      if (call.request instanceof Error) call.fail(call.request);
      else if (this.#state === 'destroyed') call.fail(transportClosed(this.address));
      else {
        call.sentAt = now;
        this.#send(call, now);
      }
    }
    this.#endIfDone();
  };

  #send(call: Http1Call, now: number): void {
    for (let idle = this.#idle.pop(); idle !== undefined; idle = this.#idle.pop()) {
      if (idle.closed) continue;
      if (idle.expiresAt > now) return idle.send(call);
      idle.close();
    }
    this.#connect(call);
  }

  #connect(call: Http1Call): void {
    const sockets = this.#sockets;
    const waiting: SocketRequest = {
      onSocket: () => {
        this.#withoutSocket--;
        if (call.ended || this.#state === 'destroyed') sockets?.release();
        else this.#connections.add(new Connection(this, call));
        if (!call.ended && this.#state === 'destroyed') call.fail(transportClosed(this.address));
        this.#endIfDone();
      },
      onNoSocket: () => {
        this.#withoutSocket--;
        if (!call.ended)
          call.fail(this.#state === 'destroyed' ? transportClosed(this.address) : noSocket(this.address));
        this.#endIfDone();
      },
    };
    if (!sockets || sockets.take(waiting)) this.#connections.add(new Connection(this, call));
    else this.#withoutSocket++;
  }

  #sweep(): void {
    const now = performance.now();
    let next = Number.POSITIVE_INFINITY;
    this.#idle = this.#idle.filter((connection) => {
      if (connection.expiresAt <= now) connection.close();
      else if (!connection.closed) next = Math.min(next, connection.expiresAt);
      return !connection.closed;
    });
    this.#sweeper = undefined;
    if (this.#idle.length === 0) return;
    this.#sweeper = setTimeout(() => this.#sweep(), Math.max(next - now, MIN_SWEEP_MS)).unref();
  }

  #endIfDone(): void {
    if (this.#state === 'open' || this.#waiting.length > 0 || this.#connections.size > 0 || this.#withoutSocket > 0)
      return;
    this.#ended.resolve();
  }
}

function pathOf({ pathname, search }: URL): string {
  return pathname + search;
}

/** An in-flight request. */
class Http1Call implements UpstreamCall, ResponseInput {
  /** Replaced at the head of a response that has to be decoded. */
  handler: ResponseHandler;
  /** Encoded request, only its head if the body is streamed; or the error that encoding failed with. */
  request: EncodedRequest | UpstreamError;
  /** Body that follows the head. */
  readonly streamed: StreamedBody | undefined;
  /** True for HEAD: the response has no body, regardless of its head. */
  readonly headOnly: boolean;
  /** Undefined until the request is sent. */
  connection: Connection | undefined = undefined;
  /** Set before the last callback; no callback follows. */
  ended = false;
  /** Known at the end of the call. */
  isSent = false;
  /** When it was first sent, in milliseconds of `performance.now()`. */
  sentAt = 0;
  /** Number of redirects that were followed. */
  redirects = 0;
  /** Handler of a response with content codings; may be busy after the end of the call. */
  #decoded: DecodedResponse | undefined = undefined;

  constructor(
    handler: ResponseHandler,
    request: EncodedRequest | UpstreamError,
    streamed: StreamedBody | undefined,
    headOnly: boolean,
  ) {
    this.handler = handler;
    this.request = request;
    this.streamed = streamed;
    this.headOnly = headOnly;
  }

  abort(): void {
    this.#decoded?.abort();
    this.abortInput();
  }

  resume(): void {
    if (this.#decoded) this.#decoded.resume();
    else this.resumeInput();
  }

  abortInput(): void {
    if (this.ended) return;
    this.ended = true;
    this.connection?.close();
  }

  resumeInput(): void {
    if (!this.ended) this.connection?.resume();
  }

  /** Decodes the body of the response. */
  decode(codings: readonly string[], { address, maxDecodedBytes }: ConnectionPool): void {
    this.#decoded = new DecodedResponse(this.handler, { address, codings, maxBytes: maxDecodedBytes, input: this });
    this.handler = this.#decoded;
  }

  /** Must not be called after the end of the call. */
  fail(error: UpstreamError): void {
    this.ended = true;
    this.handler.onError(error);
  }
}

/** Size of the buffer for reads: a body of 64 KiB is read at once. With half the size, bodies of 1 MB cost 25 % more. */
const READ_BYTES = 128 * 1024;
/** Decrypted data arrives in records of at most 16 KiB. */
const TLS_READ_BYTES = 16 * 1024;

/**
 * One connection: carries one call at a time. Reads into a buffer, bypassing the streams of Node.js (`onread`), parses in place
 * and copies body chunks for the handler, unless it takes the whole body from there.
 */
class Connection implements ResponseSink {
  /** End of its idle time (`performance.now()`); managed by the pool. */
  expiresAt = 0;
  /** It cannot carry further calls. */
  closed = false;
  readonly #pool: ConnectionPool;
  /** First the tunnel, if there is one, then TLS in it. */
  #socket: Socket;
  #isTunnelOpen = false;
  readonly #parser: ResponseParser;
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
  constructor(pool: ConnectionPool, call: Http1Call) {
    this.#pool = pool;
    this.#buffer = pool.readBuffer;
    this.#parser = new ResponseParser(this);
    this.#call = call;
    call.connection = this;
    const timeLeftMs = pool.connectTimeLeft(call, performance.now());
    this.#connectTimer = setTimeout(() => this.#onConnectTimeout(), timeLeftMs);
    const { proxy, url } = pool;
    if (proxy === undefined) {
      this.#socket = this.#use(openSocket(pool, this.#onread), url);
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
    const pool = this.#pool;
    const onOpen = () => {
      tunnel.off('close', onClose);
      this.#isTunnelOpen = true;
      this.#socket = this.#use(openTlsInTunnel(pool, tunnel, this.#onread), pool.url);
    };
    const tunnel = openTunnel(pool.url, proxy, onOpen, (error) => this.#fail(proxyFailure(pool.address, error)));
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

  /** Closes the connection and fails its call. */
  destroy(error: UpstreamError): void {
    this.#fail(error);
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

  onHead(status: number, headers: ResponseHeaders, raw: RawHeaders, reason: string): void {
    const call = this.#call;
    if (call === undefined) return;
    if (status >= 300) {
      if (this.#isHandledHere(call, status, headers)) return;
    } else if (call.redirects > 0 && isLasting(headers)) {
      this.#pool.rememberRedirect(call);
    }
    if (headers['content-encoding'] !== undefined && !this.#pool.passesCodings) {
      const codings = codingsOf(headers['content-encoding']);
      if (codings) call.decode(codings, this.#pool);
    }
    this.#isBodyNew = true;
    call.handler.onHead(status, headers, raw, reason);
  }

  /** Handles redirects that are not passed on, and the rejection of a proxy; the handler of the call does not get them. */
  #isHandledHere(call: Http1Call, status: number, headers: ResponseHeaders): boolean {
    const { address, passesRedirects, proxy } = this.#pool;
    if (status === 407 && proxy !== undefined && !this.#isTunnelOpen) {
      this.#fail(proxyFailure(address, credentialsRejected(proxy)));
      return true;
    }
    if (status === 404) this.#pool.forgetRedirect();
    if (passesRedirects || !isRedirect(status)) return false;
    // The next request may use another connection before the body of this response has arrived.
    this.close();
    this.#pool.redirect(call, status, headers);
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

  #write({ request, streamed, headOnly }: Http1Call): void {
    const { firstByteTimeoutMs } = this.#pool;
    this.#parser.headOnly = headOnly;
    if (firstByteTimeoutMs !== undefined) this.#deadline = this.#startDeadline(firstByteTimeoutMs);
    if (streamed !== undefined) return this.#stream(request, streamed);
    if (typeof request === 'string') this.#socket.write(request, 'latin1');
    else if (Buffer.isBuffer(request)) this.#socket.write(request);
    else if (!(request instanceof Error)) writeParts(this.#socket, request);
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
      this.#fail(bodyFailure(this.#pool.address, how));
    });
    // The first chunk of the body is sent with the head.
    socket.cork();
    socket.write(head, 'latin1');
    this.#writer.start();
    process.nextTick(() => socket.uncork());
  }

  #startDeadline(milliseconds: number): ResponseDeadline {
    return new ResponseDeadline(milliseconds, () => this.#fail(responseTimeout(this.#pool.address, milliseconds)));
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
    if (clean && sent && this.#parser.persistent && !this.#ended) {
      this.#writer = undefined;
      writer?.stop();
      this.#parser.reset();
      this.#pool.release(this, this.#parser.keepAliveMs);
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
    const { address, connectTimeoutMs, proxy } = this.#pool;
    if (proxy === undefined || this.#isTunnelOpen) return this.#fail(connectTimeout(address, connectTimeoutMs));
    const what = this.#socket.connecting ? 'accept a connection' : 'answer CONNECT';
    this.#fail(proxyFailure(address, new ProxyError(proxy, `did not ${what} within ${connectTimeoutMs / 1000} s`)));
  }

  #failConnection(cause: Error): void {
    const { address, proxy } = this.#pool;
    if (this.#connected) return this.#fail(connectionFailure(address, cause, true));
    this.#pool.tlsSession = undefined;
    const isProxyAtFault = proxy !== undefined && !this.#isTunnelOpen;
    this.#fail(
      isProxyAtFault ? proxyConnectionFailure(address, proxy, cause) : connectionFailure(address, cause, false),
    );
  }

  #fail(error: UpstreamError): void {
    const call = this.#call;
    this.close();
    call?.fail(error);
  }
}

function writeParts(socket: Socket, parts: readonly Buffer[]): void {
  socket.cork();
  for (const part of parts) socket.write(part);
  socket.uncork();
}
