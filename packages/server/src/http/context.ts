import type { IncomingHttpHeaders } from 'node:http';
import type { ChunkBuffer } from '@sluice/protocol/chunk-buffer';
import type { RequestObservation } from '../telemetry/request-telemetry.ts';
import type { ResponseHeaders } from './client/client.ts';

/**
 * State of one HTTP request in a filter chain. The listener creates it; each mutable member names the filter that sets it.
 */
export class RequestContext {
  readonly method: string;
  /** Path without the query, as sent or as rewritten by `path_rewrite`. */
  path: string;
  /** Query including its question mark; empty if there is none. */
  readonly query: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: ChunkBuffer;
  /** Telemetry of the request; undefined where none is recorded. */
  readonly observation: RequestObservation | undefined;
  /** JSON-RPC method of a request message, which selects the filters that it skips. Set by `mcp`. */
  rpcMethod: string | undefined = undefined;
  #metadata: Map<string, string> | undefined = undefined;

  /** Scheme of the client connection. Set by the listener. */
  scheme: 'http' | 'https' = 'http';
  /** Address of this machine that the client connected to. Set by the listener. */
  localAddress: string | undefined = undefined;
  /** Closes when the response is complete or the client disconnects. Set by the listener. */
  client: Pick<ResponseLike, 'on'> | undefined = undefined;
  /** Headers of every response to this request: names and values, alternating. Set by `cors`. */
  responseHeaders: readonly string[] = [];
  /** Headers added to the upstream request: names and values, alternating. Set by `headers`. */
  addedHeaders: readonly string[] = [];
  /** Edits of the response headers. Set by `headers`. */
  headerEdits: readonly HeaderEdits[] = [];
  /** Name of the upstream cluster. Set by `router`. */
  cluster: string | undefined = undefined;
  /** Starts recording the exchange. Set by `service_intercept`. */
  recording: (() => ExchangeObserver | undefined) | undefined = undefined;

  /** `target` is the path and the query, if there is one. */
  constructor(
    method: string,
    target: string,
    headers: IncomingHttpHeaders,
    body: ChunkBuffer,
    observation?: RequestObservation,
  ) {
    const query = target.indexOf('?');
    this.method = method;
    this.path = query === -1 ? target : target.slice(0, query);
    this.query = query === -1 ? '' : target.slice(query);
    this.headers = headers;
    this.body = body;
    this.observation = observation;
    if (observation) observation.context = this;
  }

  /** Values that actions set, and those that the request has by itself; created when they are needed. */
  get metadata(): Map<string, string> {
    this.#metadata ??= new Map(this.initialMetadata());
    return this.#metadata;
  }

  /** The metadata that the request has by itself. */
  protected initialMetadata(): [string, string][] {
    return [];
  }
}

/** Edits of response headers, applied in the order of the members. */
export interface HeaderEdits {
  /** Lower-case names. */
  readonly remove: ReadonlySet<string>;
  /** Names and values, alternating; existing headers of these names are also in `remove`. */
  readonly set: readonly string[];
  readonly add: readonly string[];
}

/** Receives a copy of a proxied exchange, each chunk after it was forwarded. Must not throw or modify its arguments. */
export interface ExchangeObserver {
  /** Includes chunks that the upstream did not accept. */
  requestChunk(chunk: Buffer): void;
  requestEnd(): void;
  /** Head of the response sent to the client; header names in lower case. */
  responseHead(status: number, headers: ResponseHeaders): void;
  responseChunk(chunk: Buffer): void;
  /** Last call: the response has ended or failed and the request is complete, or the client has disconnected. */
  end(): void;
}

/**
 * Target of a response: an HTTP response, or the part of one message in the response to a batch. The members of
 * `ServerResponse` of node:http that are needed, with the same meaning. Event streams are written in whole events, so
 * that several responses can share one stream.
 */
export interface ResponseLike {
  readonly destroyed: boolean;
  readonly headersSent: boolean;
  readonly writableEnded: boolean;
  /** False for a proxied response: no `Date` header is added. */
  sendDate?: boolean;
  /** False if the connection closes after the response. */
  shouldKeepAlive?: boolean;
  /** Reason phrase of a proxied response. */
  statusMessage?: string;
  writeHead(status: number, headers: string[]): unknown;
  /** `callback` is called when the chunk is written, or with the error. */
  write(chunk: string | Buffer, callback?: (error?: Error | null) => void): boolean;
  end(chunk?: string | Buffer): unknown;
  end(chunk: string, encoding: 'latin1' | 'utf8'): unknown;
  /** Collects what is written until `uncork`, so that it is one write. */
  cork(): void;
  uncork(): void;
  destroy(): unknown;
  on(event: 'close' | 'drain', listener: () => void): unknown;
  once(event: 'close' | 'drain', listener: () => void): unknown;
}
