import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Gateway, startGateway } from './fixtures/gateway.ts';
import { findOlderNode } from './fixtures/older-node.ts';
import { leastProcessorTimes } from './fixtures/processor-time.ts';

const SLUICE = fileURLToPath(new URL('../packages/cli/bin/sluice.mjs', import.meta.url));
const ROUNDS = 15;

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

/** Starts Node.js without a program, five times: 0.12 s of processor time where a command may take 0.15 s. */
const STARTS = ['/bin/sh', '-c', 'for i in 1 2 3 4 5; do "$0" --eval 0; done', process.execPath];

/** Processor time of a command, relative to {@link STARTS}. */
async function relativeTime(node: string): Promise<number> {
  const command = [node, SLUICE, 'tools', 'list', '--host', `http://${gateway.management()}`];
  const [starts, listed] = await leastProcessorTimes([STARTS, command], { HOME: home }, ROUNDS);
  expect(listed?.output).toContain('no tools');
  return (listed?.seconds ?? Number.NaN) / (starts?.seconds ?? Number.NaN);
}

it('a command takes as much processor time as six starts of Node.js', async () => {
  expect(await relativeTime(process.execPath)).toBeLessThanOrEqual(1.25);
});

it.skipIf(OLDER === undefined)('and as ten, if an older Node.js starts it', async () => {
  expect(await relativeTime(OLDER ?? '')).toBeLessThanOrEqual(2.1);
});
