import { connect } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { Database } from '../packages/server/src/registry/store/postgres/database.ts';
import {
  blackHole,
  type ConnectionHandler,
  connectingTo,
  type FaultyProxy,
  openFaultyProxy,
} from '../packages/server/testing/faulty-proxy.ts';
import { rpc } from '../packages/server/testing/listener.ts';
import { startPostgres, type TestPostgres } from '../packages/server/testing/postgres.ts';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { sessionClient } from '../packages/server/testing/session-client.ts';
import { freePort } from './fixtures/free-port.ts';
import { post } from './fixtures/raw-client.ts';
import { textResultText, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';
import { replicaEnvironment } from './fixtures/replicas.ts';

// What replicas do when PostgreSQL, or the way to it, fails (docs/replicas.md).

let postgres: TestPostgres;
let upstream: RawUpstream;
let proxy: FaultyProxy;
let databaseUrl: string;
let throughProxy: string;
/** Reaches the database through the proxy. */
let replica: TestService;
/** Reaches it directly. */
let other: TestService;

beforeAll(async () => {
  postgres = await startPostgres();
  upstream = await startRawUpstream({
    scripts: { 'tools/list': toolList(toolText('known')), 'tools/call': textResultText('done') },
  });
});

afterAll(async () => {
  await upstream.close();
  await postgres[Symbol.asyncDispose]();
});

beforeEach(async () => {
  databaseUrl = await postgres.createDatabase();
  proxy = await openFaultyProxy(connectingTo(postgres.port));
  throughProxy = databaseUrl.replace(`:${postgres.port}/`, `:${proxy.port}/`);
  other = await startTestService(replicaEnvironment(databaseUrl));
  replica = await startTestService(replicaEnvironment(throughProxy));
});

afterEach(async () => {
  proxy.setHandler(connectingTo(postgres.port));
  await Promise.all([replica.stop(0), other.stop(0)]);
  proxy.close();
});

async function manage(service: TestService, method: string, path: string, body?: object) {
  const response = await fetch(`${service.management}${path}`, {
    method,
    ...(body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
  });
  return { status: response.status, headers: response.headers, body: JSON.parse(await response.text()) };
}

const refuse: ConnectionHandler = (near) => near.resetAndDestroy();

test.each([
  ['refuses connections', refuse],
  ['does not respond', blackHole],
])(
  'while the database %s, everything but changes goes on, and replicas catch up afterwards',
  async (_fault, handler) => {
    await replica.register('forwards', { name: 'up', address: upstream.url });
    const client = await sessionClient(replica.url());
    proxy.setHandler(handler);
    proxy.cut();

    const write = await manage(replica, 'POST', '/api/v1/namespaces', { name: 'team' });
    expect([write.status, write.headers.get('retry-after')]).toEqual([503, expect.stringMatching(/^\d+$/)]);
    expect(write.body.error.code).toBe('UNAVAILABLE');
    const read = await manage(replica, 'GET', '/api/v1/namespaces');
    expect(read.body).toMatchObject({ data: [{ name: 'default' }], stale: true });
    const ready = await manage(replica, 'GET', '/readyz');
    expect([ready.status, ready.body.data]).toEqual([200, { status: 'ready', database: 'unreachable' }]);
    expect(await client.request('tools/call', '{"name":"known","arguments":{}}')).toHaveProperty('result');
    // What may be missing is looked for in the database for a moment only.
    const missedAt = performance.now();
    expect(JSON.parse((await post(replica.url('later'), rpc('tools/list'))).text)).toHaveProperty('error');
    expect(performance.now() - missedAt).toBeLessThan(2_000);
    expect(await sessionClient(replica.url())).toBeDefined();

    await other.register('namespaces', { name: 'later' });
    proxy.setHandler(connectingTo(postgres.port));
    await vi.waitFor(
      async () => {
        const { status } = await post(replica.url('later'), rpc('tools/list'));
        expect(status).toBe(200);
      },
      { timeout: 20_000 },
    );
    expect(await manage(replica, 'GET', '/api/v1/namespaces')).toMatchObject({ body: { error: null } });
    const names = (await manage(replica, 'GET', '/api/v1/namespaces')).body.data.map(
      ({ name }: { name: string }) => name,
    );
    expect(names).toEqual(['default', 'later']);
  },
  60_000,
);

test('a replica that starts without its database is alive, not ready, and serves as soon as it can be reached', async () => {
  const [management, mcp] = [await freePort(), await freePort()];
  await postgres.stop();
  const database = `postgres://postgres@127.0.0.1:${postgres.port}/postgres`;
  const starting = startTestService({
    ...replicaEnvironment(database),
    SERVICE_MGMT_LISTEN: `127.0.0.1:${management}`,
    SERVICE_MCP_LISTEN: `127.0.0.1:${mcp}`,
  });
  const status = async (path: string, port = management) => (await fetch(`http://127.0.0.1:${port}${path}`)).status;
  await vi.waitFor(async () => expect(await status('/healthz')).toBe(200), { timeout: 20_000 });
  expect([await status('/readyz'), await status('/api/v1/tools'), await status('/default/mcp', mcp)]).toEqual([
    503, 503, 503,
  ]);
  await postgres.start();
  const service = await starting;
  expect([await status('/readyz'), await status('/api/v1/tools')]).toEqual([200, 200]);
  await service.stop(0);
}, 60_000);

test('what a replica that is cut off knows decides about no change', async () => {
  await replica.register('namespaces', { name: 'team' });
  proxy.setHandler(refuse);
  proxy.cut();
  expect((await manage(other, 'DELETE', '/api/v1/namespaces/team')).status).toBe(200);
  // It is there for the one, and would not be there for the other.
  for (const [method, path, body] of [
    ['POST', '/api/v1/namespaces', { name: 'team' }],
    ['DELETE', '/api/v1/namespaces/unknown', undefined],
  ] as const) {
    expect((await manage(replica, method, path, body)).status).toBe(503);
  }
});

test('a change of which the confirmation is lost is acknowledged, and made once', async () => {
  let lost = 0;
  proxy.setHandler((near) => {
    const far = connect(postgres.port, '127.0.0.1');
    far.on('error', () => undefined);
    let isLost = false;
    near.on('data', (bytes) => {
      if (!isLost && lost === 0 && bytes.includes('COMMIT')) {
        isLost = true;
        lost++;
      }
      far.write(bytes);
    });
    far.on('data', (bytes) => (isLost ? near.resetAndDestroy() : near.write(bytes)));
    near.once('close', () => far.destroy());
    far.once('close', () => near.destroy());
  });
  proxy.cut();
  await replica.register('namespaces', { name: 'team' });
  expect(lost).toBe(1);
  for (const service of [replica, other]) {
    const { data } = (await manage(service, 'GET', '/api/v1/namespaces')).body;
    expect(data.map(({ name }: { name: string }) => name)).toEqual(['default', 'team']);
  }
});

test('a change that was not sent to the database is refused, and not made', async () => {
  let isCut = false;
  proxy.setHandler((near) => {
    const far = connect(postgres.port, '127.0.0.1');
    far.on('error', () => undefined);
    near.on('data', (bytes) => {
      if (!isCut && bytes.includes('COMMIT')) {
        isCut = true;
        near.resetAndDestroy();
        return;
      }
      far.write(bytes);
    });
    far.on('data', (bytes) => near.write(bytes));
    near.once('close', () => far.destroy());
    far.once('close', () => near.destroy());
  });
  proxy.cut();
  const write = await manage(replica, 'POST', '/api/v1/namespaces', { name: 'team' });
  expect([isCut, write.status]).toEqual([true, 503]);
  const { data } = (await manage(other, 'GET', '/api/v1/namespaces')).body;
  expect(data.map(({ name }: { name: string }) => name)).toEqual(['default']);
  await replica.register('namespaces', { name: 'team' });
});

test('a disabled tool is not called through any replica once that is acknowledged', async () => {
  await replica.register('forwards', { name: 'up', address: upstream.url });
  const call = rpc('tools/call', { name: 'known', arguments: {} });
  for (let round = 0; round < 10; round++) {
    for (const enabled of [false, true]) {
      const { status } = await manage(replica, 'POST', '/api/v1/tools/enabled', { names: ['known'], enabled });
      expect(status).toBe(200);
      const { text } = await post(other.url(), call);
      expect(JSON.parse(text)).toHaveProperty(enabled ? 'result' : 'error');
    }
  }
});

test('a change names the other replicas if the database cannot be asked whether they have applied it', async () => {
  await replica.register('forwards', { name: 'up', address: upstream.url });
  const listed = (await manage(other, 'GET', '/api/v1/replicas')).body.data;
  proxy.setHandler((near) => {
    const far = connect(postgres.port, '127.0.0.1');
    far.on('error', () => undefined);
    near.on('data', (bytes) => {
      if (!bytes.includes("'confirm '")) return far.write(bytes);
      proxy.setHandler(refuse);
      return proxy.cut();
    });
    far.on('data', (bytes) => near.write(bytes));
    near.once('close', () => far.destroy());
    far.once('close', () => near.destroy());
  });
  proxy.cut();
  const { status, body } = await manage(replica, 'POST', '/api/v1/tools/enabled', { names: ['known'], enabled: false });
  expect(status).toBe(200);
  expect(body.unconfirmed).toEqual([listed.find(({ self }: { self: boolean }) => self).id]);
});

test('a replica that is cut off serves what was withdrawn for as long as is permitted', async () => {
  await replica.register('forwards', { name: 'up', address: upstream.url });
  const strict = await startTestService({ ...replicaEnvironment(throughProxy), SERVICE_REPLICA_MAX_STALENESS: '1' });
  const call = async (service: TestService) => {
    const { status, text } = await post(service.url(), rpc('tools/call', { name: 'known', arguments: {} }));
    return [status, Object.keys(JSON.parse(text)).find((key) => key === 'result' || key === 'error')];
  };
  expect([await call(strict), await call(replica)]).toEqual(Array(2).fill([200, 'result']));
  proxy.setHandler(refuse);
  proxy.cut();
  const { body } = await manage(other, 'POST', '/api/v1/tools/enabled', { names: ['known'], enabled: false });
  expect(body.unconfirmed).toHaveLength(2);
  expect(await call(replica)).toEqual([200, 'result']);
  await expect.poll(() => call(strict)).toEqual([503, 'error']);
  proxy.setHandler(connectingTo(postgres.port));
  for (const service of [strict, replica]) await expect.poll(() => call(service)).toEqual([200, 'error']);
  await strict.stop(0);
});

test('a change of which the outcome stays unknown is answered with the id that it has in the database', async () => {
  proxy.setHandler((near) => {
    const far = connect(postgres.port, '127.0.0.1');
    far.on('error', () => undefined);
    let isLost = false;
    near.on('data', (bytes) => {
      isLost ||= bytes.includes('COMMIT');
      far.write(bytes);
    });
    far.on('data', (bytes) => {
      if (!isLost) return near.write(bytes);
      proxy.setHandler(refuse);
      return proxy.cut();
    });
    near.once('close', () => far.destroy());
  });
  proxy.cut();
  const { status, headers, body } = await manage(replica, 'POST', '/api/v1/namespaces', { name: 'team' });
  expect([status, headers.get('retry-after')]).toEqual([503, expect.stringMatching(/^\d+$/)]);
  expect(body.error.details).toEqual({ outcome: 'unknown', commit: expect.any(String) });
  const database = new Database({ url: databaseUrl, log: console });
  const changes = await database.query(
    'SELECT section, changes.id FROM sluice.commits JOIN sluice.changes USING (revision) WHERE commits.id = $1',
    [body.error.details.commit],
  );
  await database.close();
  expect(changes).toEqual([{ section: 'namespaces', id: 'team' }]);
});
