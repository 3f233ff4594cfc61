import type { ResponseHandler, UpstreamCall } from '../transport.ts';
import type { UpstreamError } from '../upstream-error.ts';

/** The connection that a call is on, as the call needs it. */
export interface Carrier {
  /** Ends the connection without calling back. */
  close(): void;
  /** Lets the body flow again. */
  resume(): void;
}

/** One request under way. */
export class Http1Call implements UpstreamCall {
  readonly handler: ResponseHandler;
  /** The request's bytes, or why there are none. */
  readonly request: string | Buffer | UpstreamError;
  /** Undefined until the call has got a connection. */
  carrier: Carrier | undefined = undefined;
  /** Set before the last callback: nothing is called any more. */
  over = false;

  constructor(handler: ResponseHandler, request: string | Buffer | UpstreamError) {
    this.handler = handler;
    this.request = request;
  }

  abort(): void {
    if (this.over) return;
    this.over = true;
    this.carrier?.close();
  }

  resume(): void {
    if (!this.over) this.carrier?.resume();
  }

  /** Only while it is not over. */
  fail(error: UpstreamError): void {
    this.over = true;
    this.handler.onError(error);
  }
}
