import { ChunkBuffer } from '@sluice/protocol/chunk-buffer';
import type { ResponseHandler, ResponseHeaders, UpstreamCall, UpstreamRequest, UpstreamTransport } from './client.ts';
import { abortError, UpstreamError } from './errors.ts';

/** Limits of a request whose response is collected. */
export interface CollectOptions {
  /** Bytes of the body; a larger one fails as `too-large`. */
  readonly maxBytes: number;
  /** Bytes of a body with status 300 or higher, where the excess is discarded (default: `maxBytes` applies). */
  readonly maxErrorBytes?: number;
  /** Milliseconds for the whole request. */
  readonly timeoutMs: number;
  /** Aborts the request, which fails with the reason if that is an {@link UpstreamError}. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Inspects the head of the response. If it throws, the request is aborted and fails with that error; a reader that it
   * returns receives the body in place of the buffer.
   */
  readonly onHead?: (status: number, headers: ResponseHeaders) => BodyReader | undefined;
}

/**
 * Reads a body as it arrives; returns true as soon as it needs no more. If it throws, the request is aborted. With a promise,
 * nothing more is received until it has resolved.
 */
export type BodyReader = (chunk: Buffer) => boolean | Promise<boolean>;

/** A collected response. */
export interface CollectedResponse {
  readonly status: number;
  readonly headers: ResponseHeaders;
  /** Empty when a {@link BodyReader} has consumed it. */
  readonly body: Buffer;
}

/** Time for the rest of a body after its reader has enough, so that the connection can be reused, in milliseconds. */
const LINGER_MS = 1_000;

/** Sends one request and collects its response within limits. Rejects with an {@link UpstreamError}. */
export function collectResponse(
  transport: UpstreamTransport,
  request: UpstreamRequest,
  options: CollectOptions,
): Promise<CollectedResponse> {
  return new ResponseCollector(transport.address, options).send(transport, request);
}

class ResponseCollector implements ResponseHandler {
  readonly #address: string;
  readonly #options: CollectOptions;
  readonly #outcome = Promise.withResolvers<CollectedResponse>();
  readonly #body = new ChunkBuffer();
  readonly #onAbort = () => this.#fail(abortError(this.#address, this.#options.signal));
  #reader: BodyReader | undefined = undefined;
  #call: UpstreamCall | undefined = undefined;
  #timer: NodeJS.Timeout | undefined = undefined;
  #settled = false;
  /** The reader is busy. */
  #isReading = false;
  /** The body has ended while the reader was busy. */
  #hasEnded = false;
  #status = 0;
  #headers: ResponseHeaders = {};
  #bytes = 0;
  /** Time that is left, and since when. Time in which the reader is busy does not count. */
  #remainingMs: number;
  #since = 0;

  constructor(address: string, options: CollectOptions) {
    this.#address = address;
    this.#options = options;
    this.#remainingMs = options.timeoutMs;
  }

  send(transport: UpstreamTransport, request: UpstreamRequest): Promise<CollectedResponse> {
    const { signal } = this.#options;
    if (signal?.aborted) {
      this.#onAbort();
    } else {
      signal?.addEventListener('abort', this.#onAbort);
      this.#startTimer();
      this.#call = transport.dispatch(request, this);
    }
    return this.#outcome.promise;
  }

  onHead(status: number, headers: ResponseHeaders): void {
    this.#status = status;
    this.#headers = headers;
    try {
      this.#reader = this.#options.onHead?.(status, headers);
    } catch (error) {
      this.#fail(error);
    }
  }

  onData(chunk: Buffer): boolean {
    if (this.#settled) return true;
    const { maxBytes, maxErrorBytes } = this.#options;
    this.#bytes += chunk.length;
    if (maxErrorBytes !== undefined && this.#status >= 300 && this.#bytes > maxErrorBytes) {
      this.#complete();
      this.#call?.abort();
    } else if (this.#bytes > maxBytes) {
      const what = `answered with more than ${maxBytes} bytes`;
      this.#fail(new UpstreamError('too-large', this.#address, what, { status: this.#status }));
    } else if (this.#reader === undefined) {
      this.#body.push(chunk);
    } else {
      return this.#read(this.#reader, chunk);
    }
    return true;
  }

  onEnd(): void {
    if (this.#settled) clearTimeout(this.#timer);
    else if (this.#isReading) this.#hasEnded = true;
    else this.#complete();
  }

  onError(error: UpstreamError): void {
    if (this.#settled) clearTimeout(this.#timer);
    else this.#fail(error);
  }

  /** Returns false to pause. */
  #read(reader: BodyReader, chunk: Buffer): boolean {
    try {
      const read = reader(chunk);
      if (read === true) this.#finish();
      if (typeof read === 'boolean') return true;
      this.#isReading = true;
      clearTimeout(this.#timer);
      this.#remainingMs -= performance.now() - this.#since;
      read.then(
        (isEnough) => this.#onRead(isEnough),
        (error: unknown) => this.#fail(error),
      );
      return false;
    } catch (error) {
      this.#fail(error);
      return true;
    }
  }

  #onRead(isEnough: boolean): void {
    this.#isReading = false;
    if (this.#settled) return;
    if (this.#hasEnded) return this.#complete();
    if (isEnough) this.#finish();
    else this.#startTimer();
    this.#call?.resume();
  }

  #startTimer(): void {
    const what = `did not answer within ${this.#options.timeoutMs / 1000} s`;
    this.#since = performance.now();
    this.#timer = setTimeout(
      () => this.#fail(new UpstreamError('timeout', this.#address, what)),
      Math.max(0, this.#remainingMs),
    );
  }

  /** Completes before the end of the body. */
  #finish(): void {
    this.#complete();
    this.#timer = setTimeout(() => this.#call?.abort(), LINGER_MS).unref();
  }

  #complete(): void {
    this.#settle();
    this.#outcome.resolve({ status: this.#status, headers: this.#headers, body: this.#body.concat() });
  }

  #fail(error: unknown): void {
    if (this.#settled) return;
    this.#settle();
    this.#call?.abort();
    this.#outcome.reject(error);
  }

  #settle(): void {
    this.#settled = true;
    clearTimeout(this.#timer);
    this.#options.signal?.removeEventListener('abort', this.#onAbort);
  }
}
