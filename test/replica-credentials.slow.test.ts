import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type LiveUpstream, startLiveUpstream } from '../packages/server/testing/live-upstream.ts';
import { startPostgres, type TestPostgres } from '../packages/server/testing/postgres.ts';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { clientOf, sessionClient } from '../packages/server/testing/session-client.ts';
import { send } from './fixtures/raw-client.ts';
import { replicaEnvironment } from './fixtures/replicas.ts';

// What was authenticated at one replica, and is handed off to another one.

const newKey = () => `slk_${randomBytes(32).toString('base64url')}`;
const KEYS = { root: newKey(), agent: newKey(), other: newKey() } as const;
type Name = keyof typeof KEYS;
const bearer = (name: Name) => ({ authorization: `Bearer ${KEYS[name]}` });
const key = (name: Name) => {
  const sha256 = [createHash('sha256').update(KEYS[name]).digest('hex')];
  return { name, sha256, groups: [name], management: name === 'root', ...(name === 'agent' && { for: ['default'] }) };
};
const identity = (...names: Name[]) => ({ anonymous: 'deny', keys: names.map(key), roles: { admin: ['keys/root'] } });

let folder: string;
let postgres: TestPostgres;
let upstream: LiveUpstream;
let a: TestService;
let b: TestService;

beforeAll(async () => {
  postgres = await startPostgres();
  upstream = await startLiveUpstream({ capabilities: '{"tools":{}}' });
  folder = await mkdtemp(join(tmpdir(), 'sluice-replicas-'));
  const file = join(folder, 'service.yaml');
  const forwards = [{ name: 'live', address: upstream.url }];
  await writeFile(file, JSON.stringify({ identity: identity('root', 'agent', 'other'), forwards }));
  const env = { ...replicaEnvironment(await postgres.createDatabase()), SERVICE_PEER_LISTEN: '127.0.0.1:0' };
  const start = () => startTestService(env, ['--service-config', file]);
  a = await start();
  b = await start();
}, 60_000);
afterAll(async () => {
  await Promise.all([a?.stop(0), b?.stop(0)]);
  await upstream?.close();
  await postgres?.[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

/** A call at A whose stream the client has resumed through B. */
async function resumedThroughB(name: Name) {
  const onA = await sessionClient(a.url(), {}, bearer(name));
  const response = onA.call('1', '"progressToken":"p"');
  const call = await upstream.calls.next();
  call.begin();
  call.progress(1);
  await response.message(0);
  response.disconnect();
  const resumed = clientOf(b.url(), onA.headers).listen(response.lastId);
  call.progress(2);
  expect(await resumed.message(0)).toContain('"progress":2');
  return { call, resumed };
}

it('a removed key ends the call at the one and the stream at the other, and no other call', async () => {
  const agent = await resumedThroughB('agent');
  const other = await resumedThroughB('other');
  const settings = { headers: { ...bearer('root'), 'content-type': 'application/json' } };
  const change = JSON.stringify({ identity: identity('root', 'other') });
  const changed = await send(`${b.management}/api/v1/identity`, 'PUT', settings.headers, change);
  expect(changed.status).toBe(200);
  expect(await agent.resumed.ended).toBe(false);
  await expect.poll(() => agent.call.isDisconnected).toBe(true);
  expect(upstream.of('notifications/cancelled')).toHaveLength(1);
  other.call.end('done');
  expect(await other.resumed.message(1)).toContain('done');
});
