import { afterAll, beforeAll, expect, it } from 'vitest';
import { startPostgres, type TestPostgres } from '../packages/server/testing/postgres.ts';
import { type Balancer, startBalancer } from './fixtures/balancer.ts';
import { startCoreTasksUpstream } from './fixtures/core-tasks-upstream.ts';
import { type Gateway, startGateway } from './fixtures/gateway.ts';
import { replicaEnvironment } from './fixtures/replicas.ts';
import { runTaskSteps, type TaskUpstreams } from './fixtures/task-steps.ts';
import { startTasksUpstream } from './fixtures/tasks-upstream.ts';

// Left out of the fast tests: three processes on one database, of which one after the other is killed.

let postgres: TestPostgres;
let upstreams: TaskUpstreams;
let gateways: Gateway[] = [];
let balancer: Balancer;
beforeAll(async () => {
  postgres = await startPostgres();
  upstreams = { core: await startCoreTasksUpstream(), extension: await startTasksUpstream() };
  const env = { ...replicaEnvironment(await postgres.createDatabase()), SERVICE_PEER_LISTEN: '127.0.0.1:0' };
  gateways = await Promise.all([1, 2, 3].map(() => startGateway({ env })));
  balancer = await startBalancer(gateways.map(hostOf));
  for (const [name, { url }] of Object.entries(upstreams)) await gateways[0]?.forward(name, url, name);
}, 180_000);
afterAll(async () => {
  await balancer?.[Symbol.asyncDispose]();
  await Promise.all(gateways.map((gateway) => gateway.close()));
  await Promise.all([upstreams?.core.close(), upstreams?.extension.close(), postgres?.[Symbol.asyncDispose]()]);
});

function hostOf(gateway: Gateway): string {
  return new URL(gateway.url()).host;
}

it('tasks go on between their creation and each later step while one replica after the other is killed', async () => {
  let killed = 0;
  let down: Gateway | undefined;
  const killNext = async () => {
    const victim = gateways[killed++ % gateways.length];
    balancer.setBackends(gateways.filter((gateway) => gateway !== victim).map(hostOf));
    await victim?.kill();
    // Each is down for one step.
    await down?.restart();
    down = victim;
  };
  await runTaskSteps(upstreams, (name) => `${balancer.url}/${name}/mcp`, killNext);
  expect(killed).toBe(4);
}, 240_000);
