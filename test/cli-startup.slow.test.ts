import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Gateway, startGateway } from './fixtures/gateway.ts';
import { findOlderNode } from './fixtures/older-node.ts';
import { leastProcessorTime } from './fixtures/processor-time.ts';

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

async function cpuSeconds(node: string): Promise<number> {
  const command = [node, SLUICE, 'tools', 'list', '--host', `http://${gateway.management()}`];
  const { output, seconds } = await leastProcessorTime(command, { HOME: home }, RUNS);
  expect(output).toContain('no tools');
  return seconds;
}

it('a command takes at most 0.15 s of processor time', async () => {
  expect(await cpuSeconds(process.execPath)).toBeLessThanOrEqual(0.15);
});

it.skipIf(OLDER === undefined)('and 0.25 s if an older Node.js starts it', async () => {
  expect(await cpuSeconds(OLDER ?? '')).toBeLessThanOrEqual(0.25);
});
