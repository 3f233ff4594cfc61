import type { IncomingMessage } from 'node:http';
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
import type { PlainOutcome, ResponseLike } from './context.ts';
import { drainRequestBody } from './request-body.ts';

/** Headers of one connection, which end with it, besides `Proxy-*` (RFC 9110 7.6.1; decisions 4.6). */
const HOP_BY_HOP: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Of a request besides: what the connection to the upstream has of its own. */
const MADE_ANEW: ReadonlySet<string> = new Set(['host', 'content-length', 'expect']);

const NONE: ReadonlySet<string> = new Set();

/**
 * What of a request's headers goes on to the upstream: names and values, alternating, spelled as they came. `replaced` are
 * lower-case names of those that are not wanted.
 */
export function requestHeaders(raw: readonly string[], replaced = NONE): string[] {
  return without(raw, (name) => MADE_ANEW.has(name) || replaced.has(name));
}

/** What of the headers of an answer with this status goes back to the client; `replaced` as above. */
export function responseHeaders(status: number, raw: readonly string[], replaced = NONE): string[] {
  // An answer without content has no length (RFC 9110 8.6).
  const kept = without(raw, (name) => replaced.has(name) || (status === 204 && name === 'content-length'));
  return kept.some((name, at) => at % 2 === 0 && name.toLowerCase() === 'content-disposition')
    ? lengthLast(kept)
    : kept;
}

/** Node.js reads a `Content-Disposition` anew, in another encoding, once it knows the length: so it learns that behind. */
function lengthLast(headers: readonly string[]): string[] {
  const isLength = (at: number) => headers[at - (at % 2)]?.toLowerCase() === 'content-length';
  return [...headers.filter((_, at) => !isLength(at)), ...headers.filter((_, at) => isLength(at))];
}

function without(raw: readonly string[], more: (name: string) => boolean): string[] {
  const named = namedByConnection(raw);
  const kept: string[] = [];
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const [name = '', value = ''] = [raw[index], raw[index + 1]];
    const lower = name.toLowerCase();
    if (HOP_BY_HOP.has(lower) || lower.startsWith('proxy-') || named?.has(lower) || more(lower)) continue;
    kept.push(name, value);
  }
  return kept;
}

/** The headers that `Connection` lists, which are the connection's too. Nearly all connections list none. */
function namedByConnection(raw: readonly string[]): ReadonlySet<string> | undefined {
  let named: Set<string> | undefined;
  for (let index = 0; index + 1 < raw.length; index += 2) {
    if (raw[index]?.length !== 10 || raw[index]?.toLowerCase() !== 'connection') continue;
    for (const item of (raw[index + 1] ?? '').toLowerCase().split(',')) {
      const name = item.trim();
      // Where a message ends is not for a client to take away.
      if (name === '' || name === 'close' || name === 'keep-alive' || name === 'content-length' || name === 'host')
        continue;
      named ??= new Set();
      named.add(name);
    }
  }
  return named;
}

/** Is told what passes, each piece after it has passed. Must not throw, and not change what it is given. */
export interface ExchangeWatch {
  /** Also of what the upstream did not want. */
  requestChunk(chunk: Buffer): void;
  requestEnd(): void;
  /** The head of the answer that the client gets; header names in lower case. */
  responseHead(status: number, headers: ResponseHeaders): void;
  responseChunk(chunk: Buffer): void;
  /** The answer has ended or broken off and all of the request has come, or the client has left. Nothing follows. */
  end(): void;
}

/** One request that is sent on, as far as it is known before. */
export interface ExchangePlan {
  readonly transport: UpstreamTransport;
  /** Path and query at the upstream. */
  readonly path: string;
  /** Names and values, alternating, for the upstream. */
  readonly headers: readonly string[];
  /** Where it was read already; otherwise the request's own is sent as it comes. */
  readonly body: Buffer | undefined;
  /** Names and values, alternating, that the answer has besides. Where there are any, what the upstream says of CORS goes. */
  readonly answerHeaders: readonly string[];
  /** What the client is answered when the upstream gives no answer. */
  readonly failed: (error: UpstreamError) => PlainOutcome;
  /** Is told why the upstream gave no answer, or only a part of one; not when it was the client who left. */
  readonly onFailure?: (error: UpstreamError) => void;
  readonly watch: ExchangeWatch | undefined;
}

const NOTHING = Buffer.alloc(0);

