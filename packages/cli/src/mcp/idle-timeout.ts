/** Idle timeout of an MCP server. */
export interface IdleTimeout {
  /** Aborted when the server has been idle for too long. */
  readonly signal: AbortSignal;
  /** Restarts the timeout after a message of the server. */
  readonly restart: () => void;
  /** Pauses the timeout, for example while the user is prompted. */
  readonly pauseDuring: <T>(work: Promise<T>) => Promise<T>;
  readonly stop: () => void;
}

/** Starts the timeout; `ms` is at most 2147483647. `reason` creates the abort reason. */
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
      // Later messages must not restart the timeout.
      paused = Number.POSITIVE_INFINITY;
      clearTimeout(timer);
    },
  };
}
