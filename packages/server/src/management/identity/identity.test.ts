import { type IdentityStatus, identity as schema } from '@sluice/contract';
import { createServiceKey, hashServiceKey } from '@sluice/contract/service-key';
import { describe, expect, type TestContext, test, vi } from 'vitest';
import { sampleOf, samplesOf } from '../../../testing/prometheus-text.ts';
import { Identity } from '../../identity/identity.ts';
import { type ApiSettings, startApi } from '../api.fixture.ts';

const PATH = '/api/v1/identity';
const ADMIN = createServiceKey();
const AUDITOR = createServiceKey();
const OPERATOR = createServiceKey();

function keyOf(name: string, key: string, more: object = {}) {
  return { name, sha256: [hashServiceKey(key) ?? ''], groups: [name], management: true, ...more };
}
const ROLES = { admin: ['keys/admin'], auditor: ['keys/auditor'], operator: ['keys/operator'] };
const KEYS = [keyOf('admin', ADMIN), keyOf('auditor', AUDITOR), keyOf('operator', OPERATOR)];
const SETTINGS = { keys: KEYS, roles: ROLES };
const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

/** An API with these settings, and functions that call it as the admin. */
async function start(context: TestContext, settings: ApiSettings = {}) {
  const api = await startApi(context, { identity: new Identity(undefined), ...settings });
  return {
    api,
    get: (path = '', key = ADMIN) => api.call('GET', PATH + path, undefined, bearer(key)),
    put: (identity: unknown, { query = '', headers = {}, ...more }: PutOptions = {}) =>
      api.call('PUT', PATH + query, { identity, ...more }, { ...bearer(ADMIN), ...headers }),
    activate: (id: number, { query = '', body = {} }: { query?: string; body?: object } = {}) =>
      api.call('POST', `${PATH}/revisions/${id}/activate${query}`, body, bearer(ADMIN)),
  };
}

interface PutOptions {
  readonly query?: string;
  readonly headers?: Record<string, string>;
  readonly expected_revision?: number;
}

test('without settings there are none, and the first ones need lock_out=allow from a caller without a credential', async (context) => {
  const { get, put, api } = await start(context);
  expect(await get()).toMatchObject({ status: 200, data: null, error: null, headers: { etag: '"0"' } });
  const refused = await api.call('PUT', PATH, { identity: SETTINGS });
  expect(refused).toMatchObject({
    status: 422,
    error: { code: 'UNPROCESSABLE', details: [{ path: 'identity.roles.admin' }] },
  });
  expect((await api.call('GET', `${PATH}/revisions`)).data).toMatchObject([{ id: 1, status: 'rejected' }]);
  expect(await put(SETTINGS, { query: '?lock_out=allow' })).toMatchObject({ status: 200, headers: { etag: '"2"' } });
  expect(await get('', AUDITOR)).toMatchObject({
    status: 200,
    data: { ...SETTINGS, anonymous: 'allow', tokens: [] },
    headers: { etag: '"2"' },
  });
});

test('they count for the next request, also of who could administer before', async (context) => {
  const { put, get } = await start(context, { configured: parsed(SETTINGS) });
  const successor = createServiceKey();
  const keys = [keyOf('admin', successor), ...KEYS.slice(1)];
  expect(await put({ ...SETTINGS, keys })).toMatchObject({ status: 422 });
  expect((await put({ ...SETTINGS, keys }, { query: '?lock_out=allow' })).status).toBe(200);
  expect((await get()).status).toBe(401);
  expect((await get('', successor)).status).toBe(200);
});

test('a credential beside the headers of a proxy, which counts with the new settings only, locks its caller out', async (context) => {
  const proxy = { trusted: ['127.0.0.1/32'], groups: 'x-forwarded-groups' };
  const roles = { admin: ['proxy/admins'] };
  const { api } = await start(context, { configured: parsed({ proxy, roles }) });
  const put = (identity: object) =>
    api.call('PUT', PATH, { identity }, { ...HEADERS, ...bearer('a-token-that-the-proxy-adds') });
  expect((await put({ proxy, roles, keys: KEYS })).error).toMatchObject({
    details: [{ path: 'identity.roles.admin' }],
  });
  expect((await put({ proxy: { ...proxy, ignore_authorization: true }, roles, keys: KEYS })).status).toBe(200);
});
const HEADERS = { 'x-forwarded-user': 'ann', 'x-forwarded-groups': 'admins' };

