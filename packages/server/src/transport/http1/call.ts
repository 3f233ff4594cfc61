import type { ResponseHandler, StreamedBody, UpstreamCall } from '../transport.ts';
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
  /** The request's bytes, only its head's when the body is streamed, or why there are none. */
  readonly request: string | Buffer | UpstreamError;
  /** What is to be sent behind the bytes. */
  readonly streamed: StreamedBody | undefined;
  /** Whether its answer has a head and nothing else, whatever that says. */
  readonly headOnly: boolean;
  /** Undefined until the call has got a connection. */
  carrier: Carrier | undefined = undefined;
  /** Set before the last callback: nothing is called any more. */
  over = false;

  constructor(
    handler: ResponseHandler,
    request: string | Buffer | UpstreamError,
    streamed: StreamedBody | undefined,
    headOnly: boolean,
  ) {
    this.handler = handler;
    this.request = request;
    this.streamed = streamed;
    this.headOnly = headOnly;
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
