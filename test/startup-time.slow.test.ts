import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { freePort } from './fixtures/free-port.ts';
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

/** Processor time of a command with this output, relative to {@link STARTS}. */
async function relativeTime(command: readonly string[], output: string, rounds = ROUNDS): Promise<number> {
  const [starts, measured] = await leastProcessorTimes(
    [STARTS, command],
    { PATH: process.env.PATH, HOME: home },
    rounds,
  );
  expect(measured?.output).toContain(output);
  return (measured?.seconds ?? Number.NaN) / (starts?.seconds ?? Number.NaN);
}

const listTools = (node: string) => [node, SLUICE, 'tools', 'list', '--host', `http://${gateway.management()}`];

it('a command takes as much processor time as six starts of Node.js', async () => {
  expect(await relativeTime(listTools(process.execPath), 'no tools')).toBeLessThanOrEqual(1.25);
});

it.skipIf(OLDER === undefined)('and as ten, if an older Node.js starts it', async () => {
  expect(await relativeTime(listTools(OLDER ?? ''), 'no tools')).toBeLessThanOrEqual(2.1);
});

// 1.5 s where Node.js starts in 0.025 s.
it('the service starts again in the time of 60 starts of Node.js, npm included', async () => {
  const url = `http://127.0.0.1:${await freePort()}`;
  // One program that waits costs the same on a busy machine.
  const script = `
    npm start -- --local --port ${new URL(url).port} & service=$!
    curl -fso /dev/null --retry 120 --retry-connrefused --retry-delay 1 ${url}/readyz
    kill -INT $service; wait $service || true`;
  const env = ['env', `SERVICE_PERSIST_PATH=${join(home, 'data')}`, 'SERVICE_UI_PATH=none', 'RUST_LOG=info'];
  expect(await relativeTime([...env, '/bin/sh', '-c', script], '"msg":"stopped"', 3)).toBeLessThanOrEqual(12);
});
