import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import type { WriteStream } from 'node:tty';
import { oncePerInterrupt } from '@sluice/protocol/timing';
import { EXIT_INTERRUPTED, type Terminal, type TerminalInput, type TerminalOutput } from './terminal.ts';

/** Time for a command to end cleanly after Ctrl-C. */
const GRACE_MS = 2000;

/** Creates the terminal of a process. `end` calls back when all output is flushed. */
export function processTerminal(owner: NodeJS.Process): Terminal & { readonly end: (done: () => void) => void } {
  const { stdout, stderr } = owner;
  return {
    stdin: inputOf(owner),
    stdout: outputOf(stdout),
    stderr: outputOf(stderr),
    env: owner.env,
    cwd: owner.cwd(),
    interrupted: interruptSignal(owner),
    end: (done) => stdout.write('', () => stderr.write('', () => done())),
  };
}

function outputOf(stream: WriteStream): TerminalOutput {
  const reader = new AbortController();
  // The reader may close early (`| head -1`), which is not an error.
  stream.on('error', () => reader.abort());
  return {
    isTerminal: stream.isTTY === true,
    get columns() {
      return stream.isTTY ? stream.columns : undefined;
    },
    write: (text) => {
      if (!reader.signal.aborted) stream.write(text);
    },
    closed: reader.signal,
  };
}

function inputOf(owner: NodeJS.Process): TerminalInput {
  const { stdin, stderr } = owner;
  return {
    isTerminal: stdin.isTTY === true,
    text: () => text(stdin),
    line: (request) =>
      new Promise((resolve) => {
        const lines = createInterface({ input: stdin, output: stderr, terminal: true });
        lines.once('close', () => resolve(undefined));
        lines.once('SIGINT', () => {
          lines.close();
          owner.emit('SIGINT');
        });
        lines.question(request, (line) => {
          resolve(line);
          lines.close();
        });
      }),
    secret: (request) =>
      new Promise((resolve) => {
        // The line editor echoes to its output, which therefore discards everything.
        const silent = new Writable({ write: (_chunk, _encoding, done) => done() });
        const lines = createInterface({ input: stdin, output: silent, terminal: true });
        stderr.write(request);
        lines.once('line', (line) => {
          resolve(line);
          lines.close();
        });
        lines.once('SIGINT', () => {
          owner.emit('SIGINT');
          lines.close();
        });
        lines.once('close', () => {
          stderr.write('\n');
          resolve(undefined);
        });
      }),
  };
}

function interruptSignal(owner: NodeJS.Process): AbortSignal {
  const controller = new AbortController();
  const interrupt = oncePerInterrupt(() => {
    if (controller.signal.aborted) owner.exit(EXIT_INTERRUPTED);
    controller.abort();
    setTimeout(() => owner.exit(EXIT_INTERRUPTED), GRACE_MS).unref();
  });
  owner.on('SIGINT', interrupt);
  return controller.signal;
}
