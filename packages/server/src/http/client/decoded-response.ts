import { filterHeaders } from '../header-lines.ts';
import type { RawHeaders, ResponseHandler, ResponseHeaders } from './client.ts';
import { type CodingError, decodeAtOnce, StreamingDecoder, unsupportedCodings } from './content-coding.ts';
import { UpstreamError } from './errors.ts';
import { mediaType } from './response-parser.ts';

/** Bodies up to this size that arrive in one turn of the event loop are decoded at once. */
const MAX_AT_ONCE_BYTES = 64 * 1024;
/** Largest output of such a body: it takes a few milliseconds. */
const MAX_OUTPUT_AT_ONCE_BYTES = 1024 * 1024;

/** Properties of a coded response. */
export interface CodedResponse {
  /** Address of the upstream for messages. */
  readonly address: string;
  /** Codings in the order in which they are removed. */
  readonly codings: readonly string[];
  /** Largest decoded body in bytes; of an event stream, the most that one piece of its input may yield. */
  readonly maxBytes: number;
  readonly input: ResponseInput;
}

/** The response that is decoded. */
export interface ResponseInput {
  /** Resumes it after `onData` has returned false. */
  resumeInput(): void;
  /** Ends it, and its decoding, without a callback. */
  abort(): void;
}

/**
 * Decodes a response with content codings for its handler, which gets it as if there were none: without `content-encoding`, and
 * without the `content-length` of the coded body. A response that breaks off is decoded as far as it arrived.
 */
export class DecodedResponse implements ResponseHandler {
  readonly #handler: ResponseHandler;
  readonly #response: CodedResponse;
  #status = 0;
  #isEventStream = false;
  /** Input of this turn of the event loop, until it is decoded. */
  #collected: Buffer[] = [];
  #collectedBytes = 0;
  #turn: NodeJS.Immediate | undefined = undefined;
  #decoder: StreamingDecoder | undefined = undefined;
  /** Bytes that count towards the limit. */
  #decodedBytes = 0;
  /** The handler has paused. */
  #isPaused = false;
  /** The whole body was decoded while the handler was paused. */
  #isComplete = false;
  /** Reported after what was decoded. */
  #failure: UpstreamError | undefined = undefined;
  /** No callback follows. */
  #hasEnded = false;

  constructor(handler: ResponseHandler, response: CodedResponse) {
    this.#handler = handler;
    this.#response = response;
  }

  /** Ends without a callback. */
  abort(): void {
    this.#hasEnded = true;
    clearImmediate(this.#turn);
    this.#collected = [];
    this.#decoder?.destroy();
  }

  /** The handler has resumed. */
  resume(): void {
    if (this.#hasEnded || !this.#isPaused) return;
    this.#isPaused = false;
    if (this.#isComplete) this.#end();
    else this.#decoder?.resume();
  }

  onHead(status: number, headers: ResponseHeaders, raw: RawHeaders, reason: string): void {
    this.#status = status;
    this.#isEventStream = mediaType(headers) === 'text/event-stream';
    const { 'content-encoding': _coding, 'content-length': _length, ...others } = headers;
    const lines = filterHeaders(raw, (name) => name !== 'content-encoding' && name !== 'content-length');
    this.#handler.onHead(status, others, lines, reason);
  }

  onData(chunk: Buffer): boolean {
    if (this.#hasEnded || this.#failure) return true;
    if (this.#isEventStream) this.#decodedBytes = 0;
    if (this.#decoder) return this.#decoder.write(chunk);
    const problem = unsupportedCodings(this.#response.codings);
    if (problem) {
      this.onCodingError(problem);
      return true;
    }
    this.#collected.push(chunk);
    this.#collectedBytes += chunk.length;
    if (this.#collectedBytes > MAX_AT_ONCE_BYTES) return this.#stream();
    // What arrives later may be the next event: the first one must not wait for it.
    this.#turn ??= setImmediate(() => this.#stream());
    return true;
  }

  onEnd(): void {
    if (this.#hasEnded || this.#failure) return;
    if (this.#collected.length > 0) this.#decodeCollected();
    else if (this.#decoder) this.#decoder.end();
    else this.#end();
  }

  onError(error: UpstreamError): void {
    if (this.#hasEnded || this.#failure) return;
    // A canceled request ends at once, and a paused handler would not get the rest without an error either.
    if (error.kind === 'aborted' || this.#isPaused) return this.#fail(error);
    this.#failure = error;
    if (this.#collected.length > 0) this.#stream();
    if (this.#decoder) this.#decoder.end();
    else this.#fail(error);
  }

  onDecoded(chunk: Buffer): boolean {
    if (this.#hasEnded) return true;
    const { address, codings, maxBytes } = this.#response;
    this.#decodedBytes += chunk.length;
    if (this.#decodedBytes > maxBytes) {
      const what = `answered with a ${codings.join(', ')} body of more than ${maxBytes} decoded bytes`;
      this.#fail(new UpstreamError('too-large', address, what, { status: this.#status }));
      return true;
    }
    this.#isPaused = !this.#handler.onData(chunk);
    return !this.#isPaused;
  }

  onDecodedEnd(): void {
    if (!this.#hasEnded) this.#end();
  }

  onCodingError(error: CodingError): void {
    if (this.#hasEnded) return;
    const status = this.#status;
    // An error status is more informative than its body.
    const [kind, answer] = status < 300 ? (['invalid', ''] as const) : (['http', `HTTP ${status} and `] as const);
    const remedy = 'disable the compression of the upstream or of the proxy in front of it';
    const details = { status, cause: error, remedy };
    const what = `answered with ${answer}${error.message}`;
    this.#fail(this.#failure ?? new UpstreamError(kind, this.#response.address, what, details));
  }

  onDrain(): void {
    if (!this.#hasEnded) this.#response.input.resumeInput();
  }

  #decodeCollected(): void {
    clearImmediate(this.#turn);
    const { codings } = this.#response;
    const decoded = decodeAtOnce(codings, Buffer.concat(this.#collected), MAX_OUTPUT_AT_ONCE_BYTES);
    if (decoded === undefined) {
      this.#stream();
      this.#decoder?.end();
      return;
    }
    this.#collected = [];
    if (decoded instanceof Error) return this.onCodingError(decoded);
    if (decoded.length > 0) this.onDecoded(decoded);
    if (!this.#hasEnded) this.#end();
  }

  /** Decodes what was collected, and all that follows, as a stream. Returns false to pause the input. */
  #stream(): boolean {
    clearImmediate(this.#turn);
    const { codings, maxBytes } = this.#response;
    const decoder = new StreamingDecoder(codings, this, maxBytes);
    this.#decoder = decoder;
    let more = true;
    for (const chunk of this.#collected) more = decoder.write(chunk);
    this.#collected = [];
    return more;
  }

  #end(): void {
    this.#isComplete = true;
    if (this.#isPaused) return;
    this.#hasEnded = true;
    if (this.#failure) this.#handler.onError(this.#failure);
    else this.#handler.onEnd();
  }

  #fail(error: UpstreamError): void {
    this.#response.input.abort();
    this.#handler.onError(error);
  }
}
