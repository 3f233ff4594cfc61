import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';

/** Child process. Its output goes to a file, so that reading it does not affect measurements. */
export interface Child extends AsyncDisposable {
  readonly pid: number;
  /** Returns stdout and stderr since the last `clearOutput`. */
  output(): string;
  /** Truncates the output file. */
  clearOutput(): void;
  /** Sends SIGTERM, and SIGKILL after `graceMs`, and waits for the exit. */
  stop(graceMs?: number): Promise<void>;
  /** Waits for the exit. Throws with the last output after the timeout. */
  waitForExit(timeoutMs: number): Promise<void>;
  /**
   * Polls `probe` until it returns a value.
   *
   * @throws Error with the last output if the process exits or the timeout elapses
   */
  waitFor<T>(what: string, timeoutMs: number, probe: () => T | undefined | Promise<T | undefined>): Promise<T>;
}

/**
 * Starts a process.
 *
 * @param name name in error messages
 * @param outputFile file for stdout and stderr, truncated first
 */
export function startChild(
  name: string,
  outputFile: string,
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): Child {
  writeFileSync(outputFile, '');
  // In append mode, truncation also resets the write position.
  const file = openSync(outputFile, 'a');
  const child: ChildProcess = spawn(command, [...args], { stdio: ['ignore', file, file], env });
  closeSync(file);
  const { pid } = child;
  // A command that fails to start has no pid, which is checked below.
  child.once('error', () => {});
  if (pid === undefined) throw new Error(`${name}: failed to start ${command}: check that it is installed`);
  const exited = new Promise((resolve) => child.once('exit', resolve));
  const hasExited = () => child.exitCode !== null || child.signalCode !== null;
  const output = () => readFileSync(outputFile, 'utf8');

  const stop = async (graceMs = 10_000) => {
    if (hasExited()) return;
    child.kill('SIGTERM');
    const killTimer = setTimeout(() => child.kill('SIGKILL'), graceMs);
    await exited;
    clearTimeout(killTimer);
  };

  return {
    pid,
    output,
    clearOutput: () => truncateSync(outputFile),
    stop,
    [Symbol.asyncDispose]: () => stop(2_000),
    async waitForExit(timeoutMs) {
      await Promise.race([exited, wait(timeoutMs, undefined, { ref: false })]);
      if (!hasExited())
        throw new Error(`${name}: still running after ${timeoutMs} ms; last output:\n${output().slice(-2000)}`);
    },
    async waitFor(what, timeoutMs, probe) {
      const end = performance.now() + timeoutMs;
      for (;;) {
        const value = await probe();
        if (value !== undefined) return value;
        const reason = hasExited() ? `exited (${child.exitCode ?? child.signalCode})` : `timeout of ${timeoutMs} ms`;
        if (hasExited() || performance.now() > end) {
          throw new Error(`${name}: ${reason} before ${what}; last output:\n${output().slice(-2000)}`);
        }
        await wait(5);
      }
    },
  };
}

// Times in /proc are in units of 1/100 s, whatever the kernel's tick.
const ticksPerSecond = 100;

/** Returns the CPU seconds of a process and of all its descendants. */
export function treeCpuSeconds(pid: number): number {
  const children = childrenOf(pid).map((child) => {
    try {
      return treeCpuSeconds(child);
    } catch {
      // Exited in the meantime.
      return 0;
    }
  });
  return children.reduce((sum, seconds) => sum + seconds, cpuSeconds(pid));
}

/** Returns the CPU time (user and system) of all threads in seconds, in nanosecond resolution if the kernel supports it. */
export function cpuSeconds(pid: number): number {
  const threads = `/proc/${pid}/task`;
  if (existsSync(`/proc/${pid}/schedstat`)) {
    const used = readdirSync(threads).map((id) =>
      Number.parseInt(readFileSync(`${threads}/${id}/schedstat`, 'latin1'), 10),
    );
    return used.reduce((sum, nanoseconds) => sum + nanoseconds, 0) / 1e9;
  }
  const { fields } = readStat(pid);
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
}

/** Returns the resident memory of a process in MiB. */
export function residentMiB(pid: number): number {
  return statusMiB(pid, 'VmRSS');
}

/** Returns the maximum of the resident memory of a process since `resetPeak`, in MiB. */
export function peakMiB(pid: number): number {
  return statusMiB(pid, 'VmHWM');
}

/** Sets the maximum of the resident memory of a process to its present value. */
export function resetPeak(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
}

function statusMiB(pid: number, field: string): number {
  const match = new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  return Number(match?.[1] ?? Number.NaN) / 1024;
}

/** Returns the ids of the child processes. */
export function childrenOf(pid: number): number[] {
  return readdirSync(`/proc/${pid}/task`)
    .flatMap((thread) => readFileSync(`/proc/${pid}/task/${thread}/children`, 'latin1').split(' '))
    .filter((child) => child !== '')
    .map(Number);
}

/** Returns the fields after the command, which may contain spaces and parentheses: [0] is the state, [1] the parent. */
function readStat(pid: number): { fields: string[] } {
  const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
  return { fields: text.slice(text.lastIndexOf(')') + 2).split(' ') };
}

/**
 * Returns a free loopback port. nginx cannot report a port chosen by the system, and the gateway reports it in a log line
 * that `--log` may hide.
 */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('no free port');
  return address.port;
}