test.for([
  ['auditor', AUDITOR, 200, 403],
  ['operator', OPERATOR, 403, 403],
  ['nobody', createServiceKey(), 401, 401],
] as const)('%s', async ([_who, key, reads, changes], context) => {
  const { api, get } = await start(context, { configured: parsed(SETTINGS) });
  for (const path of ['', '/status', '/revisions', '/revisions/active', '/revisions/1'])
    expect((await get(path, key)).status, path).toBe(reads);
  expect((await api.call('PUT', PATH, { identity: SETTINGS }, bearer(key))).status).toBe(changes);
  expect((await api.call('POST', `${PATH}/revisions/1/activate`, {}, bearer(key))).status).toBe(changes);
});

test('invalid settings are rejected with all paths, and change nothing', async (context) => {
  const { put, get } = await start(context, { configured: parsed(SETTINGS) });
  const invalid = {
    anonymus: 'deny',
    keys: [{ name: 'A', sha256: ['x'] }],
    tokens: [{ name: 't', issuer: 'https://id.example', algorithms: ['HS256'] }],
  };
  const answer = await put(invalid);
  expect(answer).toMatchObject({ status: 422, error: { code: 'UNPROCESSABLE' } });
  const paths = (Object(answer.error).details as { path: string }[]).map(({ path }) => path);
  expect(paths.toSorted()).toEqual([
    'identity.anonymus',
    'identity.keys.0.name',
    'identity.keys.0.sha256.0',
    'identity.tokens.0.algorithms.0',
  ]);
  // What does not fit together is stored as a rejected revision.
  expect(await put({ ...SETTINGS, roles: { admin: ['keys/none'] } })).toMatchObject({
    status: 422,
    error: { details: [{ path: 'identity.roles.admin' }] },
  });
  expect((await put({ keys: [...KEYS, KEYS[0]], roles: ROLES })).error).toMatchObject({
    details: [{ path: 'identity.keys.3.name' }, { path: 'identity.keys.3.sha256.0' }],
  });
  expect((await get('/revisions')).data).toMatchObject([{ status: 'rejected' }, { status: 'rejected' }, { id: 1 }]);
  expect((await get()).headers.etag).toBe('"1"');
});

test.for([
  ['', {}, 'request body required'],
  ['{', {}, 'invalid identity JSON'],
  ['{"identity":{}, "identity":{}}', {}, 'invalid identity JSON'],
  ['{"identity":{},"expected_revision":-1}', {}, 'expected_revision'],
  ['{"identity":{}}', { 'if-match': 'x' }, 'If-Match'],
] as const)('%s is malformed', async ([body, headers, message], context) => {
  const { api } = await start(context, { configured: parsed(SETTINGS) });
  const answer = await api.call('PUT', PATH, body, { ...bearer(ADMIN), ...headers });
  expect(answer).toMatchObject({ status: 400, error: { message: expect.stringContaining(message) } });
});

test('a change of another revision than expected is a conflict', async (context) => {
  const { put, activate, get } = await start(context, { configured: parsed(SETTINGS) });
  for (const options of [{ expected_revision: 2 }, { headers: { 'if-match': '"2"' } }])
    expect((await put(SETTINGS, options)).status).toBe(409);
  expect((await activate(1, { body: { expected_revision: 2 } })).status).toBe(409);
  expect((await put(SETTINGS, { expected_revision: 1, headers: { 'if-match': '"1"' } })).status).toBe(200);
  expect((await get('/revisions')).data).toHaveLength(2);
});

