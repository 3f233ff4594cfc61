import type { TerminalOutput } from './terminal.ts';
import { sanitizeLine, truncateToWidth } from './text.ts';

/** Tells people how far a long command is, on standard error. */
export interface Progress {
  /** The present state, in a line. May be called as often as one likes. */
  readonly update: (line: string) => void;
  /** Takes the last line away, where it can be. */
  readonly end: () => void;
}

const ON_TERMINAL_MS = 100;
const ELSEWHERE_MS = 1000;
const ERASE_LINE = '\r\u001b[K';

/**
 * One line that is renewed, on a terminal that may get control sequences; a line a second elsewhere. A command that ends
 * within the first interval says nothing.
 */
export function createProgress(screen: TerminalOutput, plain: boolean): Progress {
  const renewed = screen.isTerminal && !plain;
  const interval = renewed ? ON_TERMINAL_MS : ELSEWHERE_MS;
  let last = performance.now();
  let shown = false;
  return {
    update: (line) => {
      const now = performance.now();
      if (now - last < interval) return;
      last = now;
      shown = true;
      const text = sanitizeLine(line);
      screen.write(renewed ? ERASE_LINE + truncateToWidth(text, (screen.columns ?? 80) - 1) : `${text}\n`);
    },
    end: () => {
      if (shown && renewed) screen.write(ERASE_LINE);
    },
  };
}
