import { styleText } from 'node:util';
import { Failure } from '../failure.ts';

/** Where a command writes to. */
export interface TerminalOutput {
  /** True for a terminal that a person looks at; false for a file or a pipe. */
  readonly isTerminal: boolean;
  /** Width in columns; undefined when it is no terminal, and lines may have any length. */
  readonly columns: number | undefined;
  /** Writes text as it is. Nothing happens any more once the reader has gone. */
  readonly write: (text: string) => void;
  /** Aborted once something was written and the reader had gone. A command that would write for ever ends then. */
  readonly closed: AbortSignal;
}

/** Where a command reads from. */
export interface TerminalInput {
  /** True when a person can be asked. */
  readonly isTerminal: boolean;
  /** Everything up to the end, as text. */
  readonly text: () => Promise<string>;
  /** Asks for one line; undefined when none comes (Ctrl-D, Ctrl-C). Only where {@link isTerminal}. */
  readonly line: (question: string) => Promise<string | undefined>;
  /** The same; what is typed is not shown. */
  readonly secret: (question: string) => Promise<string | undefined>;
}

/** The exit code after Ctrl-C. */
export const EXIT_INTERRUPTED = 130;

/** The world around a command, so that tests can run one in their own process. */
export interface Terminal {
  readonly stdin: TerminalInput;
  readonly stdout: TerminalOutput;
  readonly stderr: TerminalOutput;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The folder that relative paths start at. */
  readonly cwd: string;
  /** Aborted by Ctrl-C. A command that is in the middle of something ends it and returns. */
  readonly interrupted: AbortSignal;
}

/** Asks for a yes or a no, no when nothing is entered; undefined when no answer comes. Only where there is a terminal. */
export async function confirm(question: string, { line }: Pick<TerminalInput, 'line'>): Promise<boolean | undefined> {
  const answer = await line(`${question} [y/N] `);
  return answer === undefined ? undefined : /^y(?:es)?$/i.test(answer.trim());
}

/** Asks before something is changed. Throws {@link Failure} for anything but a yes. */
export async function requireConfirmation(question: string, keyboard: Pick<TerminalInput, 'line'>): Promise<void> {
  if (!(await confirm(question, keyboard))) throw new Failure('nothing was changed');
}

/** Colours text where colours may be, else hands it back as it is. */
export type Style = (format: Parameters<typeof styleText>[0], text: string) => string;

/** Colour only on a terminal, and none with `--plain`, NO_COLOR (any value) or on a terminal that has none. */
export function createStyle(screen: TerminalOutput, { env }: Terminal, plain: boolean): Style {
  const coloured = screen.isTerminal && !plain && !env.NO_COLOR && env.TERM !== 'dumb';
  return coloured ? (format, text) => styleText(format, text, { validateStream: false }) : (_format, text) => text;
}
