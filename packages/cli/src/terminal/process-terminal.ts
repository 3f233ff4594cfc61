import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import type { WriteStream } from 'node:tty';
import { Failure } from '../failure.ts';
import type { Keyboard, Screen, Terminal } from './terminal.ts';

/** One Ctrl-C may arrive twice: from the terminal, and passed on by what started us. */
const SAME_SIGINT_MS = 100;
/** What a command may take to end in good order after Ctrl-C. */
const GRACE_MS = 2000;
const EXIT_INTERRUPTED = 130;

/** The terminal of a process. `end` calls back when everything that was written is out. */
export function processTerminal(process: NodeJS.Process): Terminal & { readonly end: (done: () => void) => void } {
  const { stdin, stdout, stderr } = process;
  return {
    stdin: keyboard(stdin, stderr),
    stdout: screen(stdout),
    stderr: screen(stderr),
    env: process.env,
    cwd: process.cwd(),
    interrupted: onCtrlC(process),
    end: (done) => stdout.write('', () => stderr.write('', () => done())),
  };
}

function screen(stream: WriteStream): Screen {
  let gone = false;
  // Whoever reads may stop early (`| head -1`). That is no fault, and nothing is worth saying any more.
  stream.on('error', () => {
    gone = true;
  });
  return {
    isTerminal: stream.isTTY === true,
    get columns() {
      return stream.isTTY ? stream.columns : undefined;
    },
    write: (text) => {
      if (!gone) stream.write(text);
    },
  };
}

function keyboard(stdin: NodeJS.ReadStream, stderr: NodeJS.WriteStream): Keyboard {
  return {
    isTerminal: stdin.isTTY === true,
    text: () => text(stdin),
    line: (question) =>
      new Promise((resolve) => {
        const lines = createInterface({ input: stdin, output: stderr, terminal: true });
        lines.once('close', () => resolve(undefined));
        lines.once('SIGINT', () => {
          lines.close();
          process.emit('SIGINT');
        });
        lines.question(question, (line) => {
          resolve(line);
          lines.close();
        });
      }),
    secret: (question) =>
      new Promise((resolve, reject) => {
        // The line editor echoes to its output, so it gets one that shows nothing.
        const silent = new Writable({ write: (_chunk, _encoding, done) => done() });
        const lines = createInterface({ input: stdin, output: silent, terminal: true });
        stderr.write(question);
        lines.once('line', (line) => {
          resolve(line);
          lines.close();
        });
        lines.once('SIGINT', () => {
          process.emit('SIGINT');
          lines.close();
        });
        lines.once('close', () => {
          stderr.write('\n');
          reject(new Failure('nothing was entered'));
        });
      }),
  };
}

function onCtrlC(process: NodeJS.Process): AbortSignal {
  const controller = new AbortController();
  let first: number | undefined;
  process.on('SIGINT', () => {
    const at = performance.now();
    if (first !== undefined && at - first < SAME_SIGINT_MS) return;
    if (first !== undefined) process.exit(EXIT_INTERRUPTED);
    first = at;
    controller.abort();
    setTimeout(() => process.exit(EXIT_INTERRUPTED), GRACE_MS).unref();
  });
  return controller.signal;
}
