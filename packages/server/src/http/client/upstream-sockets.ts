/** Time for which a request waits for a socket. */
const WAIT_MS = 1_000;

/**
 * Ends the wait of a request for a socket, once. With one, it may be opened, and must be returned by
 * {@link UpstreamSockets.release}; otherwise none became free in time.
 */
type OnWaited = (hasSocket: boolean) => void;

/** Idle connections of a transport. */
export interface IdleConnections {
  /** Closes an idle connection; returns whether there was one. */
  closeIdle(): boolean;
}

/** The sockets to upstreams that all transports of a process may open together. */
export class UpstreamSockets {
  readonly #limit: number;
  readonly #transports = new Set<IdleConnections>();
  readonly #waiting = new Map<OnWaited, NodeJS.Timeout>();
  #open = 0;

  constructor(limit: number | undefined) {
    this.#limit = limit ?? Number.POSITIVE_INFINITY;
  }

  /** Whether requests wait for a socket: connections are closed after their response instead of waiting for the next request. */
  get areScarce(): boolean {
    return this.#waiting.size > 0;
  }

  /** Lets idle connections of this transport be closed for others, until {@link UpstreamSockets.remove}. */
  add(transport: IdleConnections): void {
    this.#transports.add(transport);
  }

  remove(transport: IdleConnections): void {
    this.#transports.delete(transport);
  }

  /** Takes a socket. Returns false if there is none: the request waits for a second. */
  take(onWaited: OnWaited): boolean {
    if (this.#open < this.#limit) {
      this.#open++;
      return true;
    }
    const timer = setTimeout(() => {
      this.#waiting.delete(onWaited);
      onWaited(false);
    }, WAIT_MS);
    this.#waiting.set(onWaited, timer);
    for (const transport of this.#transports) if (transport.closeIdle()) break;
    return false;
  }

  /** Returns a socket that was closed. */
  release(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#open--;
      return;
    }
    const [onWaited, timer] = next;
    clearTimeout(timer);
    this.#waiting.delete(onWaited);
    onWaited(true);
  }
}
