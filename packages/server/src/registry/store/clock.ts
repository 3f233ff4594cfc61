/** Time as the store sees it; tests hold it still. */
export interface Clock {
  /** Epoch milliseconds. */
  now(): number;
  /** Calls back once after so many milliseconds, without keeping the process alive; returns how to cancel. */
  after(ms: number, run: () => void): () => void;
}

/** The machine's clock. */
export function systemClock(): Clock {
  return {
    now: () => Date.now(),
    after(ms, run) {
      const timer = setTimeout(run, ms).unref();
      return () => clearTimeout(timer);
    },
  };
}
