import { setImmediate as nextTurn } from 'node:timers/promises';

/** Time for which work holds the event loop in one turn, in milliseconds, besides its last step. */
const SLICE_MS = 8;

/**
 * Divides long work of the main thread into slices, so that the event loop is never held for long. All work that shares an
 * instance shares the time of each turn of the loop. Short work is done at once.
 */
export class TimeSlicer {
  readonly #waiting: (() => void)[] = [];
  #usedMs = 0;
  #isScheduled = false;

  /** Runs the steps to their end, as many as fit into a slice at a time; returns their result. Rejects as they throw. */
  async run<T>(steps: Iterator<unknown, T, undefined>): Promise<T> {
    for (;;) {
      if (this.#waiting.length > 0 || this.#usedMs >= SLICE_MS) await this.#next();
      const start = performance.now();
      const end = start + SLICE_MS - this.#usedMs;
      try {
        do {
          const { done, value } = steps.next();
          if (done) return value;
        } while (performance.now() < end);
      } finally {
        this.#usedMs += performance.now() - start;
        this.#schedule();
      }
    }
  }

  #next(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.push(resolve);
    this.#schedule();
    return promise;
  }

  /** Begins a new slice in the next turn of the loop. */
  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    void nextTurn().then(() => {
      this.#isScheduled = false;
      this.#usedMs = 0;
      this.#waiting.shift()?.();
      if (this.#waiting.length > 0) this.#schedule();
    });
  }
}
