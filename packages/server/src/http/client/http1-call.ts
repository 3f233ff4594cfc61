import type { ResponseHandler, StreamedBody, UpstreamCall, UpstreamRequest } from './client.ts';
import { DecodedResponse, type ResponseInput } from './decoded-response.ts';
import type { UpstreamError } from './errors.ts';
import type { EncodedRequest } from './request-writer.ts';

/** The connection that a request was sent on. */
export interface CallConnection {
  close(): void;
  /** Resumes the response body. */
  resume(): void;
}

/** A request and its encoded form. */
export interface OutgoingRequest {
  /** The request as it was passed to the pool. */
  readonly source: UpstreamRequest;
  /** Path of the encoded request: its own, or that of a redirect. */
  readonly path: string;
  /** Only the head if the body is streamed. */
  readonly encoded: EncodedRequest;
  /** Body that follows the head. */
  readonly streamed: StreamedBody | undefined;
}

/** An in-flight request. */
export class Http1Call implements UpstreamCall, ResponseInput {
  /** Replaced at the head of a response that has to be decoded. */
  handler: ResponseHandler;
  /** The error if it cannot be sent. */
  request: OutgoingRequest | UpstreamError;
  /** Undefined until the request is sent. */
  connection: CallConnection | undefined = undefined;
  /** Set before the last callback; no callback follows. */
  ended = false;
  /** Known at the end of the call. */
  isSent = false;
  /** When it was first sent, in milliseconds of `performance.now()`. */
  sentAt = 0;
  /** Number of redirects that were followed. */
  redirects = 0;
  /** Handler of a response with content codings; may be busy after the end of the call. */
  #decoded: DecodedResponse | undefined = undefined;

  constructor(handler: ResponseHandler, request: OutgoingRequest | UpstreamError) {
    this.handler = handler;
    this.request = request;
  }

  abort(): void {
    this.#decoded?.abort();
    if (this.ended) return;
    this.ended = true;
    this.connection?.close();
  }

  resume(): void {
    if (this.#decoded) this.#decoded.resume();
    else this.resumeInput();
  }

  resumeInput(): void {
    if (!this.ended) this.connection?.resume();
  }

  /** Decodes the body of the response of the upstream at `address`. */
  decode(codings: readonly string[], address: string, maxBytes: number): void {
    this.#decoded = new DecodedResponse(this.handler, { address, codings, maxBytes, input: this });
    this.handler = this.#decoded;
  }

  /** Must not be called after the end of the call. */
  fail(error: UpstreamError): void {
    this.ended = true;
    this.handler.onError(error);
  }
}

/** Returns the milliseconds that are left of the time in which a call must be connected. */
export function connectTimeLeft({ redirects, sentAt }: Http1Call, timeoutMs: number, now: number): number {
  return redirects === 0 ? timeoutMs : sentAt + timeoutMs - now;
}
