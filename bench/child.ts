import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';

/** A process that the bench started. Its output goes to a file, so that reading it costs nobody anything. */
export interface Child extends AsyncDisposable {
  readonly pid: number;
  /** What it wrote to both outputs since the last `forget`. */
  output(): string;
  /** Empties the file of its output. */
  forget(): void;
  /** Asks it to end (SIGTERM), insists after `graceMs`, and waits until it is gone. */
  stop(graceMs?: number): Promise<void>;
  /** Waits until it has ended by itself; throws with its last output when that takes longer. */
  ended(timeoutMs: number): Promise<void>;
  /**
   * Asks `probe` every few milliseconds until it gives a value.
   *
   * @throws Error with the last lines of output when the process ends first or `timeoutMs` passes
   */
  until<T>(what: string, timeoutMs: number, probe: () => T | undefined | Promise<T | undefined>): Promise<T>;
}

/**
 * Starts a process.
 *
 * @param name what error messages call it
 * @param outputFile file that takes its standard output and standard error, emptied first
 */
export function startChild(
  name: string,
  outputFile: string,
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): Child {
  writeFileSync(outputFile, '');
  // Opened for appending, so that emptying it moves the writer's position too.
  const file = openSync(outputFile, 'a');
  const child: ChildProcess = spawn(command, [...args], { stdio: ['ignore', file, file], env });
  closeSync(file);
  const { pid } = child;
  // A command that cannot be started has no id; the event only repeats that, and would end the bench unheard.
  child.once('error', () => {});
  if (pid === undefined) throw new Error(`${name}: ${command} could not be started; is it installed?`);
  const exited = new Promise((resolve) => child.once('exit', resolve));
  const gone = () => child.exitCode !== null || child.signalCode !== null;
  const output = () => readFileSync(outputFile, 'utf8');

  const stop = async (graceMs = 10_000) => {
    if (gone()) return;
    child.kill('SIGTERM');
    const insist = setTimeout(() => child.kill('SIGKILL'), graceMs);
    await exited;
    clearTimeout(insist);
  };

  return {
    pid,
    output,
    forget: () => truncateSync(outputFile),
    stop,
    [Symbol.asyncDispose]: () => stop(2_000),
    async ended(timeoutMs) {
      await Promise.race([exited, wait(timeoutMs, undefined, { ref: false })]);
      if (!gone())
        throw new Error(`${name}: still runs after ${timeoutMs} ms; its last output:\n${output().slice(-2000)}`);
    },
    async until(what, timeoutMs, probe) {
      const end = performance.now() + timeoutMs;
      for (;;) {
        const value = await probe();
        if (value !== undefined) return value;
        const reason = gone() ? `ended (${child.exitCode ?? child.signalCode})` : `took over ${timeoutMs} ms`;
        if (gone() || performance.now() > end) {
          throw new Error(`${name}: ${reason} before ${what}; its last output:\n${output().slice(-2000)}`);
        }
        await wait(5);
      }
    },
  };
}
