import { Readable } from 'node:stream';
import type { ResponseHandler, ResponseHeaders, UpstreamCall, UpstreamRequest, UpstreamTransport } from './client.ts';

/** Head of a response. */
export interface StreamedHead {
  readonly status: number;
  readonly headers: ResponseHeaders;
}

/** The body of a response, which is received as fast as it is read. Destroying it aborts the request. */
export class ResponseStream extends Readable implements ResponseHandler {
  readonly #head = Promise.withResolvers<StreamedHead>();
  readonly #call: UpstreamCall;
  #isPaused = false;

  /** Sends a request. */
  constructor(transport: UpstreamTransport, request: UpstreamRequest) {
    super();
    // Also reported by the promise, or to whoever reads.
    this.on('error', (error) => this.#head.reject(error));
    this.#head.promise.catch(() => undefined);
    this.#call = transport.dispatch(request, this);
  }

  /** Rejects with the error of the stream if there is no response. */
  get head(): Promise<StreamedHead> {
    return this.#head.promise;
  }

  onHead(status: number, headers: ResponseHeaders): void {
    this.#head.resolve({ status, headers });
  }

  onData(chunk: Buffer): boolean {
    const takesMore = this.push(chunk);
    this.#isPaused = !takesMore;
    return takesMore;
  }

  onEnd(): void {
    this.push(null);
  }

  onError(error: Error): void {
    this.destroy(error);
  }

  override _read(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#call.resume();
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.#call.abort();
    callback(error);
  }
}
