/**
 * Interface of the HTTP/1.1 client for upstreams. The client is our own: relaying a call of 500 bytes takes 17 to 25 % less
 * CPU time than with `undici`. It does not rename headers or remove hop-by-hop headers.
 */

import type { ConnectionOptions } from 'node:tls';
import { endpointOf, formatAddress } from '../address.ts';
import type { EgressProxy } from './egress-proxies.ts';
import type { UpstreamError } from './errors.ts';
import type { UpstreamSockets } from './upstream-sockets.ts';

/** Header values by lower-case name; several lines of one name are an array. */
export type ResponseHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** All header lines in order: names and values, alternating, in their original case, decoded as latin1. */
export type RawHeaders = readonly string[];

/**
 * One request. `headers` are names and values, alternating. Headers that frame the message or control the connection are
 * rejected; the client sets `host`, `content-length` and `connection`.
 */
export interface UpstreamRequest {
  /** Any method except CONNECT; case-sensitive. */
  readonly method: string;
  /** Path and query that replace those of the upstream address; begins with a slash, sent unchanged. */
  readonly path?: string;
  readonly headers: readonly string[];
  /** An array is a body in parts. */
  readonly body?: string | Buffer | readonly Buffer[] | StreamedBody;
  /** True if the body is a text that is known to be ASCII. */
  readonly isAscii?: boolean | undefined;
}

/**
 * A request body that is sent as it is produced. Started once, when there is a connection. It then ends in exactly one way:
 * the body calls `end` or `fail`, or the client calls `stop`.
 */
export interface StreamedBody {
  /** Length in bytes; if undefined, the body is sent with chunked encoding. */
  readonly length: number | undefined;
  /** Starts writing to the sink, immediately or later. */
  start(sink: BodySink): void;
  /** Resumes writing after a `write` that returned false. */
  resume(): void;
  /**
   * Stops the body: the upstream responded before its end, or the request failed or was aborted. May be called from inside
   * `write`.
   */
  stop(): void;
}

/** Receives a {@link StreamedBody}. Calls after its end are ignored. */
export interface BodySink {
  /**
   * Sends a chunk, which must not be modified afterwards. False: wait for `resume`. A chunk beyond the declared length fails
   * the request; `onError` is called before this returns.
   */
  write(chunk: Buffer): boolean;
  /** Completes the body. If it is shorter than its declared length, the request fails. */
  end(): void;
  /** Aborts the request and its connection because the rest is missing; `onError` is called before this returns. */
  fail(): void;
}

/**
 * Receives a response: at most one `onHead`, any number of `onData` or one `onWholeBody`, then exactly one of `onEnd` and
 * `onError`; none before `dispatch` has returned and none after `abort`. The methods must not throw.
 */
export interface ResponseHandler {
  /**
   * Head of the response; not called for interim responses (1xx), and for redirects only if the transport passes them. The
   * target of a redirect is in the time limit for connecting.
   * `reason` is the reason phrase, which may be empty.
   */
  onHead(status: number, headers: ResponseHeaders, raw: RawHeaders, reason: string): void;
  /** Chunk of the body, owned by the handler. Returns false to pause until `resume`. */
  onData(chunk: Buffer): boolean;
  /**
   * May be called instead of `onData` for a body of announced length that arrived in one piece, which saves a copy: bytes
   * `start` to `end` of a buffer, valid during the call only. Returns false to pause until `resume`.
   */
  onWholeBody?(buffer: Buffer, start: number, end: number): boolean;
  onEnd(): void;
  onError(error: UpstreamError): void;
}

/** An in-flight request. */
export interface UpstreamCall {
  /** Set at the end of the call: the whole request was written, and its body is not in use any more. */
  readonly isSent?: boolean;
  /** Aborts the request and closes its connection, without a callback. No-op if the request has ended. */
  abort(): void;
  /** Resumes the body after an `onData` or `onWholeBody` that returned false. Must not be called from inside a callback. */
  resume(): void;
}

/** Connections to one upstream address. */
export interface UpstreamTransport {
  /** Address for messages, without credentials and query. */
  readonly address: string;
  /** Sends a request on an idle connection, or on a new one if all are busy. */
  dispatch(request: UpstreamRequest, handler: ResponseHandler): UpstreamCall;
  /** Rejects new requests and resolves when all in-flight requests have ended. */
  close(): Promise<void>;
  /** Fails in-flight requests with an `aborted` error. */
  destroy(): Promise<void>;
}

export interface TransportOptions {
  /** Sockets of all transports; no limit by default. */
  readonly sockets?: UpstreamSockets | undefined;
  /** Connect timeout in milliseconds, including TLS (default 5000). */
  readonly connectTimeoutMs?: number;
  /**
   * Milliseconds until the first byte of the response, without the time in which the upstream waits for the request body. No
   * limit by default.
   */
  readonly firstByteTimeoutMs?: number;
  /**
   * Idle timeout in milliseconds if the upstream announces none (default 4000). Common servers close after 5 s without
   * announcing it, and a call that meets a closing connection cannot be repeated. An announced timeout is reduced by one
   * second and limited to ten minutes.
   */
  readonly keepAliveMs?: number;
  /**
   * Handling of redirects: `follow` (default) follows 307 and 308 to the same origin and fails with a `redirect` error for
   * others; `pass` handles them like other responses, for proxies.
   */
  readonly redirects?: 'follow' | 'pass';
  /**
   * Handling of content codings of responses: `decode` (default) removes them, with the headers `content-encoding` and
   * `content-length`; `pass` leaves them, for proxies.
   */
  readonly codings?: 'decode' | 'pass';
  /** Largest decoded body of a response with content codings, in bytes (default 64 MiB). */
  readonly maxDecodedBytes?: number;
  /** Proxy that requests are sent through; by default they are sent directly. */
  readonly proxy?: EgressProxy | undefined;
  /** Called for each redirect that is followed, with its status and target. */
  readonly onRedirect?: ((status: number, target: URL) => void) | undefined;
  /** Options of TLS connections to the upstream, such as a pre-shared key in place of certificates. */
  readonly tls?: ConnectionOptions | undefined;
  /** Headers of requests that do not have them themselves: lower-case names and values, alternating. */
  readonly defaultHeaders?: readonly string[];
  /** Names of headers that are never sent, whatever a request has: in lower case and without `_`, which is the same as `-`. */
  readonly droppedHeaders?: ReadonlySet<string> | undefined;
}

/** {@link TransportOptions} with their defaults. */
export type TransportSettings = TransportOptions &
  Required<Pick<TransportOptions, 'connectTimeoutMs' | 'keepAliveMs' | 'maxDecodedBytes'>>;

/** Returns `host:port` of an http or https URL. */
export function serverOf(url: URL): string {
  return formatAddress(endpointOf(url));
}
