import { afterAll, beforeAll, expect, test } from 'vitest';
import { PeerClient, peerKey } from '../packages/server/src/http/peer-client.ts';
import { authenticated } from '../packages/server/src/identity/authenticator.ts';
import { encodeAuthenticated } from '../packages/server/src/identity/peer.ts';
import { createUser } from '../packages/server/src/identity/principal.ts';
import { startPostgres, type TestPostgres } from '../packages/server/testing/postgres.ts';
import type { TestService } from '../packages/server/testing/service.ts';
import { startGateway } from './fixtures/gateway.ts';
import { OpenRequest, openModern, openPost } from './fixtures/open-request.ts';
import { legacyClient, modernClient, post, reply } from './fixtures/raw-client.ts';
import { textResultText, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';
import { type Replicas, replicaEnvironment, startReplicas } from './fixtures/replicas.ts';

// Blocks with several replicas, and over the end of a process.

let postgres: TestPostgres;
let replicas: Replicas;
let upstream: RawUpstream;
/** Lets the upstream answer the calls that wait. */
let release: () => void;

beforeAll(async () => {
  const gate = Promise.withResolvers<void>();
  release = () => gate.resolve();
  postgres = await startPostgres();
  upstream = await startRawUpstream({
    eras: ['legacy'],
    scripts: {
      'tools/list': toolList(toolText('wait')),
      'tools/call': async () => {
        await gate.promise;
        return textResultText('late');
      },
    },
  });
  replicas = await startReplicas(await postgres.createDatabase(), { env: { SERVICE_PEER_LISTEN: '127.0.0.1:0' } });
  await replicas.services[0]?.register('forwards', { name: 'up', address: upstream.url });
}, 60_000);

afterAll(async () => {
  await replicas[Symbol.asyncDispose]();
  await upstream.close();
  await postgres[Symbol.asyncDispose]();
});

const ANN = { 'x-forwarded-user': 'ann' };
const BOB = { 'x-forwarded-user': 'bob' };
const WAIT = '{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"wait"}}';

/** Opens two calls and two streams at a replica. */
async function openAt(service: TestService, user: typeof ANN): Promise<OpenRequest[]> {
  const url = service.url();
  const { headers } = await legacyClient(url, '{}', user);
  return [
    openPost('legacy call', url, headers).end(WAIT),
    openModern('modern call', url, { method: 'tools/call', params: { name: 'wait' }, headers: user }),
    new OpenRequest('notifications', url, 'GET', { ...headers, accept: 'text/event-stream' }).end(),
    new OpenRequest('events', `${service.management}/api/v1/events`, 'GET', user).end(),
  ];
}

async function toolsOf(service: TestService): Promise<unknown> {
  const { result } = JSON.parse(reply(await modernClient(service.url()).call('tools/list')));
  return result.tools.map(({ name }: { name: string }) => name);
}

test('after the acknowledgement nothing of a blocked principal is answered by any of three replicas', async () => {
  const { services } = replicas;
  const [first, second, third] = services;
  if (!first || !second || !third) throw new Error('there are three replicas');
  await expect.poll(() => Promise.all(services.map(toolsOf))).toEqual([['wait'], ['wait'], ['wait']]);
  const open: OpenRequest[] = [];
  for (let round = 0; round < 17; round++) {
    for (const service of services) open.push(...(await openAt(service, ANN)));
  }
  const others = await openAt(third, BOB);
  expect(open).toHaveLength(204);
  await expect.poll(() => upstream.count('tools/call'), { timeout: 20_000 }).toBe(104);
  const streams = open.filter(({ name }) => name === 'notifications' || name === 'events');
  await expect.poll(() => streams.every(({ status }) => status === 200)).toBe(true);

  const before = performance.now();
  const { status, data } = await first.manage('PUT', '/blocks/ann');
  expect([status, data]).toEqual([200, { id: 'ann', since: expect.any(String) }]);
  expect(performance.now() - before).toBeLessThan(5_000);
  // At once, whatever replica gets the request.
  for (const service of services) {
    const requests = Array.from({ length: 10 }, () =>
      post(service.url(), '{"jsonrpc":"2.0","id":1,"method":"ping"}', ANN),
    );
    for (const answer of await Promise.all(requests)) expect(answer.status).toBe(401);
  }
  // Also one that another replica hands off, which has the principal sealed.
  const rejected = () => second.log.filter((line) => line.includes('the principal is blocked')).length;
  const known = rejected();
  const peer = new PeerClient(peerKey(Buffer.from(replicaEnvironment('').SERVICE_SESSION_KEY ?? '', 'hex')));
  const principal = encodeAuthenticated(authenticated(createUser('ann', 'proxy'))) ?? '';
  const hop = { method: 'POST', target: '/default/mcp', headers: {}, listener: 'mcp', client: '192.0.2.1', principal };
  peer.notify(second.addresses.peer ?? '', hop, Buffer.from(WAIT));
  await expect.poll(rejected).toBe(known + 1);
  peer.close();
  await second.register('namespaces', { name: 'later-event' });
  release();
  await expect.poll(() => others[3]?.text).toContain('later-event');
  await expect.poll(() => others[0]?.text).toContain('late');
  await expect.poll(() => open.filter(({ isOver }) => !isOver).length).toBe(0);
  for (const { name, text } of open) expect(text, name).not.toContain('late');
  await expect.poll(() => upstream.count('notifications/cancelled')).toBe(102);
  expect(others.slice(2).map(({ isOver }) => isOver)).toEqual([false, false]);
  for (const request of others) request.close();

  expect((await second.manage('DELETE', '/blocks/ann')).status).toBe(200);
  for (const service of services) expect((await legacyClient(service.url(), '{}', ANN)).headers).toBeDefined();
}, 120_000);

test('replicas block at the same time, and end stored sessions, without waiting for each other', async () => {
  const { services } = replicas;
  const users = services.map((_, at) => ({ 'x-forwarded-user': `user-${at}` }));
  const sessions = await Promise.all(
    users.flatMap((user) => services.map(async (service) => await legacyClient(service.url(), '{}', user))),
  );
  // A log level is stored.
  for (const client of sessions) await client.call('logging/setLevel', '{"level":"error"}');
  for (let round = 0; round < 3; round++) {
    const before = performance.now();
    const blocked = await Promise.all(services.map((service, at) => service.manage('PUT', `/blocks/user-${at}`)));
    expect(blocked.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(performance.now() - before).toBeLessThan(5_000);
    for (const user of users) {
      const answers = services.map((service) => post(service.url(), WAIT, user));
      expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([401, 401, 401]);
    }
    await Promise.all(services.map((service, at) => service.manage('DELETE', `/blocks/user-${at}`)));
  }
  for (const client of sessions) expect((await client.call('ping')).status).toBe(404);
}, 60_000);

test('a forward is unknown to all replicas when its block is acknowledged', async () => {
  const { services } = replicas;
  const [first, second] = services;
  for (let round = 0; round < 3; round++) {
    expect((await first?.manage('PUT', '/blocks/forward:up'))?.status).toBe(200);
    expect(await Promise.all(services.map(toolsOf))).toEqual([[], [], []]);
    expect((await second?.manage('DELETE', '/blocks/forward:up'))?.status).toBe(200);
    expect(await Promise.all(services.map(toolsOf))).toEqual([['wait'], ['wait'], ['wait']]);
  }
});

test('an acknowledged block survives SIGKILL', async ({ onTestFinished }) => {
  const gateway = await startGateway();
  onTestFinished(gateway.close);
  for (const id of ['ann', 'bob', 'eve']) {
    expect((await gateway.api('PUT', `/api/v1/blocks/${id}`)).status).toBe(200);
    await gateway.kill();
    await gateway.restart();
    expect((await post(gateway.url(), WAIT, { 'x-forwarded-user': id })).status).toBe(401);
  }
  const { body } = await gateway.api('GET', '/api/v1/blocks');
  expect(Object(body).data).toMatchObject([{ id: 'ann' }, { id: 'bob' }, { id: 'eve' }]);
}, 60_000);
