import { encodeEvent } from '../mcp/event-stream.ts';
import { INTERNAL_ERROR } from '../mcp/protocol.ts';
import type { AnswerTarget } from './answer-target.ts';
import type { RpcError } from './outcome.ts';

/**
 * The client's side of one request: writes the answer, once, in the form it turns out to have. Everything that answers
 * a JSON-RPC request goes through here, so the envelope and its id are spelled in one place.
 */
export class ClientAnswer {
  /** The id as the client spelled it. */
  readonly idText: string;
  readonly #response: AnswerTarget;
  readonly #headers: readonly string[];
  #streaming = false;

  constructor(response: AnswerTarget, headers: readonly string[], idText: string) {
    this.#response = response;
    this.#headers = headers;
    this.idText = idText;
  }

  /** True once the client is gone or has its answer. */
  get ended(): boolean {
    return this.#response.writableEnded || this.#response.destroyed;
  }

  /** True once an event stream was begun. */
  get streaming(): boolean {
    return this.#streaming;
  }

  /** Calls back once when the client leaves before its answer is complete. */
  onLeave(listener: () => void): void {
    // Not `once`: it would wrap the listener, and a response closes but once.
    this.#response.on('close', () => {
      if (!this.#response.writableEnded) listener();
    });
  }

  /** Calls back once when buffered data has gone out. */
  onDrain(listener: () => void): void {
    this.#response.once('drain', listener);
  }

  /** An HTTP answer as it is. */
  plain(status: number, headers: readonly string[] = [], body = ''): void {
    const length = status === 204 || status === 304 ? [] : ['Content-Length', String(Buffer.byteLength(body))];
    this.#response.writeHead(status, [...headers, ...length, ...this.#headers]);
    this.#response.end(body);
  }

  /**
   * A JSON-RPC result; `bytes` is the UTF-8 length of `json` when known. On a stream that has begun it is the last event.
   */
  result(json: string | Buffer, bytes: number = Buffer.byteLength(json), headers?: readonly string[]): void {
    if (this.#streaming) return this.#endStream(`{"jsonrpc":"2.0","id":${this.idText},"result":${json}}`);
    const idBytes = Buffer.byteLength(this.idText);
    // 33 bytes are the envelope's own: {"jsonrpc":"2.0","id":,"result":}
    this.#head(200, 33 + idBytes + bytes, headers);
    const start = `{"jsonrpc":"2.0","id":${this.idText},"result":`;
    if (typeof json === 'string') {
      this.#response.end(`${start}${json}}`);
      return;
    }
    this.#response.cork();
    this.#response.write(start);
    this.#response.write(json);
    this.#response.end('}');
  }

  /** A JSON-RPC error. On a stream that has begun it is the last event, and the status cannot be had any more. */
  error(error: RpcError, status = 200): void {
    const text = errorText(this.idText, error);
    if (this.#streaming) return this.#endStream(text);
    this.#head(status, Buffer.byteLength(text));
    this.#response.end(text);
  }

  /** Begins a JSON answer whose body follows in pieces; `bytes` is its length when known. */
  beginJson(status: number, bytes: number | undefined): void {
    this.#head(status, bytes);
  }

  /** One piece of a body. False when the client reads too slowly: wait for `onDrain`. */
  write(chunk: Buffer | string): boolean {
    return this.#response.write(chunk);
  }

  /** Ends a body that was written in pieces, with its last one. */
  end(chunk?: Buffer | string): void {
    if (chunk === undefined) this.#response.end();
    else this.#response.end(chunk);
  }

  /** Begins an event stream. */
  beginStream(): void {
    this.#streaming = true;
    this.#response.writeHead(200, [
      'Content-Type',
      'text/event-stream',
      'Cache-Control',
      'no-cache, no-transform',
      'X-Accel-Buffering',
      'no',
      ...this.#headers,
    ]);
  }

  /** One message on the stream. False when the client reads too slowly. */
  event(data: string): boolean {
    return this.#response.write(encodeEvent({ event: 'message', data }));
  }

  /** A comment on the stream: keeps connections alive that carry nothing for long. */
  keepAlive(): void {
    this.#response.write(':\n\n');
  }

  /** Ends the connection without an answer: there is nobody left to tell, or no way to tell it. */
  destroy(): void {
    this.#response.destroy();
  }

  #endStream(data: string): void {
    this.event(data);
    this.#response.end();
  }

  #head(status: number, bytes: number | undefined, headers: readonly string[] = []): void {
    const length = bytes === undefined ? [] : ['Content-Length', String(bytes)];
    this.#response.writeHead(status, ['Content-Type', 'application/json', ...length, ...headers, ...this.#headers]);
  }
}

/** JSON text of an error response. */
function errorText(idText: string, { code, message, data }: RpcError): string {
  const more = data === undefined ? '' : `,"data":${data}`;
  return `{"jsonrpc":"2.0","id":${idText},"error":{"code":${code},"message":${JSON.stringify(message)}${more}}}`;
}

/** What a request is answered with when something of ours failed: no internals leave the process. */
export const INTERNAL: RpcError = { code: INTERNAL_ERROR, message: 'internal error' };
