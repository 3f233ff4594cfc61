/**
 * The upstream leg's HTTP client as the rest of the gateway sees it. `undici` stands behind it today; a faster client
 * may take its place once it is as safe (architecture, "Speed").
 */

import { type Dispatcher, errors, Pool } from 'undici';
import { displayAddress, UpstreamError } from './upstream-error.ts';

/** Header values by lower-case name; several lines of one name are an array. */
export type ResponseHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** Header names and values as they came, alternating. */
export type RawHeaders = readonly (Buffer | string)[];

/** One request. `headers` alternates names and values, without `host` and `content-length`, which are made here. */
export interface UpstreamRequest {
  readonly method: 'POST' | 'GET' | 'DELETE';
  /** Path and query to use in place of the address's own. */
  readonly path?: string;
  readonly headers: string[];
  readonly body?: string | Buffer;
}

/**
 * What a request calls back: at most one `onHead`, any number of `onData`, then exactly one of `onEnd` and `onError`,
 * none of them before `dispatch` has returned and none after `abort`. They must not throw.
 */
export interface ResponseHandler {
  /** The answer's head; never an interim (1xx) or redirect status. */
  onHead(status: number, headers: ResponseHeaders, raw: RawHeaders): void;
  /** A piece of the body, which the handler may keep. False: send no more until `resume`. */
  onData(chunk: Buffer): boolean;
  onEnd(): void;
  onError(error: UpstreamError): void;
}

/** A request under way. */
export interface UpstreamCall {
  /** Ends the request and its connection, without calling back; nothing happens when it is over already. */
  abort(): void;
  /** Lets the body flow again after an `onData` that returned false. Not to be called from inside a callback. */
  resume(): void;
}

/** All connections to one upstream address. */
export interface UpstreamTransport {
  /** The address as it may be shown: without credentials and query. */
  readonly address: string;
  /** Sends one request on a connection that is idle, or on a new one when all are busy. */
  dispatch(request: UpstreamRequest, handler: ResponseHandler): UpstreamCall;
  /** Takes no more requests and resolves when those under way have ended. */
  close(): Promise<void>;
  /** Ends requests under way with an `aborted` error. */
  destroy(): Promise<void>;
}

export interface TransportOptions {
  /** Milliseconds to connect in, TLS included (default 5000, decisions 8). */
  readonly connectTimeoutMs?: number;
  /**
   * Milliseconds an idle connection is kept when the upstream announces no time of its own (default 4000). Common
   * servers close after 5 s without saying so, and a call that meets the closing end cannot be repeated. An announced
   * time is used less one second, up to ten minutes.
   */
  readonly keepAliveMs?: number;
}

/** Makes the transport of one address, an http or https URL. TypeError when it is none. Nothing is sent yet. */
export function createTransport(address: string, options: TransportOptions = {}): UpstreamTransport {
  return new UndiciTransport(new URL(address), options);
}

class UndiciTransport implements UpstreamTransport {
  readonly address: string;
  readonly #pool: Pool;
  readonly #path: string;
  readonly #connectTimeoutMs: number;

  constructor(url: URL, { connectTimeoutMs = 5_000, keepAliveMs = 4_000 }: TransportOptions) {
    if (url.protocol !== 'http:' && url.protocol !== 'https:') {
      throw new TypeError(`an upstream address must be an http or https URL, not ${url.protocol}`);
    }
    this.address = displayAddress(url);
    this.#path = url.pathname + url.search;
    this.#connectTimeoutMs = connectTimeoutMs;
    this.#pool = new Pool(url.origin, {
      connections: null,
      pipelining: 1,
      allowH2: false,
      connect: { timeout: connectTimeoutMs },
      keepAliveTimeout: keepAliveMs,
      keepAliveMaxTimeout: 600_000,
      keepAliveTimeoutThreshold: 1_000,
      // Deadlines are the caller's, per call: silence, progress and total time are told apart there (mcp 4).
      headersTimeout: 0,
      bodyTimeout: 0,
    });
  }

  dispatch(request: UpstreamRequest, handler: ResponseHandler): UpstreamCall {
    const call = new UndiciCall(this.address, this.#connectTimeoutMs, handler);
    const { body, path } = request;
    this.#pool.dispatch(
      {
        path: path === undefined ? this.#path : path,
        method: request.method,
        headers: request.headers,
        body: body === undefined ? null : body,
      },
      call,
    );
    call.dispatched = true;
    return call;
  }

  async close(): Promise<void> {
    if (!this.#pool.destroyed) await this.#pool.close();
  }

  async destroy(): Promise<void> {
    await this.#pool.destroy();
  }
}

