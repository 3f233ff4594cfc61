/** What the clients of a run have seen and done. */
export class Witness {
  /** Calls that were answered with what their own client had said. */
  answered = 0;
  /** Questions answered: forms, completions and roots. */
  questions = 0;
  /** Log messages and progress reports. */
  notices = 0;
  /** Calls that their client cancelled. */
  cancelled = 0;
  /** Connections, of calls and of notification streams, that were cut and taken up again. */
  resumed = 0;
  /** Calls whose client left in the middle, or ended its session. */
  left = 0;
  /** Calls that ended with an error because their upstream had forgotten the session. */
  lost = 0;
  /** Clients that read slowly for a while. */
  slow = 0;
  /** Sessions opened and ended. */
  opened = 0;
  ended = 0;
  /** Milliseconds that calls took whose client did nothing special. */
  readonly times: number[] = [];
  /** A line for everything that must not be; empty in a good run. */
  readonly wrong: string[] = [];

  /** What must not be. Only the first are kept: the others are more of the same. */
  reject(line: string): void {
    if (this.wrong.length < 50) this.wrong.push(line);
  }
}

/** The value below which this part of all values lies, in the values' own unit; 0 for none. */
export function quantile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0;
}
