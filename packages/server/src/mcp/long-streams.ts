/**
 * A stream that stays open until somebody ends it: a legacy notification stream, a modern `subscriptions/listen`, or the
 * events of tool calls.
 */
export interface LongStream {
  /** Sends a comment, so that nothing in between takes the connection for dead. */
  keepAlive(): void;
  /** Ends it as the protocol wants it to end from our side. */
  end(): void;
}

/** Well below the idle times of proxies and load balancers, 30 to 60 s. */
const KEEP_ALIVE_MS = 15_000;

/** All streams that would stay open for ever: keeps them alive, and ends them when the service stops (decisions 1.1). */
export class OpenStreams {
  readonly #keepAliveMs: number;
  readonly #streams = new Set<LongStream>();
  #timer: NodeJS.Timeout | undefined = undefined;
  #ended = false;

  /** `keepAliveMs` is for tests. */
  constructor(keepAliveMs: number = KEEP_ALIVE_MS) {
    this.#keepAliveMs = keepAliveMs;
  }

  /** How many are open. */
  get size(): number {
    return this.#streams.size;
  }

  /** Takes a stream in until what is returned is called. After {@link endAll} the stream is ended before this returns. */
  add(stream: LongStream): () => void {
    if (this.#ended) {
      stream.end();
      return () => {};
    }
    this.#streams.add(stream);
    this.#timer ??= setInterval(() => this.#keepAlive(), this.#keepAliveMs).unref();
    return () => this.#remove(stream);
  }

  /** Ends all streams, and at once whatever is added later. */
  endAll(): void {
    this.#ended = true;
    for (const stream of [...this.#streams]) {
      this.#remove(stream);
      stream.end();
    }
  }

  #remove(stream: LongStream): void {
    this.#streams.delete(stream);
    if (this.#streams.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #keepAlive(): void {
    for (const stream of this.#streams) stream.keepAlive();
  }
}
