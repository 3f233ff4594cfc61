import type { TerminalOutput } from './terminal.ts';
import { sanitizeLine, truncateToWidth } from './text.ts';

/** Progress of a long command on stderr. */
export interface Progress {
  /** Shows the current state in one line. May be called at any rate. */
  readonly update: (line: string) => void;
  /** Erases the line on a terminal. */
  readonly end: () => void;
}

const ON_TERMINAL_MS = 100;
const LINE_INTERVAL_MS = 1000;
const ERASE_LINE = '\r\u001b[K';

/**
 * Updates one line in place on a terminal with control sequences; prints a line per second elsewhere. A command that
 * ends within the first interval prints nothing.
 */
export function createProgress(screen: TerminalOutput, plain: boolean): Progress {
  const updatesInPlace = screen.isTerminal && !plain;
  const interval = updatesInPlace ? ON_TERMINAL_MS : LINE_INTERVAL_MS;
  let last = performance.now();
  let printed = false;
  return {
    update: (line) => {
      const now = performance.now();
      if (now - last < interval) return;
      last = now;
      printed = true;
      const text = sanitizeLine(line);
      screen.write(updatesInPlace ? ERASE_LINE + truncateToWidth(text, (screen.columns ?? 80) - 1) : `${text}\n`);
    },
    end: () => {
      if (printed && updatesInPlace) screen.write(ERASE_LINE);
    },
  };
}
