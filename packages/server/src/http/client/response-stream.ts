import { Readable } from 'node:stream';
import type { ResponseHandler, UpstreamCall, UpstreamRequest, UpstreamTransport } from './client.ts';

/** The body of a response with status 200, which is received as fast as it is read. */
export class ResponseStream extends Readable implements ResponseHandler {
  readonly #begun = Promise.withResolvers<Readable>();
  #call: UpstreamCall | undefined = undefined;
  #isPaused = false;

  /** Sends a request. Rejects if the response has another status, or has not begun when the signal aborts. */
  static open(transport: UpstreamTransport, request: UpstreamRequest, signal: AbortSignal): Promise<Readable> {
    const stream = new ResponseStream();
    const onAbort = () => stream.destroy(new Error('did not respond in time'));
    signal.addEventListener('abort', onAbort);
    stream.#call = transport.dispatch(request, stream);
    return stream.#begun.promise.finally(() => signal.removeEventListener('abort', onAbort));
  }

  private constructor() {
    super();
    // Also reported by the promise, or to whoever reads.
    this.on('error', (error) => this.#begun.reject(error));
  }

  onHead(status: number): void {
    if (status === 200) this.#begun.resolve(this);
    else this.destroy(new Error(`status ${status}`));
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
    this.#call?.resume();
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.#call?.abort();
    callback(error);
  }
}
