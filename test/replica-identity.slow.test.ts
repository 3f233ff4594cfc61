import { randomBytes } from 'node:crypto';
import { hashServiceKey } from '@sluice/contract/service-key';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { run } from '../packages/cli/src/run.ts';
import { scriptedTerminal } from '../packages/cli/src/testing/scripted-terminal.ts';
import { parseDatabase } from '../packages/server/src/app/config/environment.ts';
import { Database } from '../packages/server/src/registry/store/postgres/database.ts';
import { ReplicatedLog } from '../packages/server/src/registry/store/postgres/replicated-log.ts';
import { startPostgres, type TestPostgres } from '../packages/server/testing/postgres.ts';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { OpenRequest } from './fixtures/open-request.ts';
import { type Replicas, replicaEnvironment, startReplicas } from './fixtures/replicas.ts';

// Identity with several replicas: a change is acknowledged when it counts on all of them.

const newKey = () => `slk_${randomBytes(32).toString('base64url')}`;
const ADMIN = newKey();
const READER = newKey();
const keyOf = (name: string, key: string) => ({
  name,
  sha256: [hashServiceKey(key)],
  groups: [name],
  management: true,
});
const SETTINGS = {
  anonymous: 'deny',
  keys: [keyOf('admin', ADMIN), keyOf('reader', READER)],
  roles: { admin: ['keys/admin'], viewer: ['keys/reader'] },
};
const WITHOUT_READER = { ...SETTINGS, keys: SETTINGS.keys.slice(0, 1) };
const LOCKED_OUT = { ...SETTINGS, keys: [keyOf('admin', newKey())] };

let postgres: TestPostgres;
let replicas: Replicas;
beforeAll(async () => {
  postgres = await startPostgres();
  replicas = await startReplicas(await postgres.createDatabase());
}, 60_000);
afterAll(async () => {
  await replicas[Symbol.asyncDispose]();
  await postgres[Symbol.asyncDispose]();
});

async function send(
  { management }: TestService,
  path: string,
  { key = ADMIN, method = 'GET', body = {} as object } = {},
) {
  const response = await fetch(`${management}/api/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${key}` },
    ...(method === 'PUT' && { body: JSON.stringify(body) }),
  });
  return { status: response.status, body: await response.json() };
}

function put(service: TestService, identity: object, { key = ADMIN, query = '' } = {}) {
  return send(service, `/identity${query}`, { method: 'PUT', key, body: { identity } });
}

const statuses = (path: string, key: string) =>
  Promise.all(replicas.services.map(async (service) => (await send(service, path, { key })).status));

test('when a change is acknowledged, no replica accepts what it takes away, and open streams have ended', async () => {
  const [first] = replicas.services;
  if (!first) throw new Error('there are replicas');
  const response = await put(first, SETTINGS, { query: '?lock_out=allow' });
  expect(response).toMatchObject({ status: 200 });
  expect(response.body).not.toHaveProperty('unconfirmed');
  expect(await statuses('/forwards', READER)).toEqual([200, 200, 200]);
  const streams = replicas.services.flatMap(({ management }) =>
    Array.from({ length: 20 }, () =>
      new OpenRequest('events', `${management}/api/v1/events`, 'GET', { authorization: `Bearer ${READER}` }).end(),
    ),
  );
  await expect.poll(() => streams.every(({ status }) => status === 200)).toBe(true);
  expect((await put(first, WITHOUT_READER)).status).toBe(200);
  expect(await statuses('/forwards', READER)).toEqual([401, 401, 401]);
  await expect.poll(() => streams.every(({ isOver }) => isOver)).toBe(true);
  expect(await statuses('/identity', ADMIN)).toEqual([200, 200, 200]);
});

test('a key that is made in the database recovers the access at every replica', async () => {
  const [first, second] = replicas.services;
  if (!first || !second) throw new Error('there are replicas');
  expect((await put(first, LOCKED_OUT, { query: '?lock_out=allow' })).status).toBe(200);
  const terminal = scriptedTerminal();
  expect(await run(['admin', 'recover', '--database', replicas.database, '--output', 'json'], terminal)).toBe(0);
  const { key } = JSON.parse(terminal.out());
  expect(await statuses('/identity', key)).toEqual([200, 200, 200]);
  expect((await put(second, SETTINGS, { key })).status).toBe(200);
  expect(await statuses('/identity', ADMIN)).toEqual([200, 200, 200]);
});

/** Commits a record as another replica, perhaps of a later release. */
async function commitRecord(id: string, record: object): Promise<void> {
  const log = { warn: () => undefined, error: () => undefined };
  const database = new Database({ ...parseDatabase({ SERVICE_POSTGRES_URL: replicas.database }), log });
  const shared = new ReplicatedLog({ database, log, version: 'later' });
  await shared.open();
  const changes = [{ section: 'identity_revisions', id, json: JSON.stringify(record) }];
  await shared.commit({ changes, publish: () => undefined });
  await shared.close();
}

test('replicas that cannot read the settings of a later release reject everything, are not ready, and do not start', async () => {
  const [first] = replicas.services;
  if (!first) throw new Error('there are replicas');
  const { data } = (await send(first, '/identity/revisions/active')).body as { data: { id: number; identity: object } };
  const stream = new OpenRequest('events', `${first.management}/api/v1/events`, 'GET', {
    authorization: `Bearer ${ADMIN}`,
  }).end();
  await expect.poll(() => stream.status).toBe(200);
  const readiness = () =>
    Promise.all(replicas.services.map(async ({ management }) => (await fetch(`${management}/readyz`)).status));
  expect(await readiness()).toEqual([200, 200, 200]);

  await commitRecord(String(data.id), { ...data, identity: { ...data.identity, later: true } });
  await expect.poll(() => statuses('/forwards', ADMIN)).toEqual([503, 503, 503]);
  expect(await readiness()).toEqual([503, 503, 503]);
  await expect.poll(() => stream.isOver).toBe(true);
  for (const service of replicas.services) {
    expect((await fetch(service.url(), { method: 'POST', body: '{}' })).status).toBe(503);
    expect(service.log.join('\n')).toContain('identity of another replica cannot be read');
  }
  await expect(startTestService(replicaEnvironment(replicas.database))).rejects.toThrow('identity.later');

  await commitRecord(String(data.id), data);
  await expect.poll(() => statuses('/forwards', ADMIN)).toEqual([200, 200, 200]);
  expect(await readiness()).toEqual([200, 200, 200]);
});
