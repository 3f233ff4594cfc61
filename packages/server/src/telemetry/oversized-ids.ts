import type { TargetLogger } from './log.ts';
import { boundedName } from './redaction.ts';

/** Clients must not be able to fill the log. */
const WARNING_INTERVAL_MS = 60_000;

/** Logs a warning about ids that are too long, at most once a minute. */
export class OversizedIdWarner {
  readonly #log: TargetLogger;
  readonly #now: () => number;
  #suppressedUntil = Number.NEGATIVE_INFINITY;

  /** `now` returns the milliseconds of a monotonic clock. */
  constructor(log: TargetLogger, now: () => number = () => performance.now()) {
    this.#log = log;
    this.#now = now;
  }

  /** Logs the header of a request that calls this tool. */
  warn(header: string, tool: string): void {
    if (this.#now() < this.#suppressedUntil) return;
    this.#suppressedUntil = this.#now() + WARNING_INTERVAL_MS;
    this.#log.warn(`${header} has more than 256 bytes and is ignored`, { tool: boundedName(tool) });
  }
}
