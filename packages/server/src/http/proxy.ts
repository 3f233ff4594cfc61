import { type Authenticated, authorizationOf } from '../identity/authenticator.ts';
import { setsOwnCookie } from '../identity/own-cookies.ts';
import { PEER_HEADER_PREFIX } from '../identity/peer.ts';
import type {
  RawHeaders,
  ResponseHandler,
  ResponseHeaders,
  StreamedBody,
  UpstreamCall,
  UpstreamTransport,
} from './client/client.ts';
import { UpstreamError } from './client/errors.ts';
import { incomingBody } from './client/request-writer.ts';
import { drainRequestBody } from './collect-body.ts';
import type { ExchangeObserver, ResponseLike } from './exchange.ts';
import { filterHeaders, HOP_BY_HOP } from './header-lines.ts';
import type { PlainOutcome } from './outcome.ts';
import type { ServerRequest } from './server/request.ts';
import type { RequestHead } from './server/request-parser.ts';

/** Request headers that the HTTP client sets. */
const CLIENT_HEADERS: ReadonlySet<string> = new Set(['host', 'content-length', 'expect']);

const NONE: ReadonlySet<string> = new Set();

/**
 * Returns the headers of a request that are sent upstream: names and values, alternating, in their original case. `excluded`
 * are lower-case names of headers to omit.
 */
export function upstreamRequestHeaders(raw: readonly string[], excluded = NONE): string[] {
  return endToEndHeaders(
    raw,
    (name) => CLIENT_HEADERS.has(name) || excluded.has(name) || name.startsWith(PEER_HEADER_PREFIX),
  );
}

/** Returns the raw headers of a request with its `Authorization`, unless this service has verified that, for an upstream that does. */
export function withAuthorization({ rawHeaders, credentials }: RequestHead, by?: Authenticated): readonly string[] {
  const values = authorizationOf(credentials, by);
  return values.length === 0 ? rawHeaders : [...rawHeaders, ...values.flatMap((value) => ['Authorization', value])];
}

/** Returns the headers of an upstream response of this status that are sent to the client; `excluded` as above. */
export function clientResponseHeaders(status: number, raw: readonly string[], excluded = NONE): string[] {
  // A response without content has no length (RFC 9110 8.6).
  return endToEndHeaders(
    raw,
    (name, value) =>
      excluded.has(name) ||
      (status === 204 && name === 'content-length') ||
      (name === 'set-cookie' && setsOwnCookie(value)),
  );
}

function endToEndHeaders(raw: readonly string[], isExcluded: (name: string, value: string) => boolean): string[] {
  const listed = connectionHeaders(raw);
  return filterHeaders(
    raw,
    (name, value) =>
      !(HOP_BY_HOP.has(name) || name.startsWith('proxy-') || listed?.has(name) || isExcluded(name, value)),
  );
}

/** Returns the headers that `Connection` lists, which are hop-by-hop too; undefined if there are none, as in most cases. */
function connectionHeaders(raw: readonly string[]): ReadonlySet<string> | undefined {
  let listed: Set<string> | undefined;
  for (let index = 0; index + 1 < raw.length; index += 2) {
    if (raw[index]?.length !== 10 || raw[index]?.toLowerCase() !== 'connection') continue;
    for (const item of (raw[index + 1] ?? '').toLowerCase().split(',')) {
      const name = item.trim();
      // A client must not be able to remove the framing of its message.
      if (name === '' || name === 'close' || name === 'keep-alive' || name === 'content-length' || name === 'host')
        continue;
      listed ??= new Set();
      listed.add(name);
    }
  }
  return listed;
}

/** Properties of a proxied request that are known before it is sent. */
export interface ExchangePlan {
  readonly transport: UpstreamTransport;
  /** Path and query at the upstream. */
  readonly path: string;
  /** Headers for the upstream: names and values, alternating. */
  readonly headers: readonly string[];
  /** The request body if it has been read; otherwise it is streamed from the request. */
  readonly body?: Buffer | undefined;
  /** Headers added to the response: names and values, alternating. If there are any, the upstream's CORS headers are removed. */
  readonly responseHeaders: readonly string[];
  /** Changes the headers of the upstream's response: names and values, alternating. */
  readonly editResponse?: (status: number, headers: string[]) => string[];
  /** Returns the response for the client if the upstream sends none. */
  readonly failureResponse: () => PlainOutcome;
  /** Called if the upstream sent no complete response; not if the client disconnected. */
  readonly onFailure?: ((error: UpstreamError) => void) | undefined;
  readonly observer?: ExchangeObserver | undefined;
}

const EMPTY = Buffer.alloc(0);

