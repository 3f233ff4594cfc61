import type { ResponseHandler, TransportOptions, UpstreamCall, UpstreamRequest, UpstreamTransport } from './client.ts';
import { Connection, type ConnectionOwner, Http1Call } from './connection.ts';
import { displayAddress, noLongerInUse, unsendable } from './errors.ts';
import { RequestEncoder } from './request-writer.ts';

/** A connection is no longer used for some time before the upstream closes it. */
const KEEP_ALIVE_MARGIN_MS = 1_000;
const MAX_KEEP_ALIVE_MS = 600_000;
/** Minimum interval of the checks for expired connections. */
const MIN_SWEEP_MS = 100;

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
export class ConnectionPool implements UpstreamTransport, ConnectionOwner {
  readonly url: URL;
  readonly address: string;
  readonly connectTimeoutMs: number;
  readonly firstByteTimeoutMs: number | undefined;
  readonly passesRedirects: boolean;
  tlsSession: Buffer | undefined = undefined;
  readonly #keepAliveMs: number;
  readonly #encoder: RequestEncoder;
  readonly #connections = new Set<Connection>();
  /** Used as a stack. Closed connections are removed when they are popped. */
  #idle: Connection[] = [];
  #waiting: Http1Call[] = [];
  #sweeper: NodeJS.Timeout | undefined = undefined;
  #state: 'open' | 'closing' | 'destroyed' = 'open';
  readonly #ended = Promise.withResolvers<void>();
  readonly #onImmediate = () => this.#sendWaiting();

  constructor(url: URL, options: TransportOptions) {
    const { connectTimeoutMs = 5_000, firstByteTimeoutMs, keepAliveMs = 4_000, redirects = 'refuse' } = options;
    this.url = url;
    this.address = displayAddress(url);
    this.connectTimeoutMs = connectTimeoutMs;
    this.firstByteTimeoutMs = firstByteTimeoutMs;
    this.passesRedirects = redirects === 'pass';
    this.#keepAliveMs = keepAliveMs;
    this.#encoder = new RequestEncoder(url);
  }

  /**
   * Requests are sent at the end of the event loop turn, after the sockets were read: a connection that was closed by the
   * upstream, or that received bytes outside of a call, is detected before it is reused.
   */
  dispatch(request: UpstreamRequest, handler: ResponseHandler): UpstreamCall {
    const { body, method } = request;
    const streamed = typeof body === 'object' && !Buffer.isBuffer(body) ? body : undefined;
    const call = new Http1Call(handler, this.#encode(request), streamed, method === 'HEAD');
    if (this.#waiting.push(call) === 1) setImmediate(this.#onImmediate);
    return call;
  }

  close(): Promise<void> {
    if (this.#state === 'open') this.#state = 'closing';
    clearTimeout(this.#sweeper);
    for (const connection of this.#idle.splice(0)) connection.close();
    this.#endIfDone();
    return this.#ended.promise;
  }

  destroy(): Promise<void> {
    this.#state = 'destroyed';
    for (const connection of this.#connections) connection.destroy(noLongerInUse(this.address));
    return this.close();
  }

  release(connection: Connection, announcedMs: number | undefined): void {
    const idleMs =
      announcedMs === undefined ? this.#keepAliveMs : Math.min(announcedMs - KEEP_ALIVE_MARGIN_MS, MAX_KEEP_ALIVE_MS);
    if (this.#state !== 'open' || idleMs <= 0) return connection.close();
    connection.expiresAt = performance.now() + idleMs;
    this.#idle.push(connection);
    this.#sweeper ??= setTimeout(() => this.#sweep(), idleMs).unref();
  }

  forget(connection: Connection): void {
    this.#connections.delete(connection);
    this.#endIfDone();
  }

  #encode(request: UpstreamRequest): Http1Call['request'] {
    if (this.#state !== 'open') return noLongerInUse(this.address);
    try {
      return this.#encoder.encode(request);
    } catch (error) {
      if (error instanceof TypeError) return unsendable(this.address, error);
      throw error;
    }
  }

  #sendWaiting(): void {
    const calls = this.#waiting;
    this.#waiting = [];
    const now = performance.now();
    for (const call of calls) {
      if (call.over) continue;
      if (call.request instanceof Error) call.fail(call.request);
      else if (this.#state === 'destroyed') call.fail(noLongerInUse(this.address));
      else this.#send(call, now);
    }
    this.#endIfDone();
  }

  #send(call: Http1Call, now: number): void {
    for (let idle = this.#idle.pop(); idle !== undefined; idle = this.#idle.pop()) {
      if (idle.closed) continue;
      if (idle.expiresAt > now) return idle.send(call);
      idle.close();
    }
    this.#connections.add(new Connection(this, call));
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
    if (this.#state === 'open' || this.#waiting.length > 0 || this.#connections.size > 0) return;
    this.#ended.resolve();
  }
}
