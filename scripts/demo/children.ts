import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

/** A program to run as a process of its own, with the Node.js that runs this. */
export interface Program<T> {
  /** What messages call it. */
  readonly name: string;
  /** Script and arguments. */
  readonly args: readonly string[];
  /** Its whole environment: nothing of ours is passed on. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Working directory. */
  readonly folder: string;
  /** What the line that says that it is ready says; undefined for every other line of its output. */
  readonly ready: (line: string) => T | undefined;
}

/** A program that is ready. */
export interface Running<T> {
  readonly pid: number;
  /** What its ready line said. */
  readonly value: T;
  /** The last lines of its output, as they come. */
  readonly output: readonly string[];
}

const START_MS = 20_000;
/** How long a process that was asked to end may take; the service itself waits up to 30 s for calls under way. */
const END_MS = 5_000;
/** Lines of output that are kept to tell a failure with. */
const KEPT = 10;

/** The processes that were started here, which nobody but us ends. */
export class Children {
  readonly #children = new Set<ChildProcess>();
  readonly #lost = Promise.withResolvers<string>();
  #ending = false;

  /** Resolves when a process that was ready ends and was not asked to, with a line that says so. */
  get lost(): Promise<string> {
    return this.#lost.promise;
  }

  /** Starts a program and waits until it is ready. Rejects with the end of its output when it does not come to that. */
  async start<T>({ name, args, env, folder, ready }: Program<T>): Promise<Running<T>> {
    const child = spawn(process.execPath, args, {
      cwd: folder,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
      // In a process group of its own Ctrl-C does not reach it: it is ended here, once, and in order.
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
        if (output.length > KEPT) output.shift();
        const value = ready(line);
        if (value === undefined) return;
        isReady = true;
        resolve(value);
      });
    }
    child.once('error', (error) => fail(`could not be started: ${error.message}`));
    child.once('close', (code, signal) => {
      this.#children.delete(child);
      if (!isReady) fail(`ended before it was ready (${signal ?? code})`);
      else if (!this.#ending) this.#lost.resolve(`${name} ended by itself (${signal ?? code})`);
    });
    const late = setTimeout(() => fail(`was not ready within ${START_MS / 1000} s`), START_MS);
    try {
      return { value: await promise, pid: child.pid ?? 0, output };
    } finally {
      clearTimeout(late);
    }
  }

  /** Ends all of them, the last one started first, and resolves when they are gone. */
  async end(): Promise<void> {
    this.#ending = true;
    for (const child of [...this.#children].reverse()) {
      const gone = once(child, 'exit');
      if (child.exitCode !== null || child.signalCode !== null || !child.kill('SIGTERM')) continue;
      const late = setTimeout(() => child.kill('SIGKILL'), END_MS);
      await gone;
      clearTimeout(late);
    }
  }
}
