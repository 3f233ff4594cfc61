import type { Terminal, TerminalOutput } from '../terminal/terminal.ts';

/** A terminal with scripted answers. */
export interface ScriptedTerminal extends Terminal {
  /** Returns the text written to stdout. */
  readonly out: () => string;
  /** Returns the text written to stderr, with prompts and answers. */
  readonly err: () => string;
  /** Presses Ctrl-C. */
  readonly interrupt: () => void;
  /** Closes the reader of stdout. */
  readonly closeReader: () => void;
}

/** Settings of {@link scriptedTerminal}. */
export interface Script {
  /** Answers to prompts; Ctrl-D when there are no more. Without answers there is no terminal. */
  readonly answers?: readonly string[];
  /** Content of stdin. */
  readonly input?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Width of the terminal. */
  readonly columns?: number;
}

/** Creates a terminal without colors for a command in the process of the test. */
export function scriptedTerminal({ answers, input = '', env = {}, cwd = '/', columns }: Script = {}): ScriptedTerminal {
  const interruption = new AbortController();
  const reader = new AbortController();
  const typed = [...(answers ?? [])];
  const out: string[] = [];
  const err: string[] = [];
  const screen = (written: string[]): TerminalOutput => ({
    isTerminal: answers !== undefined,
    columns,
    write: (text) => {
      written.push(text);
    },
    closed: reader.signal,
  });
  return {
    stdin: {
      isTerminal: answers !== undefined,
      text: async () => input,
      line: async (request) => {
        const line = typed.shift();
        err.push(`${request}${line ?? '^D'}\n`);
        return line;
      },
      secret: async (request) => {
        err.push(`${request}\n`);
        return typed.shift();
      },
    },
    stdout: screen(out),
    stderr: screen(err),
    env: { NO_COLOR: '1', ...env },
    cwd,
    interrupted: interruption.signal,
    out: () => out.join(''),
    err: () => err.join(''),
    interrupt: () => interruption.abort(),
    closeReader: () => reader.abort(),
  };
}