/** CORS headers of an upstream response; those of the `cors` filter replace them. */
const CORS_HEADERS: ReadonlySet<string> = new Set([
  'access-control-allow-origin',
  'access-control-allow-credentials',
  'access-control-allow-headers',
  'access-control-allow-methods',
  'access-control-allow-private-network',
  'access-control-expose-headers',
  'access-control-max-age',
]);

/**
 * A proxied HTTP request with both bodies streamed unmodified, with backpressure in both directions. If
 * the client disconnects, the upstream request is canceled.
 */
export class ProxiedExchange implements ResponseHandler {
  readonly #plan: ExchangePlan;
  readonly #request: ServerRequest;
  readonly #response: ResponseLike;
  #call: UpstreamCall | undefined = undefined;
  #body: StreamedBody | undefined = undefined;
  #ended = false;
  /** The request is complete or will never be. */
  #requestEnded = false;

  constructor(plan: ExchangePlan, request: ServerRequest, response: ResponseLike) {
    this.#plan = plan;
    this.#request = request;
    this.#response = response;
  }

  /** Sends the request. */
  start(): void {
    const { transport, path, headers } = this.#plan;
    const { method } = this.#request;
    this.#response.on('close', () => this.#onClientClose());
    const body = this.#plan.body ?? this.#streamedBody();
    if (Buffer.isBuffer(body)) {
      this.#plan.observer?.requestChunk(body);
      this.#onRequestEnd();
    }
    this.#call = transport.dispatch({ method, path, headers, ...(body !== undefined && { body }) }, this);
  }

  #streamedBody(): StreamedBody | undefined {
    const request = this.#request;
    const { observer } = this.#plan;
    if (observer) request.body.on('end', () => this.#onRequestEnd()).on('close', () => this.#onRequestEnd());
    this.#body = incomingBody(request, observer && ((chunk) => observer.requestChunk(chunk)));
    if (!this.#body) request.body.resume();
    return this.#body;
  }

  #onRequestEnd(): void {
    if (this.#requestEnded) return;
    this.#requestEnded = true;
    this.#plan.observer?.requestEnd();
    if (this.#ended) this.#plan.observer?.end();
  }

  onHead(status: number, headers: ResponseHeaders, raw: RawHeaders, reason: string): void {
    const { responseHeaders, editResponse } = this.#plan;
    const excluded = responseHeaders.length === 0 ? undefined : CORS_HEADERS;
    try {
      const received = clientResponseHeaders(status, raw, excluded);
      const sent = editResponse === undefined ? received : editResponse(status, received);
      this.#response.writeHead(status, [...sent, ...responseHeaders], reason);
    } catch (error) {
      // An invalid head fails this exchange only.
      this.#call?.abort();
      return this.onError(
        new UpstreamError('invalid', this.#plan.transport.address, 'sent a response head that cannot be forwarded', {
          cause: error,
        }),
      );
    }
    // A body of unknown length may be slow: the head must not wait for it.
    if (headers['content-length'] === undefined) this.#response.write(EMPTY);
    this.#plan.observer?.responseHead(status, headers);
  }

  onData(chunk: Buffer): boolean {
    const more = this.#response.write(chunk);
    this.#plan.observer?.responseChunk(chunk);
    if (!more) this.#response.once('drain', () => this.#call?.resume());
    return more;
  }

  onEnd(): void {
    this.#ended = true;
    this.#response.end();
    this.#endIfComplete();
  }

  onError(error: UpstreamError): void {
    if (this.#ended) return;
    this.#ended = true;
    // A response that has begun can only be aborted.
    if (this.#response.headersSent) this.#response.destroy();
    else {
      drainRequestBody(this.#request);
      this.#respond(this.#plan.failureResponse());
    }
    // If there was no connection, the client has not stopped the body.
    this.#body?.stop();
    this.#plan.onFailure?.(error);
    this.#endIfComplete();
  }

  #respond({ status, headers = [], body = '' }: PlainOutcome): void {
    const bytes = Buffer.from(body);
    this.#response.writeHead(status, [
      ...headers,
      'Content-Length',
      String(bytes.length),
      ...this.#plan.responseHeaders,
    ]);
    this.#response.end(bytes);
    this.#plan.observer?.responseHead(status, { 'content-type': 'application/json' });
    this.#plan.observer?.responseChunk(bytes);
  }

  /** Ends the observer, unless the client is still sending a body that the upstream did not read. */
  #endIfComplete(): void {
    if (this.#requestEnded) this.#plan.observer?.end();
  }

  #onClientClose(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#requestEnded = true;
    this.#call?.abort();
    this.#plan.observer?.end();
  }
}