test('an earlier revision can be activated, as a new one, but not if its caller would be no admin', async (context) => {
  const { put, activate, get } = await start(context, { configured: parsed(SETTINGS) });
  const more = { ...SETTINGS, roles: { ...ROLES, viewer: ['*'] } };
  await put(more);
  expect(await activate(1)).toMatchObject({ status: 200, data: SETTINGS, headers: { etag: '"3"' } });
  expect((await get('/revisions/active')).data).toMatchObject({
    id: 3,
    origin: 'api',
    actor: 'keys/admin',
    identity: SETTINGS,
  });
  expect((await get('/revisions/active')).data).not.toHaveProperty('skipped');
  expect((await get('/revisions/2')).data).toMatchObject({ status: 'superseded', identity: more });
  for (const id of [0, 9]) expect((await activate(id)).status).toBe(404);
  expect((await get('/revisions/9')).status).toBe(404);

  const keys = [keyOf('admin', createServiceKey()), ...KEYS];
  keys.splice(1, 1);
  await put({ ...SETTINGS, keys: [...keys, keyOf('second', ADMIN)], roles: { ...ROLES, admin: ['keys/second'] } });
  await put(SETTINGS);
  expect((await activate(4)).status).toBe(200);
  await put({ ...SETTINGS, keys: KEYS.slice(1), roles: { admin: ['keys/auditor'] } }, { query: '?lock_out=allow' });
});

test('settings without roles keep every caller an admin', async (context) => {
  const { put } = await start(context, { configured: parsed(SETTINGS) });
  expect((await put({})).status).toBe(200);
});

describe('a desired state', () => {
  const STATE = '/api/v1/state';
  const narrower = { ...SETTINGS, anonymous: 'deny' };

  test('has the settings, as a change like others', async (context) => {
    const { api, get } = await start(context, { configured: parsed(SETTINGS) });
    const apply = (state: object, query = '', key = ADMIN) => api.call('PUT', `${STATE}${query}`, state, bearer(key));
    expect((await apply({ identity: SETTINGS })).data).toEqual({ changes: [] });
    const planned = await apply({ identity: narrower, namespaces: [{ name: 'a' }] }, '?dry_run=true');
    expect(planned.data).toEqual({
      changes: [
        {
          kind: 'identity',
          action: 'update',
          name: 'identity',
          members: [{ member: 'anonymous', from: 'allow', to: 'deny' }],
          notes: [],
        },
        expect.objectContaining({ kind: 'namespace', name: 'a' }),
      ],
    });
    expect((await get()).headers.etag).toBe('"1"');
    const { etag } = planned.headers;
    const applied = await api.call(
      'PUT',
      STATE,
      { identity: narrower, namespaces: [{ name: 'a' }] },
      {
        ...bearer(ADMIN),
        'if-match': String(etag),
      },
    );
    expect(applied.data).toEqual(planned.data);
    expect(await get()).toMatchObject({ data: narrower, headers: { etag: '"2"' } });
    expect((await apply({ namespaces: [] })).status).toBe(200);
    expect(await get()).toMatchObject({ data: narrower });
    expect((await apply({ identity: SETTINGS }, '?dry_run=true')).data).toMatchObject({
      changes: [{ widens: ['may let other callers in'] }],
    });
  });

  test('needs an admin for them', async (context) => {
    const { api } = await start(context, { configured: parsed(SETTINGS) });
    const apply = (state: object, query = '') => api.call('PUT', `${STATE}${query}`, state, bearer(OPERATOR));
    for (const query of ['', '?dry_run=true'])
      expect((await apply({ identity: SETTINGS }, query)).error).toMatchObject({
        code: 'FORBIDDEN',
        message: expect.stringContaining('"identity" requires'),
      });
    expect((await apply({ namespaces: [{ name: 'a' }] })).status).toBe(200);
  });

  test('with settings that are invalid, or lock the caller out, changes nothing', async (context) => {
    const { api, get } = await start(context, { configured: parsed(SETTINGS) });
    const namespaces = [{ name: 'a' }];
    const apply = (identity: unknown, query = '') =>
      api.call('PUT', `${STATE}${query}`, { namespaces, identity }, bearer(ADMIN));
    const lockedOut = { ...SETTINGS, roles: { admin: ['keys/auditor'] } };
    for (const query of ['', '?dry_run=true']) {
      expect(await apply({ ...SETTINGS, anonymus: 'deny' }, query)).toMatchObject({
        status: 422,
        error: { details: [{ path: 'identity.anonymus' }] },
      });
      expect((await apply(lockedOut, query)).error).toMatchObject({ details: [{ path: 'identity.roles.admin' }] });
      expect((await apply([], query)).status).toBe(400);
    }
    expect((await api.call('GET', '/api/v1/namespaces/a', undefined, bearer(ADMIN))).status).toBe(404);
    expect((await get('/revisions')).data).toHaveLength(1);
    expect((await apply(lockedOut, '?lock_out=allow')).status).toBe(200);
    expect((await get()).status).toBe(403);
    expect((await get('', AUDITOR)).data).toMatchObject(lockedOut);
  });
});