/** One request: undici's handler and our handle in one object of fixed shape. */
class UndiciCall implements Dispatcher.DispatchHandler, UpstreamCall {
  /** Set when `dispatch` returns: errors that undici finds before that are told afterwards. */
  dispatched = false;
  readonly #address: string;
  readonly #connectTimeoutMs: number;
  readonly #handler: ResponseHandler;
  #controller: Dispatcher.DispatchController | undefined = undefined;
  #over = false;

  constructor(address: string, connectTimeoutMs: number, handler: ResponseHandler) {
    this.#address = address;
    this.#connectTimeoutMs = connectTimeoutMs;
    this.#handler = handler;
  }

  abort(): void {
    if (this.#over) return;
    this.#over = true;
    // Without a controller the request still waits for its connection: it is ended when that comes about.
    this.#controller?.abort(new errors.RequestAbortedError());
  }

  resume(): void {
    if (!this.#over) this.#controller?.resume();
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#over) controller.abort(new errors.RequestAbortedError());
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: ResponseHeaders): void {
    if (status < 200 || this.#over) return;
    if (status >= 300 && status < 400 && status !== 304) {
      this.#over = true;
      controller.abort(new errors.RequestAbortedError());
      this.#handler.onError(redirected(this.#address, status, headers.location));
      return;
    }
    const raw = controller.rawHeaders;
    this.#handler.onHead(status, headers, Array.isArray(raw) ? raw : []);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (!this.#over && !this.#handler.onData(chunk)) controller.pause();
  }

  onResponseEnd(): void {
    if (this.#over) return;
    this.#over = true;
    this.#handler.onEnd();
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, cause: Error): void {
    if (this.#over) return;
    if (!this.dispatched) {
      queueMicrotask(() => this.onResponseError(null, cause));
      return;
    }
    this.#over = true;
    this.#handler.onError(failure(this.#address, cause, this.#controller !== undefined, this.#connectTimeoutMs));
  }
}

function redirected(address: string, status: number, location: string | string[] | undefined): UpstreamError {
  const target =
    typeof location === 'string' && URL.canParse(location, address) ? new URL(location, address) : undefined;
  const where = target === undefined ? 'without saying where to' : `to ${target.origin}`;
  return new UpstreamError(
    'redirect',
    address,
    `redirects ${where} (HTTP ${status}), which is not followed: register the address it means`,
    { status },
  );
}

/** Sorts what undici reports by what it means to us. `started` tells whether anything may have been sent. */
function failure(address: string, cause: Error, started: boolean, connectTimeoutMs: number): UpstreamError {
  const code = 'code' in cause && typeof cause.code === 'string' ? cause.code : cause.name;
  switch (code) {
    case 'UND_ERR_ABORTED':
    case 'UND_ERR_DESTROYED':
    case 'UND_ERR_CLOSED':
      return new UpstreamError('aborted', address, 'is no longer in use: the request was ended', { cause });
    case 'UND_ERR_INVALID_ARG':
    case 'UND_ERR_NOT_SUPPORTED':
    case 'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH':
      return new UpstreamError('invalid', address, `cannot be sent this request: ${cause.message}`, { cause });
    case 'UND_ERR_HEADERS_OVERFLOW':
      return new UpstreamError('too-large', address, 'answered with more header bytes than are accepted', { cause });
    case 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH':
      return new UpstreamError('dropped', address, 'ended the answer before its announced length', { cause });
    case 'UND_ERR_CONNECT_TIMEOUT':
    case 'ETIMEDOUT':
      if (started) break;
      return new UpstreamError('refused', address, `accepted no connection within ${connectTimeoutMs / 1000} s`, {
        cause,
      });
    case 'ECONNREFUSED':
      return new UpstreamError('refused', address, 'refused the connection (ECONNREFUSED)', { cause });
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return new UpstreamError('refused', address, `has a host name that cannot be resolved (${code})`, { cause });
  }
  if (cause.name === 'HTTPParserError') {
    return new UpstreamError('invalid', address, 'did not answer in HTTP/1.1', { cause });
  }
  if (!started) {
    return new UpstreamError('refused', address, `could not be connected to (${code}: ${cause.message})`, { cause });
  }
  return new UpstreamError('dropped', address, `closed the connection before the answer was complete (${code})`, {
    cause,
  });
}
