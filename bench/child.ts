import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';

/** A process that the bench started. Its output goes to a file, so that reading it costs nobody anything. */
export interface Child extends AsyncDisposable {
  readonly pid: number;
  /** What it wrote to both outputs since the last `forget`. */
  output(): string;
  /** Empties the file of its output. */
  clearOutput(): void;
  /** Asks it to end (SIGTERM), insists after `graceMs`, and waits until it is gone. */
  stop(graceMs?: number): Promise<void>;
  /** Waits until it has ended by itself; throws with its last output when that takes longer. */
  waitForExit(timeoutMs: number): Promise<void>;
  /**
   * Asks `probe` every few milliseconds until it gives a value.
   *
   * @throws Error with the last lines of output when the process ends first or `timeoutMs` passes
   */
  waitFor<T>(what: string, timeoutMs: number, probe: () => T | undefined | Promise<T | undefined>): Promise<T>;
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
    clearOutput: () => truncateSync(outputFile),
    stop,
    [Symbol.asyncDispose]: () => stop(2_000),
    async waitForExit(timeoutMs) {
      await Promise.race([exited, wait(timeoutMs, undefined, { ref: false })]);
      if (!gone())
        throw new Error(`${name}: still runs after ${timeoutMs} ms; its last output:\n${output().slice(-2000)}`);
    },
    async waitFor(what, timeoutMs, probe) {
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

// The unit of times in /proc is fixed at 1/100 s for programs, whatever the kernel's own tick.
const ticksPerSecond = 100;

/**
 * CPU time that a process has used in user and system mode, all its threads together, in seconds. The scheduler's own
 * account has nanoseconds; where the kernel does not show it, there are hundredths of a second.
 */
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

/** Resident memory of a process in MiB. */
export function residentMiB(pid: number): number {
  const match = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  return Number(match?.[1] ?? Number.NaN) / 1024;
}

/** Ids of the processes whose parent is `pid`. */
export function childrenOf(pid: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((candidate) => {
      try {
        return Number(readStat(candidate).fields[1]) === pid;
      } catch {
        // It ended while we looked.
        return false;
      }
    });
}

/** The fields after the command, which may itself hold spaces and brackets: [0] is the state, [1] the parent. */
function readStat(pid: number): { fields: string[] } {
  const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
  return { fields: text.slice(text.lastIndexOf(')') + 2).split(' ') };
}

/**
 * A loopback port that was free a moment ago. nginx cannot report a port that the system chose, and the gateway reports
 * it in a log line that `--log` may hide.
 */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('the system gave no port');
  return address.port;
}
