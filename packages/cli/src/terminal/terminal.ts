import { styleText } from 'node:util';
import { Failure } from '../failure.ts';

/** An output stream of a command. */
export interface TerminalOutput {
  /** True for a terminal that a person looks at; false for a file or a pipe. */
  readonly isTerminal: boolean;
  /** Width in columns; undefined when the stream is not a terminal. */
  readonly columns: number | undefined;
  /** Writes text. Ignored after the reader has closed. */
  readonly write: (text: string) => void;
  /** Aborted when a write fails because the reader has closed. Commands that write forever end then. */
  readonly closed: AbortSignal;
}

/** Input of a command. */
export interface TerminalInput {
  /** Whether the user can be prompted. */
  readonly isTerminal: boolean;
  /** Reads all input as text. */
  readonly text: () => Promise<string>;
  /** Prompts for a line; undefined after Ctrl-D or Ctrl-C. Requires {@link isTerminal}. */
  readonly line: (request: string) => Promise<string | undefined>;
  /** Prompts for a line without echo. */
  readonly secret: (request: string) => Promise<string | undefined>;
}

/** Exit code after Ctrl-C. */
export const EXIT_INTERRUPTED = 130;

/** Environment of a command, so that tests can run commands in their own process. */
export interface Terminal {
  readonly stdin: TerminalInput;
  readonly stdout: TerminalOutput;
  readonly stderr: TerminalOutput;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Base of relative paths. */
  readonly cwd: string;
  /** Aborted by Ctrl-C. A running command cleans up and returns. */
  readonly interrupted: AbortSignal;
}

/** Asks a yes/no question, no by default; undefined without an answer. Requires a terminal. */
export async function confirm(request: string, { line }: Pick<TerminalInput, 'line'>): Promise<boolean | undefined> {
  const response = await line(`${request} [y/N] `);
  return response === undefined ? undefined : /^y(?:es)?$/i.test(response.trim());
}

/** Asks before a change. Throws {@link Failure} for anything but yes. */
export async function requireConfirmation(request: string, keyboard: Pick<TerminalInput, 'line'>): Promise<void> {
  if (!(await confirm(request, keyboard))) throw new Failure('nothing was changed');
}

/** Styles text where colors are supported; returns it unchanged elsewhere. */
export type Style = (format: Parameters<typeof styleText>[0], text: string) => string;

/** Colors are used on a terminal only, and not with `--plain`, NO_COLOR (any value) or TERM=dumb. */
export function createStyle(screen: TerminalOutput, { env }: Terminal, plain: boolean): Style {
  const isColored = screen.isTerminal && !plain && !env.NO_COLOR && env.TERM !== 'dumb';
  return isColored ? (format, text) => styleText(format, text, { validateStream: false }) : (_format, text) => text;
}
