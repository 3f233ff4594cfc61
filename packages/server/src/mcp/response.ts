import { INTERNAL_ERROR } from '@sluice/protocol/mcp/constants';
import type { ResponseLike } from '../http/exchange.ts';
import { errorJson, type ResultOutcome, type RpcError } from '../http/outcome.ts';
import { ConnectedStream, inOneLine, type ResponseStream } from './response-stream.ts';
import type { ClientStream } from './sessions/resumable-streams.ts';

/**
 * Writes the response to one request: HTTP, JSON or an event stream. All responses to JSON-RPC requests are written here,
 * so that the envelope is created in one place.
 */
export class ResponseWriter {
  readonly response: ResponseLike;
  readonly idText: string;
  /** Set once the event stream has begun. */
  stream: ResponseStream | undefined = undefined;
  /** Opens a stream that the client can resume; undefined if there is none. */
  openStream: (() => ClientStream | undefined) | undefined = undefined;
  /** Called once when the client cannot resume the stream any more. */
  onDropped: (() => void) | undefined = undefined;
  readonly #headers: readonly string[];

  /** `headers`: those of every response to this request, names and values alternating. */
  constructor(response: ResponseLike, headers: readonly string[], idText: string) {
    this.response = response;
    this.#headers = headers;
    this.idText = idText;
  }

  /** Sends an HTTP response that is not a JSON-RPC message. */
  sendPlain(status: number, headers: readonly string[] = [], body = ''): void {
    const length = status === 204 || status === 304 ? [] : ['Content-Length', String(Buffer.byteLength(body))];
    this.response.writeHead(status, [...headers, ...length, ...this.#headers]);
    this.response.end(body);
  }

  /** Sends a JSON-RPC result, as the last event of a stream that has begun. */
  sendResult({ json, bytes = Buffer.byteLength(json), headers }: Omit<ResultOutcome, 'kind'>): void {
    const start = `{"jsonrpc":"2.0","id":${this.idText},"result":`;
    if (this.stream) {
      if (typeof json === 'string') return this.stream.end(`${start}${json}}`);
      const body = inOneLine(this.stream.beginLast());
      body.write([Buffer.from(start), json, Buffer.from('}')], () => undefined);
      return body.end();
    }
    const idBytes = Buffer.byteLength(this.idText);
    // 33 bytes are the envelope's own: {"jsonrpc":"2.0","id":,"result":}
    this.startJson(200, 33 + idBytes + bytes, headers);
    if (typeof json === 'string') return this.#endText(`${start}${json}}`, 33 + idBytes + bytes);
    this.response.write(start);
    this.response.write(json);
    this.response.end('}');
  }

  /** Sends a JSON-RPC error, as the last event of a stream that has begun; the status is then ignored. */
  sendError(error: RpcError, status = 200): void {
    const text = `{"jsonrpc":"2.0","id":${this.idText},"error":${errorJson(error)}}`;
    if (this.stream) this.stream.end(text);
    else this.sendJson(status, text, Buffer.byteLength(text));
  }

  /** Sends a JSON-RPC message of so many bytes as JSON. */
  sendJson(status: number, text: string, bytes: number): void {
    this.startJson(status, bytes);
    this.#endText(text, bytes);
  }

  /** Begins a JSON response whose body follows; `bytes` is its length, if known. */
  startJson(status: number, bytes: number | undefined, headers: readonly string[] = []): void {
    const type = 'application/json';
    const own = bytes === undefined ? ['Content-Type', type] : ['Content-Type', type, 'Content-Length', String(bytes)];
    const isWhole = headers.length === 0 && this.#headers.length === 0;
    this.response.writeHead(status, isWhole ? own : [...own, ...headers, ...this.#headers]);
  }

  /** Begins the event stream unless it was begun. */
  startStream(headers?: readonly string[]): ResponseStream {
    if (this.stream) return this.stream;
    this.#writeStreamHead(headers);
    const stream = this.openStream?.();
    this.stream = stream ?? new ConnectedStream(this.response);
    if (!stream) return this.stream;
    const onDropped = () => this.onDropped?.();
    stream.onDropped = onDropped;
    stream.attach(this.response);
    return stream;
  }

  /** Sends a stream that exists already: the events after number `after`, or all of a new one. */
  attachStream(stream: ClientStream, after?: number): void {
    this.stream = stream;
    this.#writeStreamHead();
    stream.attach(this.response, after);
  }

  #writeStreamHead(headers: readonly string[] = []): void {
    this.response.writeHead(200, [
      'Content-Type',
      'text/event-stream',
      'Cache-Control',
      'no-cache, no-transform',
      'X-Accel-Buffering',
      'no',
      ...headers,
      ...this.#headers,
    ]);
  }

  /** Ends a response with a text of so many bytes. ASCII is written as Latin-1, which costs less than half. */
  #endText(text: string, bytes: number): void {
    this.response.end(text, bytes === text.length ? 'latin1' : 'utf8');
  }
}

/** Error for internal failures, without details. */
export const INTERNAL: RpcError = { code: INTERNAL_ERROR, message: 'internal error' };
