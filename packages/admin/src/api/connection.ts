/** Whether the service responds, and when it last did. */
export interface ConnectionState {
  readonly status: 'connected' | 'unreachable' | 'login-required';
  /** Time of the last response that is no error, or event, in milliseconds since the epoch; 0 before the first. */
  readonly lastHeard: number;
}

/** Interval in which responses change the state: a thousand events in a second must not render the page as often. */
const HEARD_MS = 1_000;

/** Tracks the connection to the service from the outcome of all requests. */
export class Connection {
  #state: ConnectionState = { status: 'connected', lastHeard: 0 };
  readonly #listeners = new Set<() => void>();

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  readonly getState = (): ConnectionState => this.#state;

  /** Reports a response without an error, or an event. */
  onHeard(): void {
    const now = Date.now();
    const { status, lastHeard } = this.#state;
    if (status !== 'connected' || now - lastHeard >= HEARD_MS) this.#set({ status: 'connected', lastHeard: now });
  }

  /** Reports an error of the service itself: it responds, but what is shown becomes no newer. */
  onFailed(): void {
    if (this.#state.status !== 'connected') this.#set({ ...this.#state, status: 'connected' });
  }

  /** Reports a request without a response, or with one of a proxy that cannot reach the service. */
  onUnreachable(): void {
    this.#set({ ...this.#state, status: 'unreachable' });
  }

  /** Reports that a proxy in front of the service asks for a login. */
  onLoginRequired(): void {
    this.#set({ ...this.#state, status: 'login-required' });
  }

  #set(state: ConnectionState): void {
    this.#state = state;
    for (const listener of this.#listeners) listener();
  }
}
