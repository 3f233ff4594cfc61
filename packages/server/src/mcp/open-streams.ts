import { INVALID_REQUEST } from '@sluice/protocol/mcp/constants';
import { rpcError } from '../http/outcome.ts';
import type { Authenticated } from '../identity/authenticator.ts';
import { MAX_UNCONFIRMED_MS } from '../identity/sign-ins.ts';

/** Response to a request for a stream of a client that accepts none. */
export const NO_EVENT_STREAMS = rpcError(INVALID_REQUEST, 'header Accept must name text/event-stream', 406);

/**
 * A stream that ends only on request: a legacy notification stream, a modern `subscriptions/listen`, or the stream of
 * tool-call events.
 */
export interface OpenStream {
  /** What has authenticated the request that has opened it: it ends when that expires. */
  readonly by?: Authenticated | undefined;
  /** Sends a comment, so that proxies do not close an idle connection. `OpenResponses` does so for most streams. */
  keepAlive?(): void;
  /** Ends the stream as the protocol requires. */
  end(): void;
}

/** Longest time of a timer. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Calls `end` when the credential of a request expires, or is to be confirmed. Returns a function that prevents it. */
export function endAtExpiry(by: Pick<Authenticated, 'expiresAt' | 'proof'>, end: () => void): () => void {
  const confirmed = by.proof.kind === 'sign_in' ? Date.now() + MAX_UNCONFIRMED_MS : Number.POSITIVE_INFINITY;
  const expiresAt = Math.min(by.expiresAt ?? Number.POSITIVE_INFINITY, confirmed);
  if (expiresAt === Number.POSITIVE_INFINITY) return () => {};
  let timer: NodeJS.Timeout;
  const wait = () => {
    const ms = expiresAt - Date.now();
    timer = setTimeout(() => (ms > MAX_TIMER_MS ? wait() : end()), Math.min(ms, MAX_TIMER_MS)).unref();
  };
  wait();
  return () => clearTimeout(timer);
}

/** Below the usual idle timeouts of proxies and load balancers, 30 to 60 s. */
const KEEP_ALIVE_MS = 15_000;

/** All open long-lived streams: keeps them alive, and ends them when the service stops or their credential expires. */
export class OpenStreams {
  readonly #keepAliveMs: number;
  /** With what prevents their end at the expiry. */
  readonly #streams = new Map<OpenStream, () => void>();
  #timer: NodeJS.Timeout | undefined = undefined;
  #ended = false;

  /** `keepAliveMs` is for tests. */
  constructor(keepAliveMs: number = KEEP_ALIVE_MS) {
    this.#keepAliveMs = keepAliveMs;
  }

  get size(): number {
    return this.#streams.size;
  }

  /** Adds a stream; returns a function that removes it. After {@link endAll} the stream is ended immediately. */
  add(stream: OpenStream): () => void {
    if (this.#ended) {
      stream.end();
      return () => {};
    }
    this.#streams.set(stream, stream.by ? endAtExpiry(stream.by, () => this.#end(stream)) : () => {});
    this.#timer ??= setInterval(() => {
      for (const each of this.#streams.keys()) each.keepAlive?.();
    }, this.#keepAliveMs).unref();
    return () => this.#remove(stream);
  }

  /** Ends all streams, and every stream that is added later. */
  endAll(): void {
    this.#ended = true;
    for (const stream of [...this.#streams.keys()]) this.#end(stream);
  }

  #end(stream: OpenStream): void {
    this.#remove(stream);
    stream.end();
  }

  #remove(stream: OpenStream): void {
    this.#streams.get(stream)?.();
    this.#streams.delete(stream);
    if (this.#streams.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
