import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Gateway, startGateway } from './fixtures/gateway.ts';
import { findOlderNode } from './fixtures/older-node.ts';

const SLUICE = fileURLToPath(new URL('../packages/cli/bin/sluice.mjs', import.meta.url));
const RUNS = 15;

const OLDER = findOlderNode();

let gateway: Gateway;
let home: string;
beforeAll(async () => {
  [gateway, home] = await Promise.all([startGateway(), mkdtemp(join(tmpdir(), 'sluice-startup-'))]);
});
afterAll(async () => {
  await gateway.close();
  await rm(home, { recursive: true });
});

/** Seconds of processor time of the fastest of some runs: other processes slow the rest down. The first fills the cache. */
async function cpuSeconds(node: string): Promise<number> {
  const command = `"${node}" "${SLUICE}" tools list --host http://${gateway.management()} 2>&1; times`;
  let least = Number.POSITIVE_INFINITY;
  for (let run = 0; run <= RUNS; run += 1) {
    const { stdout } = await promisify(execFile)('/bin/sh', ['-c', command], { env: { HOME: home } });
    // The second line is of the children: user and system, such as 0m0.11s.
    const [, minutes, user, systemMinutes, system] = /(\d+)m([\d.]+)s (\d+)m([\d.]+)s\n$/.exec(stdout) ?? [];
    expect(stdout).toContain('no tools');
    if (run > 0)
      least = Math.min(least, 60 * (Number(minutes) + Number(systemMinutes)) + Number(user) + Number(system));
  }
  return least;
}

it('a command takes at most 0.15 s of processor time', async () => {
  expect(await cpuSeconds(process.execPath)).toBeLessThanOrEqual(0.15);
});

it.skipIf(OLDER === undefined)('and 0.25 s if an older Node.js starts it', async () => {
  expect(await cpuSeconds(OLDER ?? '')).toBeLessThanOrEqual(0.25);
});
