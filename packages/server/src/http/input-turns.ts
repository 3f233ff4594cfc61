/** Input from this size on is counted: smaller one ends the reads of its connection in a turn of the event loop. */
export const LARGE_INPUT_BYTES = 16 * 1024;

/** Time of each turn in which large input is handled, in milliseconds. */
const TURN_MS = 8;

/**
 * Shares the time of each turn of the event loop among connections with large input. libuv reads up to 32 buffers of each
 * connection in one turn: 4 MiB of short lines or of small values would delay all others. When the time is over, connections
 * wait for later turns, in order of arrival. A response that is read at once, or is cheap to handle, never waits.
 */
export class InputTurns {
  readonly #now: () => number;
  /** End of the time of this turn; 0 before the first large input. */
  #endsAt = 0;
  #waiting: (() => void)[] = [];

  /** `now` returns milliseconds of a monotonic clock. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Returns whether large input may be handled in this turn. Otherwise its connection stores it and waits. */
  begin(): boolean {
    if (this.#waiting.length > 0) return false;
    if (this.#endsAt > 0) return !this.isOver;
    this.#start();
    return true;
  }

  /** True when the time of this turn is over: connections that have more input wait. */
  get isOver(): boolean {
    return this.#now() >= this.#endsAt;
  }

  /** Calls `next` in a later turn, in which it may handle one buffer of input. */
  wait(next: () => void): void {
    this.#waiting.push(next);
  }

  #start(): void {
    this.#endsAt = this.#now() + TURN_MS;
    // After the next reads of all sockets.
    setImmediate(this.#end);
  }

  readonly #end = (): void => {
    this.#endsAt = 0;
    if (this.#waiting.length > 0) setImmediate(this.#resume);
  };

  /** Until the end of its turn, which includes the next reads, others wait behind those that still do. */
  readonly #resume = (): void => {
    this.#start();
    const waiting = this.#waiting;
    this.#waiting = [];
    let at = 0;
    do waiting[at++]?.();
    while (at < waiting.length && !this.isOver);
    this.#waiting = [...waiting.slice(at), ...this.#waiting];
  };
}
