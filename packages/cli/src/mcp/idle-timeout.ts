/** How long a server may be silent. */
export interface IdleTimeout {
  /** Aborted when it has been silent for too long. */
  readonly signal: AbortSignal;
  /** It has been heard of: the time begins anew. */
  readonly restart: () => void;
  /** The time stands still while a person is asked. */
  readonly pauseDuring: <T>(work: Promise<T>) => Promise<T>;
  readonly stop: () => void;
}

/** Begins to wait; `ms` is at most 2147483647. `reason` is what the signal is aborted with. */
export function createIdleTimeout(ms: number, reason: () => Error): IdleTimeout {
  const controller = new AbortController();
  let paused = 0;
  let timer: NodeJS.Timeout | undefined;
  const restart = () => {
    clearTimeout(timer);
    timer = paused > 0 ? undefined : setTimeout(() => controller.abort(reason()), ms);
  };
  restart();
  return {
    signal: controller.signal,
    restart,
    pauseDuring: async (work) => {
      paused++;
      restart();
      try {
        return await work;
      } finally {
        paused--;
        restart();
      }
    },
    stop: () => {
      // Whatever is still heard of must not begin it again.
      paused = Number.POSITIVE_INFINITY;
      clearTimeout(timer);
    },
  };
}
