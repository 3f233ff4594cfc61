import * as log from 'service:evaluator/log';

type Line = readonly [write: (message: string) => void, message: string];

/** `console` of an action, which writes to the service log. Output of the build is written by the first run. */
export class LogConsole {
  #buffered: Line[] | undefined = [];

  /** Writes the buffered lines, and later ones directly. */
  flush(): void {
    const lines = this.#buffered ?? [];
    this.#buffered = undefined;
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
    const message = values.map(format).join(' ');
    if (this.#buffered === undefined) write(message);
    else this.#buffered.push([write, message]);
  }
}

function format(value: unknown): string {
  if (typeof value === 'string') return value;
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  if (typeof value !== 'object' || value === null) return String(value);
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    // Circular, or contains a bigint.
    return Object.prototype.toString.call(value);
  }
}
