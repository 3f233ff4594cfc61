/** How long a server may be silent. */
export interface Patience {
  /** Aborted when it has been silent for too long. */
  readonly signal: AbortSignal;
  /** It has been heard of: the time begins anew. */
  readonly heard: () => void;
  /** The time stands still while a person is asked. */
  readonly pausedDuring: <T>(work: Promise<T>) => Promise<T>;
  readonly end: () => void;
}

/** Begins to wait; `ms` is at most 2147483647. `reason` is what the signal is aborted with. */
export function createPatience(ms: number, reason: () => Error): Patience {
  const controller = new AbortController();
  let paused = 0;
  let timer: NodeJS.Timeout | undefined;
  const heard = () => {
    clearTimeout(timer);
    timer = paused > 0 ? undefined : setTimeout(() => controller.abort(reason()), ms);
  };
  heard();
  return {
    signal: controller.signal,
    heard,
    pausedDuring: async (work) => {
      paused++;
      heard();
      try {
        return await work;
      } finally {
        paused--;
        heard();
      }
    },
    end: () => {
      // Whatever is still heard of must not begin it again.
      paused = Number.POSITIVE_INFINITY;
      clearTimeout(timer);
    },
  };
}