function parsed(settings: object) {
  return schema.parse(settings);
}

test('a change that waits is not made once its caller is blocked', async (context) => {
  const identity = new Identity(undefined);
  const other = createServiceKey();
  const settings = { ...SETTINGS, keys: [...KEYS, keyOf('other', other, { groups: ['admin'] })] };
  const { put, get, api } = await start(context, { identity, configured: parsed(settings) });
  const [waits, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<boolean>()];
  vi.spyOn(identity, 'administers').mockImplementation(() => {
    waits.resolve();
    return gate.promise;
  });
  const change = put({ ...SETTINGS, roles: { admin: ['keys/admin', 'keys/operator'] } });
  await waits.promise;
  expect((await api.call('PUT', '/api/v1/blocks/keys%2Fadmin', {}, bearer(other))).status).toBe(200);
  gate.resolve(true);
  expect(await change).toMatchObject({ status: 403, error: { message: expect.stringContaining('any more') } });
  expect(await get('', AUDITOR)).toMatchObject({ status: 200, headers: { etag: '"1"' } });
});

test('the status has warnings, and the last use of each hash of a key in this process; metrics have that of each key', async (context) => {
  const night = createServiceKey();
  const sha256 = [hashServiceKey(createServiceKey()) ?? '', hashServiceKey(night) ?? ''];
  const settings = {
    keys: [...KEYS, { name: 'night', sha256, management: true, expires: '2099-06-30', for: ['finance'] }],
    proxy: { trusted: ['0.0.0.0/0'] },
  };
  const { api, get } = await start(context, { configured: parsed(settings) });
  const begin = Date.now();
  expect((await api.call('GET', '/api/v1/tools', undefined, bearer(night))).status).toBe(200);
  const { status, data } = await get('/status');
  expect([status, data]).toMatchObject([
    200,
    { revision: 1, warnings: [{ path: 'roles' }, { path: 'proxy.trusted.0' }], keys: [{}, {}, {}, {}] },
  ]);
  const { keys } = data as IdentityStatus;
  const [unused, used] = keys[3]?.hashes ?? [];
  expect(keys[3]).toEqual({
    name: 'night',
    groups: [],
    for: ['finance'],
    management: true,
    expiresAt: '2099-07-01T00:00:00.000Z',
    hashes: [unused, used],
  });
  expect(keys[0]).not.toHaveProperty('expiresAt');
  expect(unused).toEqual({ sha256: sha256[0] });
  expect(Date.parse(used?.lastUsedAt ?? '')).toBeGreaterThanOrEqual(begin);
  const scraped = await (await fetch(`${api.url}/metrics`, { headers: bearer(ADMIN) })).text();
  const samples = samplesOf(scraped);
  const ofNight = { sluice_key: 'night' };
  expect(sampleOf(samples, 'sluice_key_last_use_timestamp_seconds', ofNight)).toBeGreaterThanOrEqual(begin / 1_000);
  expect(sampleOf(samples, 'sluice_key_expiry_timestamp_seconds', ofNight)).toBe(Date.UTC(2099, 6, 1) / 1_000);
  expect(scraped).not.toMatch(/_last_use_.*"auditor"/);
});

test('without settings, the status is empty', async (context) => {
  const { get } = await start(context);
  expect((await get('/status')).data).toEqual({ revision: 0, warnings: [], keys: [] });
});
