import type { ResponseHandler, TransportOptions, UpstreamCall, UpstreamRequest, UpstreamTransport } from './client.ts';
import { Connection, type ConnectionOwner, Http1Call } from './connection.ts';
import { displayAddress, noLongerInUse, unsendable } from './errors.ts';
import { RequestEncoder } from './request-writer.ts';

/** An upstream closes an idle connection when its time is over: we stop using it earlier. */
const KEEP_ALIVE_MARGIN_MS = 1_000;
const MAX_KEEP_ALIVE_MS = 600_000;
/** Milliseconds between two searches for connections that have been idle too long, at least. */
const MIN_SWEEP_MS = 100;

/** Makes the transport of one address, an http or https URL. TypeError when it is none. Nothing is sent yet. */
export function createTransport(address: string, options: TransportOptions = {}): UpstreamTransport {
  const url = new URL(address);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new TypeError(`an upstream address must be an http or https URL, not ${url.protocol}`);
  }
  return new Http1Pool(url, options);
}

/**
 * HTTP/1.1 client for one address: as many connections as there are calls under way, the one that was used last first,
 * no pipelining, and nothing is ever sent twice: a call that meets a closing connection may have been carried out.
 */
export class Http1Pool implements UpstreamTransport, ConnectionOwner {
  readonly url: URL;
  readonly address: string;
  readonly connectTimeoutMs: number;
  readonly firstByteTimeoutMs: number | undefined;
  readonly passesRedirects: boolean;
  tlsSession: Buffer | undefined = undefined;
  readonly #keepAliveMs: number;
  readonly #encoder: RequestEncoder;
  readonly #connections = new Set<Connection>();
  /** The last one is taken first. Those that have closed meanwhile stay in it until they are met. */
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
   * The request goes out when the event loop has read what the sockets had to say, together with all others of this
   * turn: an idle connection that was closed meanwhile, or has bytes that nobody asked for and that its next user would
   * take for its answer, is found out before it is used.
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
