import { POLLING_VERSION } from '@sluice/protocol/mcp/constants';
import type { ClientFacts } from '../upstreams/client-facts.ts';
import type { ResponseWriter } from './response.ts';
import type { ResponseStream } from './response-stream.ts';

/** A response that its client waits for while the request is executed upstream. */
export interface OpenResponse {
  /** Index in {@link OpenResponses}, which sets it; -1 while the response is not in it. */
  index: number;
  /** Time by which something has to be sent, in milliseconds of `performance.now()`. {@link OpenResponses} sets it. */
  dueAt: number;
  /** True if the client is to get the id of its stream early, so that it can resume it. */
  readonly isResumable: boolean;
  /** True once the response has ended, or its client has disconnected. */
  readonly hasEnded: boolean;
  /**
   * Begins the event stream of the response, or sends a comment on it. False if nothing more can be sent before its end: the
   * result is being sent.
   */
  keepAlive(): boolean;
}

/** When something is sent on a response without an answer, in milliseconds. */
export interface OpenResponseTimes {
  /** Age at which a stream begins that can be resumed. */
  readonly resumableMs: number;
  /** Age at which any other stream begins. */
  readonly headMs: number;
  /** Longest time between the beginning of a stream, and its comments. */
  readonly commentMs: number;
  /** Time between two checks, by which a stream may begin later. */
  readonly stepMs: number;
}

/** Below the usual idle timeouts of proxies and load balancers, 30 to 60 s. */
export const OPEN_RESPONSE_TIMES: OpenResponseTimes = {
  resumableMs: 500,
  headMs: 2_000,
  commentMs: 15_000,
  stepMs: 250,
};

/**
 * The responses to all requests that are executed upstream, whatever their method and their upstream. A proxy in front closes
 * a connection on which nothing is sent, which cancels the call of a modern client: so a response without an answer becomes an
 * event stream after a while, and gets comments. One timer checks all of them, since a timer per response would be too
 * expensive; most have ended before it does.
 */
export class OpenResponses {
  readonly #times: OpenResponseTimes;
  /** Unordered. Not a Set, as in `InFlightCalls`. */
  readonly #responses: OpenResponse[] = [];
  #timer: NodeJS.Timeout | undefined = undefined;

  constructor(times: OpenResponseTimes = OPEN_RESPONSE_TIMES) {
    this.#times = times;
  }

  get size(): number {
    return this.#responses.length;
  }

  /**
   * Adds the response to a client whose request arrived at `startedAt`, and returns it; undefined if the client accepts no event
   * streams.
   */
  keepOpen(writer: ResponseWriter, { accepts, session }: ClientFacts, startedAt: number): OpenWriter | undefined {
    if (!accepts.sse) return undefined;
    const open = new OpenWriter(this, writer, session !== undefined && session.protocolVersion >= POLLING_VERSION);
    this.add(open, startedAt);
    return open;
  }

  /** Adds a response until it is removed or has ended; its request arrived at `startedAt`. */
  add(response: OpenResponse, startedAt: number): void {
    const { resumableMs, headMs, stepMs } = this.#times;
    response.dueAt = startedAt + (response.isResumable ? resumableMs : headMs);
    response.index = this.#responses.length;
    this.#responses.push(response);
    this.#timer ??= setInterval(() => this.#sweep(), stepMs).unref();
  }

  remove(response: OpenResponse): void {
    const { index } = response;
    if (index === -1) return;
    response.index = -1;
    const last = this.#responses.pop();
    if (last === undefined || last === response) return;
    this.#responses[index] = last;
    last.index = index;
  }

  #sweep(): void {
    const { commentMs, stepMs } = this.#times;
    const now = performance.now();
    // Backwards, since the last one takes the place of one that is removed.
    for (let at = this.#responses.length - 1; at >= 0; at--) {
      const response = this.#responses[at];
      if (!response || (response.dueAt > now && !response.hasEnded)) continue;
      // Before the time is over rather than after.
      response.dueAt = now + commentMs - stepMs;
      if (response.hasEnded || !response.keepAlive()) this.remove(response);
    }
    if (this.#responses.length > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}

/** The response to a client that accepts event streams. */
export class OpenWriter implements OpenResponse {
  index = -1;
  dueAt = 0;
  readonly isResumable: boolean;
  readonly #writer: ResponseWriter;
  readonly #responses: OpenResponses;

  /** `isResumable`: the client knows event ids without a message. */
  constructor(responses: OpenResponses, writer: ResponseWriter, isResumable = false) {
    this.#responses = responses;
    this.#writer = writer;
    this.isResumable = isResumable;
  }

  remove(): void {
    this.#responses.remove(this);
  }

  get hasEnded(): boolean {
    const { writableEnded, destroyed } = this.#writer.response;
    return writableEnded || destroyed;
  }

  keepAlive(): boolean {
    const { stream, response } = this.#writer;
    if (stream) stream.keepAlive();
    else if (response.headersSent) return false;
    else this.#begin(this.#writer.startStream());
    return true;
  }

  #begin(stream: ResponseStream): void {
    if (this.isResumable && stream.sendInitialEventId) stream.sendInitialEventId();
    else stream.keepAlive();
  }
}