/** What the upstream allows browsers does not count where we have said what they may do. */
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
 * An HTTP request on its way through, both bodies as they come (decisions 4.6, 4.8): nothing of them is changed, and who
 * reads slowly slows the other side down. A client that leaves ends the request upstream.
 */
export class Exchange implements ResponseHandler {
  readonly #plan: ExchangePlan;
  readonly #request: IncomingMessage;
  readonly #response: ResponseLike;
  readonly #watch: ExchangeWatch | undefined;
  #call: UpstreamCall | undefined = undefined;
  #body: StreamedBody | undefined = undefined;
  #begun = false;
  #over = false;
  /** All of the request has come, or never will. */
  #requestOver = false;

  constructor(plan: ExchangePlan, request: IncomingMessage, response: ResponseLike) {
    this.#plan = plan;
    this.#request = request;
    this.#response = response;
    this.#watch = plan.watch;
  }

  /** Sends it. */
  run(): void {
    const { transport, path, headers } = this.#plan;
    const { method = 'GET' } = this.#request;
    this.#response.on('close', () => this.#left());
    const body = this.#plan.body ?? this.#streamed();
    if (Buffer.isBuffer(body)) {
      this.#watch?.requestChunk(body);
      this.#requestEnded();
    }
    this.#call = transport.dispatch({ method, path, headers, ...(body !== undefined && { body }) }, this);
  }

  #streamed(): StreamedBody | undefined {
    const request = this.#request;
    const watch = this.#watch;
    if (watch) request.once('end', () => this.#requestEnded()).once('close', () => this.#requestEnded());
    this.#body = incomingBody(request, watch && ((piece) => watch.requestChunk(piece)));
    if (!this.#body) request.resume();
    return this.#body;
  }

  #requestEnded(): void {
    if (this.#requestOver) return;
    this.#requestOver = true;
    this.#watch?.requestEnd();
    if (this.#over) this.#watch?.end();
  }

  onHead(status: number, headers: ResponseHeaders, raw: RawHeaders, reason: string): void {
    // A date that the upstream did not send is not its own.
    this.#response.sendDate = false;
    const { answerHeaders } = this.#plan;
    const replaced = answerHeaders.length === 0 ? undefined : CORS_HEADERS;
    try {
      this.#response.statusMessage = reason;
      this.#response.writeHead(status, [...responseHeaders(status, raw, replaced), ...answerHeaders]);
    } catch (error) {
      // It cannot be passed on: that costs this answer, and nothing else.
      this.#response.statusMessage = '';
      this.#call?.abort();
      return this.onError(
        new UpstreamError('invalid', this.#plan.transport.address, 'answered with a head that cannot be passed on', {
          cause: error,
        }),
      );
    }
    this.#begun = true;
    // Where nothing says how long it is, the body may take its time: the head does not wait for it.
    if (headers['content-length'] === undefined) this.#response.write(NOTHING);
    this.#watch?.responseHead(status, headers);
  }

  onData(chunk: Buffer): boolean {
    const room = this.#response.write(chunk);
    this.#watch?.responseChunk(chunk);
    if (!room) this.#response.once('drain', () => this.#call?.resume());
    return room;
  }

  onEnd(): void {
    this.#over = true;
    this.#response.end();
    this.#ended();
  }

  onError(error: UpstreamError): void {
    if (this.#over) return;
    this.#over = true;
    // Half an answer cannot be taken back: the connection says that it is one.
    if (this.#begun) this.#response.destroy();
    else {
      drainRequestBody(this.#request, this.#response);
      this.#answer(this.#plan.failed(error));
    }
    // Without a connection nobody has asked for it.
    this.#body?.stop();
    this.#plan.onFailure?.(error);
    this.#ended();
  }

  #answer({ status, headers = [], body = '' }: PlainOutcome): void {
    const bytes = Buffer.from(body);
    this.#response.writeHead(status, [...headers, 'Content-Length', String(bytes.length), ...this.#plan.answerHeaders]);
    this.#response.end(bytes);
    this.#watch?.responseHead(status, { 'content-type': 'application/json' });
    this.#watch?.responseChunk(bytes);
  }

  /** There may be more of the request than the upstream wanted, and the client may still be sending it. */
  #ended(): void {
    if (this.#requestOver) this.#watch?.end();
  }

  #left(): void {
    if (this.#over) return;
    this.#over = true;
    this.#requestOver = true;
    this.#call?.abort();
    this.#watch?.end();
  }
}
