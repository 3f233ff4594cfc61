import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';

// The service as a process whose log nobody reads at times, or only slowly.

const MAIN = fileURLToPath(new URL('../packages/server/src/main.ts', import.meta.url));
/** Longest path that a line contains. */
const LONG_PATH = `/${'x'.repeat(900)}`;

let folder: string;
let running: ChildProcess[] = [];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-log-'));
});
afterEach(async () => {
  for (const child of running) child.kill('SIGKILL');
  running = [];
  await rm(folder, { recursive: true, force: true });
});

function environment(): Record<string, string | undefined> {
  return {
    PATH: process.env.PATH,
    HOME: folder,
    SERVICE_LOCAL: '1',
    SERVICE_PERSIST_BACKEND: 'none',
    SERVICE_MGMT_LISTEN: '127.0.0.1:0',
    SERVICE_MCP_LISTEN: '127.0.0.1:0',
    SERVICE_INFERENCE_LISTEN: '127.0.0.1:0',
    RUST_LOG: 'info',
  };
}

/** Sends this many requests, each of which is logged. */
async function send(url: string, count: number): Promise<void> {
  for (let n = 0; n < count; n += 20) {
    await Promise.all(Array.from({ length: 20 }, async () => (await fetch(url + LONG_PATH)).text()));
  }
}

/** Starts the service and reads its log until it listens. Its log pauses then. */
async function start(env: Record<string, string> = {}) {
  const child = spawn(process.execPath, [MAIN], {
    env: { ...environment(), ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  running.push(child);
  const { stderr } = child;
  if (!stderr) throw new Error('no standard error');
  const lines: string[] = [];
  const reader = createInterface({ input: stderr }).on('line', (line) => lines.push(line));
  const listening = (): string | undefined => lines.find((line) => line.includes('"msg":"listening"'));
  await expect.poll(listening, { timeout: 30_000 }).toBeDefined();
  reader.pause();
  stderr.pause();
  const url = `http://${JSON.parse(listening() ?? '').management}`;
  return { child, stderr, lines, request: (count: number) => send(url, count), resume: () => reader.resume() };
}

const requests = (lines: readonly string[]) => lines.filter((line) => line.includes('"msg":"request"')).length;

test('requests are served while nobody reads the log; at SIGTERM the service waits for the reader, and loses nothing', async () => {
  const { child, lines, request, resume } = await start();
  // More than a pipe and the stream that reads it have room for.
  await request(400);
  const closed = once(child, 'close');
  child.kill('SIGTERM');
  resume();
  expect(await closed).toEqual([0, null]);
  expect(requests(lines)).toBe(400);
  expect(lines.at(-1)).toContain('"msg":"stopped"');
  expect(lines.join()).not.toContain('lost');
});

test('a service whose log is not read ends all the same', { tags: ['slow'] }, async () => {
  const { child, request } = await start();
  await request(400);
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  expect(await exited).toEqual([0, null]);
});

test('what a slow reader has no time for is dropped and counted, and the rest is complete', {
  tags: ['slow'],
}, async () => {
  const { child, lines, stderr, request, resume } = await start({ SERVICE_MAX_LOG_BYTES: '1048576' });
  // It reads about a fifth of what is written.
  const count = 3_000;
  for (let sent = 0; sent < count; sent += 20) {
    await request(20);
    // Passed to the reader of lines.
    stderr.read(4_096);
  }
  const closed = once(child, 'close');
  child.kill('SIGTERM');
  resume();
  expect(await closed).toEqual([0, null]);
  const logged = lines.filter((line) => line.includes('"msg":"request"'));
  const dropped = lines
    .filter((line) => line.includes('"msg":"log lines dropped: standard error was not read in time"'))
    .reduce((sum, line) => sum + Number(/"count":(\d+)/.exec(line)?.[1]), 0);
  expect(dropped).toBeGreaterThan(count / 10);
  // One of the lines about the end may be dropped too.
  expect(logged.length + dropped).toBeGreaterThanOrEqual(count);
  expect(logged.length + dropped).toBeLessThan(count + 3);
});

/** Control characters that stop and continue the output of a terminal. */
const [STOP, CONTINUE] = ['\x13', '\x11'];

/** `script` of util-linux, which every Debian has, runs a program in a terminal. */
const hasTerminals = process.platform === 'linux';

/** Starts the service in a terminal. */
async function startInTerminal() {
  const command = `echo "pid:$$"; exec "${process.execPath}" "${MAIN}"`;
  const child = spawn('script', ['-qefc', command, '/dev/null'], { env: environment(), stdio: 'pipe' });
  running.push(child);
  const lines: string[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => lines.push(line));
  const found = (text: string): string | undefined => lines.find((line) => line.includes(text));
  // The last line of the welcome, which a stopped terminal would keep the service from writing.
  await expect.poll(() => found('API reference'), { timeout: 30_000 }).toBeDefined();
  const pid = Number(/pid:(\d+)/.exec(found('pid:') ?? '')?.[1]);
  const [, address = ''] = /management\W+([\d.]+:\d+)/.exec(found('listening') ?? '') ?? [];
  return { child, lines, pid, url: `http://${address}` };
}

test.skipIf(!hasTerminals)(
  'requests are served while the output of a terminal is stopped, and their lines follow',
  {
    tags: ['slow'],
  },
  async () => {
    const { child, lines, pid, url } = await startInTerminal();
    await send(url, 20);
    const logged = () => lines.filter((line) => line.includes(LONG_PATH.slice(0, 500))).length;
    await expect.poll(logged, { timeout: 30_000 }).toBe(20);
    child.stdin.write(STOP);
    // More than the terminal has room for.
    await send(url, 400);
    expect(logged()).toBeLessThan(420);
    child.stdin.write(CONTINUE);
    await expect.poll(logged, { timeout: 30_000 }).toBe(420);
    const exited = once(child, 'exit');
    process.kill(pid, 'SIGTERM');
    expect(await exited).toEqual([0, null]);
  },
);

test.skipIf(!hasTerminals)(
  'a service ends although the output of its terminal is stopped',
  { tags: ['slow'] },
  async () => {
    const { child, pid, url } = await startInTerminal();
    child.stdin.write(STOP);
    await send(url, 400);
    process.kill(pid, 'SIGTERM');
    await expect.poll(() => isRunning(pid), { timeout: 30_000 }).toBe(false);
  },
);

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
