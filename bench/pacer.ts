/** Calls back at steady intervals. */
export interface Pacer {
  /** Calls `send` every `everyMs` milliseconds until it returns false; the first time at any moment of its interval. */
  add(everyMs: number, send: () => boolean): void;
}

interface Paced {
  due: number;
  readonly everyMs: number;
  readonly send: () => boolean;
}

/** Longest that the event loop is kept from its other work, in milliseconds. */
const longestWaitMs = 1;

/**
 * Makes a pacer for many senders that know nothing of each other. Timers count milliseconds, and would send in bursts:
 * with 500 senders at ten times per second, five at once, of which the last one waits for the others in whatever
 * relays them (measured: it doubles everybody's median delay). So the thread itself sleeps until the next one is due.
 */
export function makePacer(): Pacer {
  const cell = new Int32Array(new SharedArrayBuffer(4));
  let paced: Paced[] = [];
  const turn = () => {
    let next = performance.now() + longestWaitMs;
    for (const { due } of paced) if (due < next) next = due;
    Atomics.wait(cell, 0, 0, Math.max(0, next - performance.now()));
    const now = performance.now();
    let over = false;
    for (const one of paced) {
      if (one.due > now) continue;
      one.due = one.send() ? one.due + one.everyMs : Number.POSITIVE_INFINITY;
      over ||= one.due === Number.POSITIVE_INFINITY;
    }
    if (over) paced = paced.filter(({ due }) => due !== Number.POSITIVE_INFINITY);
    if (paced.length > 0) setImmediate(turn);
  };
  return {
    add(everyMs, send) {
      paced.push({ due: performance.now() + everyMs * Math.random(), everyMs, send });
      if (paced.length === 1) setImmediate(turn);
    },
  };
}
