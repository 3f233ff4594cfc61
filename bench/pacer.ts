/** Invokes callbacks at steady intervals. */
export interface Pacer {
  /**
   * Calls `send` with its due time every `everyMs` milliseconds, with a random phase, until it returns false. Starts when this
   * many senders have been added.
   */
  add(everyMs: number, send: Send, together?: number): void;
}

/** Sends what is due at this time by `performance.now()`. */
type Send = (due: number) => boolean;

interface Paced {
  due: number;
  readonly everyMs: number;
  readonly send: Send;
}

/**
 * Creates a pacer for many independent senders. Timers have a resolution of a millisecond and would send in bursts of five
 * (500 senders at 10 per second), which doubles the median delay. So the thread sleeps until the next sender is due.
 *
 * @param longestWaitMs maximum time that the event loop is blocked, in milliseconds
 */
export function makePacer(longestWaitMs = 1): Pacer {
  const cell = new Int32Array(new SharedArrayBuffer(4));
  let paced: Paced[] = [];
  let waiting: Pick<Paced, 'everyMs' | 'send'>[] = [];
  const turn = () => {
    let next = performance.now() + longestWaitMs;
    for (const { due } of paced) if (due < next) next = due;
    Atomics.wait(cell, 0, 0, Math.max(0, next - performance.now()));
    const now = performance.now();
    let over = false;
    for (const one of paced) {
      if (one.due > now) continue;
      one.due = one.send(one.due) ? one.due + one.everyMs : Number.POSITIVE_INFINITY;
      over ||= one.due === Number.POSITIVE_INFINITY;
    }
    if (over) paced = paced.filter(({ due }) => due !== Number.POSITIVE_INFINITY);
    if (paced.length > 0) setImmediate(turn);
  };
  return {
    add(everyMs, send, together = 1) {
      waiting.push({ everyMs, send });
      if (waiting.length < together) return;
      if (paced.length === 0) setImmediate(turn);
      const now = performance.now();
      for (const one of waiting) paced.push({ due: now + one.everyMs * Math.random(), ...one });
      waiting = [];
    },
  };
}
