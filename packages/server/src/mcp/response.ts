import { memberText } from '@sluice/protocol/json/scan';
import { INTERNAL_ERROR } from '@sluice/protocol/mcp/constants';
import { encodeEvent } from '@sluice/protocol/mcp/event-stream';
import type { ResponseLike, RpcError } from '../http/context.ts';
import type { CallResponse } from '../upstreams/downstream.ts';
import type { ClientStream } from './sessions/resumable-streams.ts';

/** Makes the stream that the answer to a request goes out on; undefined where it cannot be resumed. */
export type OpenStream = (idText: string) => ClientStream | undefined;

/**
 * The client's side of one request: writes the answer, once, in the form it turns out to have. Everything that answers
 * a JSON-RPC request goes through here, so the envelope and its id are spelled in one place.
 */
export class ResponseWriter implements CallResponse {
  /** The id as the client spelled it. */
  readonly idText: string;
  readonly #response: ResponseLike;
  readonly #headers: readonly string[];
  readonly #openStream: OpenStream | undefined;
  #streaming = false;
  /** Set where the event stream can be resumed. */
  #stream: ClientStream | undefined = undefined;
  #leave: (() => void) | undefined = undefined;
  /** The code of the error that was answered, or the answer whose code that is. */
  #failure: number | string | undefined = undefined;
  #errorMessage: string | undefined = undefined;

  /** `openStream` for clients that can come back to their streams: those with a session. */
  constructor(response: ResponseLike, headers: readonly string[], idText: string, openStream?: OpenStream) {
    this.#response = response;
    this.#headers = headers;
    this.#openStream = openStream;
    this.idText = idText;
  }

  /** True once an event stream was begun. */
  get streaming(): boolean {
    return this.#streaming;
  }

  /** The code of the JSON-RPC error that was answered; undefined for what was none. */
  get errorCode(): number | undefined {
    const failure = this.#failure;
    return typeof failure === 'string' ? codeIn(failure) : failure;
  }

  /** What was answered as an error of ours; undefined for one of others', who may have put anything into it. */
  get errorMessage(): string | undefined {
    return this.#errorMessage;
  }

  /** Calls back once when the client leaves before its answer is complete, and cannot come back for it. */
  onLeave(listener: () => void): void {
    this.#leave = listener;
    // Not `once`: it would wrap the listener, and a response closes but once.
    this.#response.on('close', () => {
      if (!this.#response.writableEnded && !this.#stream) listener();
    });
  }

  /** Calls back once when buffered data has gone out, or will not any more. */
  onDrain(listener: () => void): void {
    if (this.#stream) this.#stream.onDrain(listener);
    else this.#response.once('drain', listener);
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
    if (this.#streaming) return this.lastEvent(`{"jsonrpc":"2.0","id":${this.idText},"result":${json}}`);
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

  /** The result of a call, as JSON text, in the form that the client reads. */
  callResult(json: string, readsJson: boolean): void {
    if (!this.#streaming && !readsJson) this.beginStream();
    this.result(json);
  }

  /** A JSON-RPC error. On a stream that has begun it is the last event, and the status cannot be had any more. */
  error(error: RpcError, status = 200): void {
    this.#failure = error.code;
    this.#errorMessage = error.message;
    const text = errorText(this.idText, error);
    if (this.#streaming) return this.lastEvent(text);
    this.#head(status, Buffer.byteLength(text));
    this.#response.end(text);
  }

  /**
   * A response that is there as text, with the client's id in it. One that nothing came before is one JSON object, however
   * the upstream sent it: that costs least.
   */
  response(text: string, failed: boolean, status: number, json: boolean): void {
    if (failed) this.#failure = text;
    if (this.#streaming) return this.lastEvent(text);
    if (json || failed) {
      this.beginJson(status, Buffer.byteLength(text));
      this.end(text);
    } else {
      this.beginStream();
      this.lastEvent(text);
    }
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

  /**
   * Begins an event stream. `prime`: no message follows at once, and a client that can come back is told where to.
   */
  beginStream(prime = false): void {
    this.#streaming = true;
    this.#streamHead();
    const stream = this.#openStream?.(this.idText);
    if (!stream) return;
    this.#stream = stream;
    stream.onGone = () => this.#leave?.();
    stream.attach(this.#response);
    if (prime) stream.prime();
  }

  /** Goes on with a stream that was begun before, after event number `after`; a new one from its beginning. */
  continueStream(stream: ClientStream, after?: number): void {
    this.#streaming = true;
    this.#stream = stream;
    this.#streamHead();
    stream.attach(this.#response, after);
  }

  /** One message on the stream. False when the client reads too slowly. */
  event(data: string): boolean {
    if (this.#stream) return this.#stream.send(data);
    return this.#response.write(encodeEvent({ event: 'message', data }));
  }

  /** The last message on the stream. */
  lastEvent(data: string): void {
    if (this.#stream) return this.#endStream(this.#stream, data);
    this.event(data);
    this.#response.end();
  }

  /**
   * Ends the connection of a stream and not the stream: the client is to come back in `retryMs`. Where it cannot, it stays.
   */
  poll(retryMs: number): void {
    if (!this.#streaming) this.beginStream();
    this.#stream?.poll(retryMs);
  }

  /** Ends a request that nobody waits for any more: there is an HTTP answer, but no response in it. */
  cancelled(readsStreams: boolean): void {
    if (this.#stream) return this.#endStream(this.#stream);
    if (!this.#streaming && !readsStreams) return this.plain(202);
    if (!this.#streaming) this.#streamHead();
    this.#response.end();
  }

  /** A comment on the stream: keeps connections alive that carry nothing for long. */
  keepAlive(): void {
    this.#response.write(':\n\n');
  }

  /** Ends the connection without an answer: there is nobody left to tell, or no way to tell it. */
  destroy(): void {
    this.#response.destroy();
  }

  /** The stream may be kept for a while after this, and must not keep the call and its connections with it. */
  #endStream(stream: ClientStream, data?: string): void {
    stream.onGone = undefined;
    stream.end(data);
  }

  #streamHead(): void {
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

  #head(status: number, bytes: number | undefined, headers: readonly string[] = []): void {
    const length = bytes === undefined ? [] : ['Content-Length', String(bytes)];
    this.#response.writeHead(status, ['Content-Type', 'application/json', ...length, ...headers, ...this.#headers]);
  }
}

/** The code of an error response. */
function codeIn(text: string): number | undefined {
  const code = Number(memberText(memberText(text, 'error') ?? '', 'code'));
  return Number.isInteger(code) ? code : undefined;
}

/** JSON text of an error response. */
function errorText(idText: string, { code, message, data }: RpcError): string {
  const more = data === undefined ? '' : `,"data":${data}`;
  return `{"jsonrpc":"2.0","id":${idText},"error":{"code":${code},"message":${JSON.stringify(message)}${more}}}`;
}

/** What a request is answered with when something of ours failed: no internals leave the process. */
export const INTERNAL: RpcError = { code: INTERNAL_ERROR, message: 'internal error' };
