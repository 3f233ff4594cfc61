import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import type { Variables } from './deploy-files.ts';

/** A program that runs beside a test. */
export interface Program {
  /** What it has written so far. */
  readonly output: () => string;
  /** Ends it and waits for its end. */
  readonly stop: () => Promise<void>;
}

/** How to start a program. */
export interface ProgramOptions {
  readonly command: string;
  readonly args?: readonly string[];
  readonly env: Variables;
  readonly cwd?: string;
  /** Whether the program is ready, or an address that responds with 200 then. */
  readonly ready: string | (() => Promise<boolean>);
  readonly deadlineMs: number;
}

/** Starts a program in a process group of its own, and waits until it is ready. Rejects with its output. */
export async function startProgram({
  command,
  args = [],
  env,
  cwd,
  ready,
  deadlineMs,
}: ProgramOptions): Promise<Program> {
  const written: string[] = [];
  const child = spawn(command, args, { env, cwd, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => written.push(String(chunk)));
  const failed = once(child, 'error').then(([error]) => written.push(String(error)));
  const output = () => written.join('');
  const stop = () => end(child);
  const deadline = performance.now() + deadlineMs;
  while (!(await (typeof ready === 'string' ? isReady(ready) : ready()))) {
    if (
      child.exitCode === null &&
      child.signalCode === null &&
      child.pid !== undefined &&
      performance.now() < deadline
    ) {
      await delay(100);
      continue;
    }
    await Promise.race([failed, stop()]);
    throw new Error(`${command} is not ready:\n${output().slice(-4_000)}`);
  }
  return { output, stop };
}

async function end(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  // The whole group: start scripts have children.
  process.kill(-child.pid, 'SIGTERM');
  await Promise.race([exited, delay(10_000, undefined, { ref: false })]);
  if (child.exitCode === null && child.signalCode === null) process.kill(-child.pid, 'SIGKILL');
  await exited;
}

async function isReady(url: string): Promise<boolean> {
  try {
    const response = await fetch(url, { redirect: 'manual' });
    await response.arrayBuffer();
    return response.status === 200;
  } catch {
    return false;
  }
}
