import { isJsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { escapeInvisible, singleLine, truncateBytes } from '@sluice/protocol/text';
import type {
  RawHeaders,
  ResponseHandler,
  ResponseHeaders,
  UpstreamCall,
  UpstreamRequest,
  UpstreamTransport,
} from '../../../http/client/client.ts';
import type { UpstreamError } from '../../../http/client/errors.ts';
import { isBinary } from '../unusable-response.ts';

/** Bytes of a text in the result of a test. */
const MAX_TEXT_BYTES = 512;
/** Bytes of the bodies of a request and a response in it. */
const MAX_BODY_BYTES = 256;

/** One request and its response, which is recorded and passed on. */
class Exchange implements ResponseHandler {
  /** HTTP method and JSON-RPC method, such as `POST initialize`. */
  readonly name: string;
  /** JSON-RPC method; that of HTTP for other requests. */
  readonly method: string;
  readonly #handler: ResponseHandler;
  readonly #onHead: () => void;
  readonly #requestBody: string;
  readonly #startedAt: number = performance.now();
  #endedAt: number | undefined = undefined;
  #head: string | undefined = undefined;
  #body: Buffer = Buffer.alloc(0);

  /** `onHead` is called with the head of the response. */
  constructor({ method, body }: UpstreamRequest, handler: ResponseHandler, onHead: () => void) {
    this.#handler = handler;
    this.#onHead = onHead;
    this.#requestBody = typeof body === 'string' ? body : '';
    const message = tryParseJson(this.#requestBody);
    const rpcMethod = isJsonObject(message) && typeof message.method === 'string' ? message.method : undefined;
    this.method = rpcMethod ?? method;
    this.name = rpcMethod === undefined ? method : `${method} ${rpcMethod}`;
  }

  /** Milliseconds until its end, or so far. */
  get duration(): number {
    return (this.#endedAt ?? performance.now()) - this.#startedAt;
  }

  /** The request and the beginning of its body. */
  get sent(): string {
    const body = this.#requestBody.slice(0, MAX_BODY_BYTES);
    return body === '' ? this.name : `${this.name}: ${body}`;
  }

  /**
   * The first line of the response, its type and the beginning of its body, but not that of lists; undefined without a response.
   */
  get received(): string | undefined {
    if (this.#head === undefined || this.#body.length === 0 || this.method.endsWith('/list')) return this.#head;
    return `${this.#head}: ${isBinary(this.#body) ? 'binary data' : this.#body.toString()}`;
  }

  onHead(status: number, headers: ResponseHeaders, raw: RawHeaders, reason: string): void {
    const type = headers['content-type'];
    this.#head = `HTTP ${status}${reason === '' ? '' : ` ${reason}`}${type === undefined ? '' : `, ${type}`}`;
    this.#onHead();
    this.#handler.onHead(status, headers, raw, reason);
  }

  onData(chunk: Buffer): boolean {
    if (this.#body.length < MAX_BODY_BYTES) {
      this.#body = Buffer.concat([this.#body, chunk]).subarray(0, MAX_BODY_BYTES);
    }
    return this.#handler.onData(chunk);
  }

  onEnd(): void {
    this.#endedAt ??= performance.now();
    this.#handler.onEnd();
  }

  onError(error: UpstreamError): void {
    this.#endedAt ??= performance.now();
    this.#handler.onError(error);
  }
}

/** Records what is sent and received through a transport: with the secrets of its headers already removed. */
export class ExchangeTrace implements UpstreamTransport {
  readonly exchanges: Exchange[] = [];
  readonly #transport: UpstreamTransport;
  readonly #firstHead = Promise.withResolvers<void>();
  /** Resolves with the head of the first response. */
  readonly firstHead: Promise<void> = this.#firstHead.promise;

  constructor(transport: UpstreamTransport) {
    this.#transport = transport;
  }

  get address(): string {
    return this.#transport.address;
  }

  /** Returns the exchanges of these methods. */
  of(...methods: readonly string[]): Exchange[] {
    return this.exchanges.filter(({ method }) => methods.includes(method));
  }

  dispatch(request: UpstreamRequest, handler: ResponseHandler): UpstreamCall {
    const exchange = new Exchange(request, handler, this.#firstHead.resolve);
    this.exchanges.push(exchange);
    return this.#transport.dispatch(request, exchange);
  }

  close(): Promise<void> {
    return this.#transport.close();
  }

  destroy(): Promise<void> {
    return this.#transport.destroy();
  }
}

/**
 * Returns a function that makes texts for the result of a test: one line of at most 512 bytes, in which everything is printable,
 * without the query of the address, which may contain credentials.
 */
export function textsFor({ search, searchParams }: URL): (text: string) => string {
  const hidden = [search.slice(1), ...searchParams.values()].filter(({ length }) => length >= 4);
  return (text) => {
    const redacted = hidden.reduce((result, secret) => result.replaceAll(secret, '…'), text);
    return truncateBytes(escapeInvisible(singleLine(redacted, MAX_TEXT_BYTES)), MAX_TEXT_BYTES);
  };
}
