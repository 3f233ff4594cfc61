import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import type { Replica } from '@sluice/contract';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../packages/server/testing/postgres.ts';
import { freePort } from './fixtures/free-port.ts';
import { type Gateway, startGateway } from './fixtures/gateway.ts';
import { send } from './fixtures/raw-client.ts';
import { replicaEnvironment } from './fixtures/replicas.ts';

// Several processes on the same ports (SERVICE_PROCESSES).

let postgres: TestPostgres;
let gateway: Gateway;

beforeAll(async () => {
  postgres = await startPostgres();
  const [management, mcp, inference] = [await freePort(), await freePort(), await freePort()];
  gateway = await startGateway({
    management: `127.0.0.1:${management}`,
    mcp: `127.0.0.1:${mcp}`,
    env: {
      ...replicaEnvironment(await postgres.createDatabase()),
      SERVICE_INFERENCE_LISTEN: `127.0.0.1:${inference}`,
      SERVICE_PROCESSES: '2',
    },
  });
}, 60_000);

afterAll(async () => {
  await gateway.close();
  await postgres[Symbol.asyncDispose]();
});

async function live(): Promise<readonly Replica[]> {
  // Each time on a new connection, which any process may get.
  const { text } = await send(`http://${gateway.management()}/api/v1/replicas`, 'GET', {});
  const { data } = JSON.parse(text) as { data: readonly Replica[] };
  return data.filter((replica) => replica.live);
}

test('are replicas that serve the same ports, are started again when they end, and stop together', async () => {
  await expect.poll(async () => (await live()).length, { timeout: 30_000 }).toBe(2);
  const first = await live();
  // The operating system divides connections among them.
  const answered = new Set<string>();
  while (answered.size < 2) for (const { id, self } of await live()) if (self) answered.add(id);
  expect([...answered].toSorted()).toEqual(first.map(({ id }) => id).toSorted());

  const supervisor = gateway.pid();
  const children = await readFile(`/proc/${supervisor}/task/${supervisor}/children`, 'utf8');
  process.kill(Number(children.split(' ')[0]), 'SIGKILL');
  const successor = async () => (await live()).some(({ id }) => !first.some((known) => known.id === id));
  await expect.poll(successor, { timeout: 30_000 }).toBe(true);
  expect(await gateway.stop()).toBe(0);
}, 120_000);

test('end with the error of the first one, if they cannot start', async () => {
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const { port } = taken.address() as AddressInfo;
  const env = { ...replicaEnvironment(await postgres.createDatabase()), SERVICE_PROCESSES: '2' };
  await expect(startGateway({ management: `127.0.0.1:${port}`, env })).rejects.toThrow(
    /SERVICE_MGMT_LISTEN: cannot listen/,
  );
  taken.close();
}, 60_000);

test('a service with a registry folder loads nothing of the database', async () => {
  const recorder = fileURLToPath(new URL('fixtures/loaded-modules.js', import.meta.url));
  const alone = await startGateway({ nodeArgs: ['--import', recorder] });
  const loaded = alone.logs.filter(({ msg }) => msg === 'module loaded').map(({ url }) => String(url));
  await alone.close();
  expect(loaded.some((url) => url.endsWith('registry/store/file-log.ts'))).toBe(true);
  expect(loaded.filter((url) => /\/node_modules\/pg|store\/postgres\/|postgres-/.test(url))).toEqual([]);
}, 60_000);
