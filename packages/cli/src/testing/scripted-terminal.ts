import type { Terminal, TerminalOutput } from '../terminal/terminal.ts';

/** A terminal whose person has made up their mind beforehand. */
export interface ScriptedTerminal extends Terminal {
  /** What has been written to standard output. */
  readonly out: () => string;
  /** What has been written to standard error, the questions and their answers included. */
  readonly err: () => string;
  /** Presses Ctrl-C. */
  readonly interrupt: () => void;
  /** Closes what reads standard output. */
  readonly closeReader: () => void;
}

/** Settings of {@link scriptedTerminal}. */
export interface Script {
  /** What is typed at each question; Ctrl-D when there is no more. Without it nobody is there, and there is no terminal. */
  readonly answers?: readonly string[];
  /** What comes from standard input. */
  readonly input?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Width of the terminal. */
  readonly columns?: number;
}

/** A terminal for a command that runs in the test's own process. It shows no colours. */
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
      line: async (question) => {
        const line = typed.shift();
        err.push(`${question}${line ?? '^D'}\n`);
        return line;
      },
      secret: async (question) => {
        err.push(`${question}\n`);
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
