import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

/** Node.js program to run as a child process. */
export interface Program<T> {
  /** Name in messages. */
  readonly name: string;
  /** Script and arguments. */
  readonly args: readonly string[];
  /** Complete environment; nothing is inherited. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Working directory. */
  readonly folder: string;
  /** Parses the output line that signals readiness; returns undefined for other lines. */
  readonly ready: (line: string) => T | undefined;
}

/** Running program that is ready. */
export interface Running<T> {
  readonly pid: number;
  /** Value parsed from the ready line. */
  readonly value: T;
  /** Latest lines of output; grows as they arrive. */
  readonly output: readonly string[];
}

const START_TIMEOUT_MS = 20_000;
/** Time until a process is killed; the service itself waits up to 30 s for in-flight calls. */
const STOP_TIMEOUT_MS = 5_000;
/** Lines of output in error messages. */
const OUTPUT_LINES = 10;

/** Child processes of the demo. */
export class ChildProcesses {
  readonly #children = new Set<ChildProcess>();
  readonly #exited = Promise.withResolvers<string>();
  #ending = false;

  /** Resolves with a message when a ready process exits unexpectedly. */
  get exited(): Promise<string> {
    return this.#exited.promise;
  }

  /** Starts a program and waits until it is ready. Rejects with its last output if it fails to start. */
  async start<T>({ name, args, env, folder, ready }: Program<T>): Promise<Running<T>> {
    const child = spawn(process.execPath, args, {
      cwd: folder,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
      // Keeps Ctrl-C from reaching it: children are stopped in order.
      detached: true,
    });
    this.#children.add(child);
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const output: string[] = [];
    let isReady = false;
    const fail = (what: string): void => reject(new Error([`${name} ${what}`, ...output].join('\n    ')));
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on('line', (line) => {
        output.push(line);
        if (output.length > OUTPUT_LINES) output.shift();
        const value = ready(line);
        if (value === undefined) return;
        isReady = true;
        resolve(value);
      });
    }
    child.once('error', (error) => fail(`failed to start: ${error.message}`));
    child.once('close', (code, signal) => {
      this.#children.delete(child);
      if (!isReady) fail(`exited before it was ready (${signal ?? code})`);
      else if (!this.#ending) this.#exited.resolve(`${name} exited unexpectedly (${signal ?? code})`);
    });
    const startTimer = setTimeout(() => fail(`was not ready within ${START_TIMEOUT_MS / 1000} s`), START_TIMEOUT_MS);
    try {
      return { value: await promise, pid: child.pid ?? 0, output };
    } finally {
      clearTimeout(startTimer);
    }
  }

  /** Stops all processes in reverse order and waits until they have exited. */
  async stop(): Promise<void> {
    this.#ending = true;
    for (const child of [...this.#children].reverse()) {
      const exited = once(child, 'exit');
      if (child.exitCode !== null || child.signalCode !== null || !child.kill('SIGTERM')) continue;
      const killTimer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
      await exited;
      clearTimeout(killTimer);
    }
  }
}
