/** What the clients of a session soak did and observed. */
export class SessionTally {
  /** Calls whose result had the responses of their own client. */
  completed = 0;
  /** Server requests responded to: forms, completions and roots. */
  serverRequests = 0;
  /** Log messages and progress notifications. */
  notifications = 0;
  /** Calls that their client canceled. */
  canceled = 0;
  /** Connections, of calls and of notification streams, that were dropped and resumed. */
  resumed = 0;
  /** Calls whose client disconnected or ended its session. */
  disconnected = 0;
  /** Calls that failed because their upstream had lost the session. */
  sessionLosses = 0;
  /** Clients that stopped reading for a while. */
  paused = 0;
  /** Sessions opened and ended. */
  opened = 0;
  ended = 0;
  /** Milliseconds of each call whose client only responded. */
  readonly times: number[] = [];
  /** One line per violation; empty in a good run. */
  readonly failures: string[] = [];

  /** Records a violation. Only the first 50 are stored. */
  fail(line: string): void {
    if (this.failures.length < 50) this.failures.push(line);
  }
}

/** The quantile `part` of the values, in their unit; 0 without values. */
export function quantile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0;
}
