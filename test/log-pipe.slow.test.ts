import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';

// The service as a process whose log nobody reads at times.

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

/** Starts the service and reads its log until it listens. Its log pauses then. */
async function start(env: Record<string, string> = {}) {
  const child = spawn(process.execPath, [MAIN], {
    env: {
      PATH: process.env.PATH,
      HOME: folder,
      SERVICE_LOCAL: '1',
      SERVICE_PERSIST_BACKEND: 'none',
      SERVICE_MGMT_LISTEN: '127.0.0.1:0',
      SERVICE_MCP_LISTEN: '127.0.0.1:0',
      SERVICE_INFERENCE_LISTEN: '127.0.0.1:0',
      RUST_LOG: 'info',
      ...env,
    },
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
  const request = async (count: number) => {
    for (let n = 0; n < count; n += 20) {
      await Promise.all(Array.from({ length: 20 }, async () => (await fetch(url + LONG_PATH)).text()));
    }
  };
  return { child, lines, url, request, resume: () => reader.resume() };
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
