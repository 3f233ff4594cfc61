import type { LogMethod, TargetLogger } from './log.ts';

const INTERVAL_MS = 60_000;

/**
 * Returns a function that logs a warning, at most one a minute: clients must not be able to fill the log. `now` returns the
 * milliseconds of a monotonic clock.
 */
export function limitedWarning(log: TargetLogger, now: () => number = () => performance.now()): LogMethod {
  let nextAt = Number.NEGATIVE_INFINITY;
  return (msg, fields) => {
    if (now() < nextAt) return;
    nextAt = now() + INTERVAL_MS;
    log.warn(msg, fields);
  };
}
