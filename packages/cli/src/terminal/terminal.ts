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
