import { InputTurns } from '../input-turns.ts';
import type {
  ResponseHandler,
  ResponseHeaders,
  TransportOptions,
  TransportSettings,
  UpstreamCall,
  UpstreamRequest,
  UpstreamTransport,
} from './client.ts';
import { Connection, type ConnectionOwner } from './connection.ts';
import { displayAddress, noSocket, transportClosed, UpstreamError } from './errors.ts';
import { Http1Call } from './http1-call.ts';
import { followedRedirect } from './redirects.ts';
import { RequestEncoder } from './request-writer.ts';
import type { IdleConnections, UpstreamSockets } from './upstream-sockets.ts';

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
  readonly url: URL;
  readonly address: string;
  readonly settings: TransportSettings;
  tlsSession: Buffer | undefined = undefined;
  /** Shares the time for large responses among connections. */
  readonly turns = new InputTurns();
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
  #redirectTimer: NodeJS.Timeout | undefined = undefined;
  #state: 'open' | 'closing' | 'destroyed' = 'open';
  readonly #ended = Promise.withResolvers<void>();
  #readBuffer: Buffer | undefined = undefined;

  constructor(url: URL, options: TransportOptions) {
    this.url = url;
    this.address = displayAddress(url);
    const { connectTimeoutMs = 5_000, keepAliveMs = 4_000, maxDecodedBytes = MAX_DECODED_BYTES } = options;
    this.settings = { ...options, connectTimeoutMs, keepAliveMs, maxDecodedBytes };
    this.#isSecure = url.protocol === 'https:' || options.proxy?.url.protocol === 'https:';
    this.#encoder = new RequestEncoder(url, options.defaultHeaders, options.proxy);
    this.#sockets = options.sockets;
    this.#sockets?.add(this);
  }

  /**
   * Requests are sent at the end of the event loop turn, after the sockets were read: a connection that was closed by the
   * upstream, or that received bytes outside of a call, is detected before it is reused.
   */
  dispatch(request: UpstreamRequest, handler: ResponseHandler): UpstreamCall {
    let encoded: Http1Call['request'];
    try {
      encoded = this.#state === 'open' ? this.#encoder.encode(request) : transportClosed(this.address);
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      const what = `cannot receive this request: ${error.message}`;
      encoded = new UpstreamError('invalid', this.address, what, { cause: error });
    }
    const call = new Http1Call(handler, encoded, request, request.path ?? this.#encoder.path);
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

  /**
   * Follows a redirect of a call whose connection is closed. It counts towards the time for connecting: the request has not
   * reached the upstream that handles it.
   */
  redirect(call: Http1Call, status: number, headers: ResponseHeaders): void {
    const { address, settings } = this;
    const target = followedRedirect(this, call, { status, location: headers.location });
    if (target instanceof Error) return call.fail(target);
    const now = performance.now();
    if (this.#state === 'destroyed') return call.fail(transportClosed(address));
    if (this.connectTimeLeft(call, now) <= 0) {
      const what = `redirected for more than ${settings.connectTimeoutMs / 1000} s`;
      return call.fail(new UpstreamError('refused', address, what, { remedy: 'register the target address' }));
    }
    settings.onRedirect?.(status, target);
    call.redirects++;
    call.path = pathOf(target);
    call.request = this.#encoder.encode({ ...call.source, path: call.path });
    this.#send(call, now);
  }

  /** Sends requests to the target of this one, which was redirected and has succeeded. */
  rememberRedirect({ path }: Http1Call): void {
    if (this.#state !== 'open') return;
    clearTimeout(this.#redirectTimer);
    this.#encoder.path = path;
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
    const { connectTimeoutMs } = this.settings;
    return redirects === 0 ? connectTimeoutMs : sentAt + connectTimeoutMs - now;
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

function pathOf({ pathname, search }: URL): string {
  return pathname + search;
}
