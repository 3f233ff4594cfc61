import { InputTurns } from '../input-turns.ts';
import type {
  ResponseHandler,
  TransportOptions,
  TransportSettings,
  UpstreamCall,
  UpstreamRequest,
  UpstreamTransport,
} from './client.ts';
import { Connection, type ConnectionOwner } from './connection.ts';
import { displayAddress, noSocket, transportClosed, UpstreamError } from './errors.ts';
import { Http1Call, type OutgoingRequest } from './http1-call.ts';
import { Redirects } from './redirects.ts';
import { isInParts, RequestEncoder } from './request-writer.ts';
import type { SocketTarget } from './socket.ts';
import type { IdleConnections, UpstreamSockets } from './upstream-sockets.ts';

/** A connection is no longer used for some time before the upstream closes it. */
const KEEP_ALIVE_MARGIN_MS = 1_000;
const MAX_KEEP_ALIVE_MS = 600_000;
const MAX_DECODED_BYTES = 64 * 1024 * 1024;
/** Minimum interval of the checks for expired connections. */
const MIN_SWEEP_MS = 100;
/** Time after which idle connections no longer keep the process alive: under load, they are used again before that. */
const UNREF_MS = 100;
/** Size of the buffer for reads: a body of 64 KiB is read at once. With half the size, bodies of 1 MB cost 25 % more. */
const READ_BYTES = 128 * 1024;
/** Decrypted data arrives in records of at most 16 KiB. */
const TLS_READ_BYTES = 16 * 1024;

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
export class ConnectionPool implements UpstreamTransport, ConnectionOwner, IdleConnections {
  readonly target: SocketTarget;
  readonly address: string;
  readonly settings: TransportSettings;
  /** Shares the time for large responses among connections. */
  readonly turns = new InputTurns();
  readonly redirects: Redirects;
  readonly #isSecure: boolean;
  readonly #encoder: RequestEncoder;
  readonly #sockets: UpstreamSockets | undefined;
  /** Number of calls that wait for a socket. */
  #withoutSocket = 0;
  readonly #connections = new Set<Connection>();
  /** Used as a stack. Closed connections are removed when they are popped. */
  #idle: Connection[] = [];
  #waiting: Http1Call[] = [];
  #sweeper: NodeJS.Timeout | undefined = undefined;
  #unrefTimer: NodeJS.Timeout | undefined = undefined;
  #state: 'open' | 'closing' | 'destroyed' = 'open';
  readonly #ended = Promise.withResolvers<void>();
  #readBuffer: Buffer | undefined = undefined;

  constructor(url: URL, options: TransportOptions) {
    this.target = { url, tlsSession: undefined, tls: options.tls };
    this.address = displayAddress(url);
    const { connectTimeoutMs = 5_000, keepAliveMs = 4_000, maxDecodedBytes = MAX_DECODED_BYTES } = options;
    this.settings = { ...options, connectTimeoutMs, keepAliveMs, maxDecodedBytes };
    this.#isSecure = url.protocol === 'https:' || options.proxy?.url.protocol === 'https:';
    this.#encoder = new RequestEncoder(url, options);
    this.redirects = new Redirects(this, (call, path) => this.#resend(call, path));
    this.#sockets = options.sockets;
    this.#sockets?.add(this);
  }

  /**
   * Requests are sent at the end of the event loop turn, after the sockets were read: a connection that was closed by the
   * upstream, or that received bytes outside of a call, is detected before it is reused.
   */
  dispatch(request: UpstreamRequest, handler: ResponseHandler): UpstreamCall {
    const isOpen = this.#state === 'open';
    const call = new Http1Call(handler, isOpen ? this.#encode(request) : transportClosed(this.address));
    if (this.#waiting.push(call) === 1) setImmediate(this.#sendWaiting);
    return call;
  }

  #encode(source: UpstreamRequest): OutgoingRequest | UpstreamError {
    const { body, path = this.redirects.path ?? this.#encoder.path } = source;
    const streamed = typeof body === 'object' && !Buffer.isBuffer(body) && !isInParts(body) ? body : undefined;
    try {
      return { source, path, encoded: this.#encoder.encode(source, path), streamed };
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      const what = `cannot receive this request: ${error.message}`;
      return new UpstreamError('invalid', this.address, what, { cause: error });
    }
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
    this.redirects.close();
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
      announcedMs === undefined
        ? this.settings.keepAliveMs
        : Math.min(announcedMs - KEEP_ALIVE_MARGIN_MS, MAX_KEEP_ALIVE_MS);
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

  readonly #sendWaiting = (): void => {
    const calls = this.#waiting;
    this.#waiting = [];
    const now = performance.now();
    for (const call of calls) {
      if (call.ended) continue;
      call.sentAt = now;
      this.#sendOrFail(call, now);
    }
    this.#endIfDone();
  };

  /** Sends a request that was redirected. */
  #resend(call: Http1Call, path: string): void {
    if (!(call.request instanceof Error)) call.request = this.#encode({ ...call.request.source, path });
    this.#sendOrFail(call, performance.now());
  }

  #sendOrFail(call: Http1Call, now: number): void {
    if (call.request instanceof Error) call.fail(call.request);
    else if (this.#state === 'destroyed') call.fail(transportClosed(this.address));
    else this.#send(call, now);
  }

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
    const onWaited = (hasSocket: boolean) => {
      this.#withoutSocket--;
      const isDestroyed = this.#state === 'destroyed';
      if (hasSocket && !isDestroyed && !call.ended) this.#connections.add(new Connection(this, call));
      else {
        if (hasSocket) sockets?.release();
        if (!call.ended) call.fail(isDestroyed ? transportClosed(this.address) : noSocket(this.address));
      }
      this.#endIfDone();
    };
    if (!sockets || sockets.take(onWaited)) this.#connections.add(new Connection(this, call));
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
