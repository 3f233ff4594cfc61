import * as log from 'service:evaluator/log';

type Line = readonly [write: (message: string) => void, message: string];

/**
 * The `console` of an action: the service's log. What is written while the action is built, where there is no log, is
 * written when it runs.
 */
export class LogConsole {
  #early: Line[] | undefined = [];

  /** The log is there: writes what has been held back. */
  begin(): void {
    const lines = this.#early ?? [];
    this.#early = undefined;
    for (const [write, message] of lines) write(message);
  }

  log(...values: unknown[]): void {
    this.#write(log.info, values);
  }

  info(...values: unknown[]): void {
    this.#write(log.info, values);
  }

  debug(...values: unknown[]): void {
    this.#write(log.info, values);
  }

  warn(...values: unknown[]): void {
    this.#write(log.warn, values);
  }

  error(...values: unknown[]): void {
    this.#write(log.error, values);
  }

  #write(write: (message: string) => void, values: readonly unknown[]): void {
    const message = values.map(shown).join(' ');
    if (this.#early === undefined) write(message);
    else this.#early.push([write, message]);
  }
}

function shown(value: unknown): string {
  if (typeof value === 'string') return value;
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  if (typeof value !== 'object' || value === null) return String(value);
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    // It contains itself, or a bigint.
    return Object.prototype.toString.call(value);
  }
}
