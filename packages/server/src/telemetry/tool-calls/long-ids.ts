import type { IncomingHttpHeaders } from 'node:http';
import type { TargetLogger } from '../log.ts';
import { idTooLong } from './correlation.ts';

/** A client can send as many as it likes, and is not to fill the log with them. */
const WARN_EVERY_MS = 60_000;

/** Warns of ids that are too long to be used (decisions 4.7, "Correlation"), at most once a minute. */
export class LongIds {
  readonly #log: TargetLogger;
  readonly #now: () => number;
  #quietUntil = Number.NEGATIVE_INFINITY;

  /** `now`: milliseconds of a clock that only goes forwards. */
  constructor(log: TargetLogger, now: () => number = () => performance.now()) {
    this.#log = log;
    this.#now = now;
  }

  /** Looks at the headers of a request that calls this tool. */
  look(headers: IncomingHttpHeaders, tool: string): void {
    const header = idTooLong(headers);
    if (header === undefined || this.#now() < this.#quietUntil) return;
    this.#quietUntil = this.#now() + WARN_EVERY_MS;
    this.#log.warn(`${header} has more than 256 bytes: it is ignored; send a shorter one`, { tool });
  }
}
