import { randomBytes } from 'node:crypto';
import { lstat, mkdtemp, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { hashServiceKey } from '@sluice/contract/service-key';
import { expect, type TestContext, test } from 'vitest';
import { run } from '../packages/cli/src/run.ts';
import { scriptedTerminal } from '../packages/cli/src/testing/scripted-terminal.ts';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { startGateway } from './fixtures/gateway.ts';
import { OpenRequest } from './fixtures/open-request.ts';

// Changes of identity: over the API, in the bootstrap file, and when nobody can administer any more.

const newKey = () => `slk_${randomBytes(32).toString('base64url')}`;
const ADMIN = newKey();
const READER = newKey();
const bearer = (key: string) => ({ authorization: `Bearer ${key}` });
const keyOf = (name: string, key: string) => ({
  name,
  sha256: [hashServiceKey(key)],
  groups: [name],
  management: true,
});
const SETTINGS = {
  anonymous: 'deny',
  keys: [keyOf('admin', ADMIN), keyOf('reader', READER)],
  roles: { admin: ['keys/admin'], auditor: ['keys/reader'] },
};
const WITHOUT_READER = { ...SETTINGS, keys: SETTINGS.keys.slice(0, 1) };
const LOCKED_OUT = { ...SETTINGS, keys: [keyOf('admin', newKey())] };

interface Folder {
  readonly path: string;
  /** Starts a service on it, with `identity` in its bootstrap file. */
  start(identity: object | undefined, env?: Record<string, string>): Promise<TestService>;
}

async function folder(context: Pick<TestContext, 'onTestFinished'>): Promise<Folder> {
  const path = await mkdtemp(join(tmpdir(), 'sluice-identity-'));
  const running = new Set<TestService>();
  context.onTestFinished(async () => {
    for (const service of running) await service.stop(0);
    await rm(path, { recursive: true });
  });
  return {
    path,
    async start(identity, env = {}) {
      for (const service of running) await service.stop(0);
      running.clear();
      const file = join(path, 'service.yaml');
      await writeFile(file, JSON.stringify(identity ? { identity } : {}));
      const persist = { SERVICE_PERSIST_BACKEND: 'file', SERVICE_PERSIST_PATH: join(path, 'data'), ...env };
      const service = await startTestService(persist, ['--service-config', file]);
      running.add(service);
      return service;
    },
  };
}

interface Sent {
  readonly method?: string;
  readonly path: string;
  readonly body?: unknown;
  readonly key?: string;
  readonly headers?: Record<string, string>;
  readonly agent?: Agent;
}

async function send(
  { management }: TestService,
  { method = 'GET', path, body, key = ADMIN, headers = {}, agent }: Sent,
) {
  const sent = request(`${management}/api/v1${path}`, { method, headers: { ...bearer(key), ...headers }, agent });
  const response = new Promise<import('node:http').IncomingMessage>((resolve, reject) => {
    sent.on('response', resolve).on('error', reject);
  });
  sent.end(body === undefined ? undefined : JSON.stringify(body));
  const { statusCode: status, headers: received, socket } = await response;
  const answer = JSON.parse(await text(await response));
  return { status, etag: received.etag, port: socket.localPort, ...answer };
}

const put = (identity: object, more: Partial<Sent> = {}) => ({
  method: 'PUT',
  path: '/identity',
  body: { identity },
  ...more,
});

test('a change counts for the next request on an open connection, and ends what it does not accept', async (context) => {
  const service = await (await folder(context)).start(SETTINGS);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  context.onTestFinished(() => agent.destroy());
  const asReader = { path: '/identity', key: READER, agent };
  const before = await send(service, asReader);
  expect(before).toMatchObject({ status: 200, etag: '"1"' });
  const own = new OpenRequest('admin', `${service.management}/api/v1/events`, 'GET', bearer(ADMIN)).end();
  const stream = new OpenRequest(
    'reader',
    `${service.management}/api/v1/logs?follow=true`,
    'GET',
    bearer(READER),
  ).end();
  await expect.poll(() => [own.status, stream.status]).toEqual([200, 200]);

  // Another role: the connection stays, but what needs the lost right ends.
  const viewer = { ...SETTINGS, roles: { admin: ['keys/admin'], viewer: ['keys/reader'] } };
  expect(await send(service, put(viewer))).toMatchObject({ status: 200, etag: '"2"' });
  await expect.poll(() => stream.isOver).toBe(true);
  expect(await send(service, asReader)).toMatchObject({ status: 403 });

  const again = new OpenRequest('reader', `${service.management}/api/v1/events`, 'GET', bearer(READER)).end();
  await expect.poll(() => again.status).toBe(200);
  expect(await send(service, put(WITHOUT_READER))).toMatchObject({ status: 200, etag: '"3"' });
  await expect.poll(() => again.isOver).toBe(true);
  expect(own.isOver).toBe(false);
  expect(await send(service, asReader)).toMatchObject({ status: 401 });
  own.close();
});

test('the request that locks its caller out is answered, and is the last one', async (context) => {
  const service = await (await folder(context)).start(SETTINGS);
  expect(await send(service, put(LOCKED_OUT))).toMatchObject({
    status: 422,
    error: { details: [{ path: 'identity.roles.admin', message: expect.stringContaining('lock_out=allow') }] },
  });
  expect(await send(service, put(LOCKED_OUT, { path: '/identity?lock_out=allow' }))).toMatchObject({ status: 200 });
  expect(await send(service, { path: '/identity' })).toMatchObject({ status: 401 });
});

test('settings that do not work with others of the service are 422, and end the start', async (context) => {
  const { start } = await folder(context);
  const env = { SERVICE_FORWARD_HEADERS: 'x-user' };
  const service = await start(SETTINGS, env);
  const proxied = { ...SETTINGS, proxy: { trusted: ['10.0.0.0/8'], user: 'x-user' } };
  const tokens = { ...SETTINGS, tokens: [{ name: 'corp', issuer: 'https://id.example' }] };
  expect((await send(service, put(proxied))).error.details).toMatchObject([
    { path: 'identity', message: expect.stringContaining('SERVICE_FORWARD_HEADERS: x-user') },
  ]);
  expect((await send(service, put(tokens))).error.message).toContain('SERVICE_PUBLIC_URL');

  const other = await start(SETTINGS);
  const headers = { 'x-user': '${' + 'env:SERVICE_SECRET_A}' };
  const forward = { name: 'crm', address: 'http://127.0.0.1:9/mcp', headers };
  expect((await send(other, { method: 'POST', path: '/forwards', body: forward })).status).toBe(201);
  expect((await send(other, put(proxied))).error.message).toContain('forward "crm" sends x-user');
  expect((await send(other, { method: 'DELETE', path: '/forwards/crm' })).status).toBe(200);
  expect((await send(other, put(proxied))).status).toBe(200);
  // The active revision counts at the next start as well, whose environment does not fit.
  await expect(start(SETTINGS, env)).rejects.toThrow(
    'identity of the active revision 5: SERVICE_FORWARD_HEADERS: x-user must not be forwarded',
  );
});

test('an unchanged bootstrap file keeps the active revision, a changed one is a new revision, none changes nothing', async (context) => {
  const { start } = await folder(context);
  const revisions = async (service: TestService) =>
    (await send(service, { path: '/identity/revisions' })).data.map(
      ({ id, origin, status }: Record<string, unknown>) => `${id} ${origin} ${status}`,
    );
  let service = await start(SETTINGS);
  await send(service, put(WITHOUT_READER));
  service = await start(SETTINGS);
  expect(await revisions(service)).toEqual(['2 api active', '1 startup superseded']);
  service = await start(undefined);
  expect(await revisions(service)).toEqual(['2 api active', '1 startup superseded']);
  expect((await send(service, { path: '/identity', key: READER })).status).toBe(401);
  service = await start({ ...SETTINGS, inference: true });
  expect(await revisions(service)).toEqual(['3 startup active', '2 api superseded', '1 startup superseded']);
  expect((await send(service, { path: '/identity', key: READER })).status).toBe(200);
});

test('a record that cannot be read ends the start, also if others may be set aside', async (context) => {
  const { path, start } = await folder(context);
  const service = await start(SETTINGS);
  await service.stop(0);
  const file = join(path, 'data', 'records.snapshot');
  const written = await readFile(file, 'utf8');
  expect(written).toContain('identity_revisions');
  for (const spoilt of [written.replace('anonymous', 'anonymus'), written.slice(0, -20)]) {
    for (const recover of ['', 'rename']) {
      await writeFile(file, spoilt);
      await expect(start(undefined, { SERVICE_PERSIST_RECOVER: recover })).rejects.toThrow('records.snapshot');
      expect(await readFile(file, 'utf8')).toBe(spoilt);
    }
  }
  await writeFile(file, written);
  await start(undefined);
});

test('a key that is made on the machine of the service recovers the access of administrators', async (context) => {
  const { path, start } = await folder(context);
  const service = await start(SETTINGS);
  await send(service, put(LOCKED_OUT, { path: '/identity?lock_out=allow' }));
  const data = join(path, 'data');
  const terminal = scriptedTerminal();
  expect(await run(['admin', 'recover', '--data-folder', data, '--output', 'json'], terminal)).toBe(0);
  const { key, until } = JSON.parse(terminal.out());
  expect(Date.parse(until) - Date.now()).toBeLessThanOrEqual(15 * 60_000);
  const stored = join(data, 'recovery.json');
  expect((await stat(stored)).mode & 0o777).toBe(0o600);
  expect(await readFile(stored, 'utf8')).not.toContain(key);

  const forwarded = { path: '/identity', key, headers: { 'x-forwarded-for': '127.0.0.1' } };
  expect((await send(service, forwarded)).status).toBe(401);
  expect(service.log.join('\n')).not.toContain('recovery key used');
  expect((await send(service, { path: '/identity', key })).status).toBe(200);
  expect(service.log.filter((line) => line.includes('recovery key used'))).toEqual([
    expect.stringContaining('"level":"error"'),
  ]);
  expect((await send(service, put(SETTINGS, { key }))).status).toBe(200);
  expect(await send(service, { path: '/identity/revisions/active' })).toMatchObject({
    status: 200,
    data: { actor: 'recovery/admin', identity: SETTINGS },
  });
  expect(service.log.join('\n')).not.toContain(key);
  // A later key replaces it, and no link: the folder may belong to another user than the one who makes the key.
  const elsewhere = join(path, 'elsewhere');
  await writeFile(elsewhere, 'unchanged');
  for (const name of ['recovery.json', 'recovery.json.tmp']) {
    await rm(join(data, name), { force: true });
    await symlink(elsewhere, join(data, name));
  }
  await run(['admin', 'recover', '--data-folder', data], scriptedTerminal());
  expect((await send(service, { path: '/identity', key })).status).toBe(401);

  expect(await readFile(elsewhere, 'utf8')).toBe('unchanged');
  expect((await lstat(stored)).isFile()).toBe(true);

  const missing = scriptedTerminal();
  expect(await run(['admin', 'recover', '--data-folder', path], missing)).toBe(1);
  expect(missing.err()).toContain('expected the data folder of a service');
});

test('the command line shows, replaces and activates settings', async (context) => {
  const { path, start } = await folder(context);
  const service = await start(SETTINGS);
  const sluice = async (...argv: string[]) => {
    const terminal = scriptedTerminal();
    const code = await run(['--host', service.management, '--token', ADMIN, ...argv], terminal);
    return { code, out: terminal.out(), err: terminal.err() };
  };
  const shown = await sluice('identity', 'get');
  expect(shown.out).toContain('anonymous: deny');
  const file = join(path, 'identity.yaml');
  await writeFile(file, shown.out.replace('auditor:', 'viewer:'));
  expect(await sluice('identity', 'apply', '-f', file, '--expected-revision', '1')).toMatchObject({
    code: 0,
    out: expect.stringContaining('revision 2 is active'),
  });
  await writeFile(file, JSON.stringify({ identity: LOCKED_OUT }));
  const refused = await sluice('identity', 'apply', '-f', file);
  expect(refused).toMatchObject({ code: 1, err: expect.stringContaining('lock_out=allow') });
  expect((await sluice('identity', 'revisions', 'activate', '1')).out).toContain('revision 4 is active');
  expect((await sluice('identity', 'revisions', 'list')).out).toMatch(/rejected.*\n.*superseded/);
  expect((await sluice('identity', 'revisions', 'show', 'active', '--output', 'json')).out).toContain('"identity"');

  const exported = await sluice('export');
  expect(exported.out).toMatch(/^identity:/m);
  await writeFile(file, exported.out.replace('anonymous: deny', 'anonymous: allow'));
  expect((await sluice('diff', '-f', file)).out).toContain('may let other callers in');
  expect((await sluice('apply', '-f', file, '--yes')).err).toContain('--allow-widening');
  expect((await sluice('apply', '-f', file, '--yes', '--allow-widening')).out).toContain('1 change applied');
  const { data } = await send(service, { path: '/identity' });
  expect(data.anonymous).toBe('allow');
});

test('an operator exports without what only auditors may read', async (context) => {
  const operator = newKey();
  const roles = { admin: ['keys/admin'], operator: ['keys/operator'] };
  const service = await (await folder(context)).start({
    ...SETTINGS,
    keys: [...SETTINGS.keys, keyOf('operator', operator)],
    roles,
  });
  const terminal = scriptedTerminal();
  expect(await run(['--host', service.management, '--token', operator, 'export'], terminal)).toBe(0);
  expect(terminal.out()).toContain('namespaces:');
  expect(terminal.out()).not.toMatch(/^(?:evaluators|identity):/m);
  expect(terminal.err()).toContain('evaluators and identity left out');
});

test('an acknowledged change counts after SIGKILL, and one that is interrupted counts as a whole or not at all', async (context) => {
  const rounds = [0, 1, 2];
  const file = JSON.stringify({ identity: SETTINGS });
  const gateway = await startGateway({
    prepare: (folder) => writeFile(join(folder, 'service.yaml'), file),
  });
  context.onTestFinished(() => gateway.close());
  const call = async (method: string, path: string, body?: object) => {
    const response = await fetch(`http://${gateway.management()}/api/v1${path}`, {
      method,
      headers: { ...bearer(ADMIN), connection: 'close' },
      ...(body && { body: JSON.stringify(body) }),
    });
    return { status: response.status, ...((await response.json()) as { data: Record<string, unknown> }) };
  };
  for (const round of rounds) {
    const acknowledged = { ...SETTINGS, roles: { ...SETTINGS.roles, viewer: [`round-${round}`] } };
    expect((await call('PUT', '/identity', { identity: acknowledged })).status).toBe(200);
    const interrupted = { ...SETTINGS, roles: { ...SETTINGS.roles, viewer: ['interrupted'] } };
    const change = call('PUT', '/identity', { identity: interrupted }).catch(() => undefined);
    await gateway.kill();
    await change;
    await gateway.restart();
    const { data } = await call('GET', '/identity');
    expect([acknowledged.roles, interrupted.roles]).toContainEqual(data.roles);
  }
}, 60_000);
