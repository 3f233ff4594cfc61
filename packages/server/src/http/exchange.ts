import type { IncomingHttpHeaders } from 'node:http';
import { ChunkBuffer } from '@sluice/protocol/chunk-buffer';
import { Exchange, type RequestHead } from '../exchange/exchange.ts';
import type { ResponseHeaders } from './client/client.ts';
import type { ServerRequest } from './server/request.ts';

const NONE: readonly never[] = [];

/** The body of a request that has none, or whose body has not been read. */
export const NO_BODY: ChunkBuffer = new ChunkBuffer();

/**
 * An exchange as filters see it. The listener creates it; each mutable member names the filter that sets it. Part of the hot
 * path: all requests of all listeners have one class, and so one hidden class.
 */
export class HttpExchange extends Exchange {
  /** The HTTP request; messages of a batch share that of the batch. */
  readonly request: ServerRequest;
  /** Target of the response: for a message of a batch, a part of that of the batch. */
  response: ResponseLike;
  /** Path without the query, as sent or as rewritten by the listener or `path_rewrite`. */
  path: string;
  /** Query including its question mark; empty if there is none. Set by the listener, as are the headers. */
  query: string;
  headers: IncomingHttpHeaders;
  /** Set by the listener if it reads the body. */
  body: ChunkBuffer = NO_BODY;
  /** Headers of every response to this request: names and values, alternating. Set by `cors`. */
  responseHeaders: readonly string[] = NONE;
  /** Edits of the response headers. Set by `headers`. */
  headerEdits: readonly HeaderEdits[] = NONE;
  /** Headers added to the upstream request: names and values, alternating. Set by `headers`. */
  addedHeaders: readonly string[] = NONE;
  /** Name of the upstream cluster. Set by `router`. */
  cluster: string | undefined = undefined;
  /** Starts recording the exchange. Set by `service_intercept`. */
  recording: (() => ExchangeObserver | undefined) | undefined = undefined;

  constructor(head: RequestHead, request: ServerRequest, response: ResponseLike) {
    super(head);
    const { target } = head;
    const query = target.indexOf('?');
    this.request = request;
    this.response = response;
    this.path = query === -1 ? target : target.slice(0, query);
    this.query = query === -1 ? '' : target.slice(query);
    this.headers = head.headers;
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
  /** `reason`: phrase of a proxied response, to which no `Date` header is added. */
  writeHead(status: number, headers: string[], reason?: string): unknown;
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
