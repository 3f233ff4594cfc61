import { styleText } from 'node:util';
import type { Terminal, TerminalOutput } from './terminal.ts';

/** Colours text where colours may be, else hands it back as it is. */
export type Style = (format: Parameters<typeof styleText>[0], text: string) => string;

/** Colour only on a terminal, and none with `--plain`, NO_COLOR (any value) or on a terminal that has none. */
export function createStyle(screen: TerminalOutput, { env }: Terminal, plain: boolean): Style {
  const coloured = screen.isTerminal && !plain && !env.NO_COLOR && env.TERM !== 'dumb';
  return coloured ? (format, text) => styleText(format, text, { validateStream: false }) : (_format, text) => text;
}
