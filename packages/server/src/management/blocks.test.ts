import { expect, test } from 'vitest';
import type { Authenticate } from '../identity/authenticator.ts';
import { authenticated } from '../identity/authenticator.ts';
import { createUser } from '../identity/principal.ts';
import { mayOf } from '../identity/roles.ts';
import { startApi } from './api.fixture.ts';

/** Believes who the caller claims to be: an id, which is its group, too. */
const authenticate: Authenticate = ({ headers: { 'x-caller': caller = 'admin' } }) =>
  authenticated({ ...createUser(String(caller), 'test'), groups: [String(caller)] });
const ROLES = { viewer: ['viewer'], operator: ['operator'], auditor: ['auditor'], admin: ['admin', 'other-admin'] };
const SETTINGS = { authenticate, may: mayOf(ROLES, 'deny') };

const as = (caller: string) => ({ 'x-caller': caller });
const FORWARD = { name: 'crm', address: 'http://127.0.0.1:9/mcp' };

test('a principal is blocked until an end, again with another one, and unblocked', async (context) => {
  const api = await startApi(context, SETTINGS);
  const path = '/api/v1/blocks/corp%2Fann';
  const time = expect.stringMatching(/^\d{4}-.*Z$/);
  expect((await api.call('GET', path)).error).toEqual({ code: 'NOT_FOUND', message: 'block not found: corp/ann' });
  const first = await api.call('PUT', path, { for: '1h', reason: 'laptop stolen' });
  expect(first).toMatchObject({ status: 200, error: null });
  expect(first.data).toEqual({ id: 'corp/ann', since: time, until: time, reason: 'laptop stolen', by: 'admin' });
  const { since, until } = first.data as { since: string; until: string };
  expect(Math.abs(Date.parse(until) - Date.parse(since) - 3_600_000)).toBeLessThan(1_000);
  expect((await api.call('GET', '/api/v1/registry-of-none', undefined, as('corp/ann'))).status).toBe(401);

  const second = await api.call('PUT', path);
  expect(second.data).toEqual({ id: 'corp/ann', since, by: 'admin' });
  expect((await api.call('GET', path)).data).toEqual(second.data);
  expect((await api.call('GET', '/api/v1/blocks')).data).toEqual([second.data]);

  expect(await api.call('DELETE', path)).toMatchObject({ status: 200, data: { removed: 'corp/ann' } });
  expect((await api.call('DELETE', path)).error).toEqual({ code: 'NOT_FOUND', message: 'block not found: corp/ann' });
  expect((await api.call('GET', '/api/v1/blocks')).data).toEqual([]);
  expect(api.log.filter((line) => line.includes('"blocked"') || line.includes('"unblocked"'))).toHaveLength(3);
});

test('requests of a blocked principal are 401 with a constant reason, whose cause is in the log', async (context) => {
  const api = await startApi(context, SETTINGS);
  expect((await api.call('GET', '/api/v1/tools', undefined, as('viewer'))).status).toBe(200);
  await api.call('PUT', '/api/v1/blocks/viewer', { reason: 'secret reason' });
  const rejected = await api.call('GET', '/api/v1/tools', undefined, as('viewer'));
  expect([rejected.status, rejected.error]).toEqual([401, { code: 'UNAUTHORIZED', message: 'access is blocked' }]);
  expect(rejected.headers['www-authenticate']).toBe('Bearer error="invalid_token"');
  expect(rejected.text).not.toContain('secret reason');
  expect(api.log.join('\n')).toContain('the principal is blocked');
  expect(api.log.join('\n')).not.toContain('secret reason');
  await api.call('DELETE', '/api/v1/blocks/viewer');
  expect((await api.call('GET', '/api/v1/tools', undefined, as('viewer'))).status).toBe(200);
});

test('the way to recover the access of administrators is not blocked', async (context) => {
  const api = await startApi(context, SETTINGS);
  const answer = await api.call('PUT', '/api/v1/blocks/recovery%2Fadmin?lock_out=allow');
  expect(answer).toMatchObject({ status: 422, error: { message: expect.stringContaining('recovers the access') } });
  expect((await api.call('GET', '/api/v1/blocks')).data).toEqual([]);
});

test('blocks of forwards are the operator’s, those of principals the admin’s', async (context) => {
  const api = await startApi(context, SETTINGS);
  await api.call('POST', '/api/v1/forwards', FORWARD);
  const statusOf = async (caller: string, method: string, id = '') =>
    (await api.call(method, `/api/v1/blocks${id && `/${id}`}`, undefined, as(caller))).status;
  for (const caller of ['viewer', 'auditor']) {
    expect(await statusOf(caller, 'PUT', 'forward:crm'), caller).toBe(403);
    expect(await statusOf(caller, 'DELETE', 'forward:crm'), caller).toBe(403);
  }
  for (const caller of ['viewer', 'auditor', 'operator']) {
    expect(await statusOf(caller, 'PUT', 'ann'), caller).toBe(403);
  }
  expect(await statusOf('operator', 'PUT', 'forward:crm')).toBe(200);
  expect(await statusOf('admin', 'PUT', 'ann')).toBe(200);
  expect(await statusOf('operator', 'DELETE', 'ann')).toBe(404);
  for (const [caller, ids] of [
    ['viewer', ['forward:crm']],
    ['operator', ['forward:crm']],
    ['auditor', ['ann', 'forward:crm']],
    ['admin', ['ann', 'forward:crm']],
  ] as const) {
    const { data } = await api.call('GET', '/api/v1/blocks', undefined, as(caller));
    expect(
      (data as { id: string }[]).map(({ id }) => id),
      caller,
    ).toEqual(ids);
    expect(await statusOf(caller, 'GET', 'ann'), caller).toBe(ids.length === 2 ? 200 : 404);
    expect(await statusOf(caller, 'GET', 'forward:crm'), caller).toBe(200);
  }
  expect(await statusOf('operator', 'DELETE', 'forward:crm')).toBe(200);
  expect((await api.call('PUT', '/api/v1/blocks/forward:none')).error).toEqual({
    code: 'UNPROCESSABLE',
    message: 'invalid block: forward not found: none',
  });
});

test('nobody blocks himself by accident', async (context) => {
  const api = await startApi(context, SETTINGS);
  const refused = await api.call('PUT', '/api/v1/blocks/admin');
  expect([refused.status, refused.error]).toEqual([
    409,
    {
      code: 'CONFLICT',
      message:
        'admin is the caller, who could not end this block: repeat the request with lock_out=allow (sluice: --allow-lock-out)',
    },
  ]);
  expect((await api.call('GET', '/api/v1/blocks')).data).toEqual([]);
  await api.call('PUT', '/api/v1/blocks/admin?lock_out=allow').catch(() => undefined);
  expect((await api.call('GET', '/api/v1/blocks')).status).toBe(401);
  expect((await api.call('DELETE', '/api/v1/blocks/admin', undefined, as('other-admin'))).status).toBe(200);
  expect((await api.call('GET', '/api/v1/blocks')).status).toBe(200);
});

test.for([
  [{ for: '1 h' }, 'for must be a duration such as 30m, 1h or 7d'],
  [{ for: '0s' }, 'for must be a duration such as 30m, 1h or 7d'],
  [{ for: 'P1D' }, 'for must be a duration such as 30m, 1h or 7d'],
  [{ reason: '' }, 'reason '],
  [{ until: '2030-01-01T00:00:00Z' }, 'until is not a known field'],
] as const)('%j is rejected', async ([body, reason], context) => {
  const api = await startApi(context, SETTINGS);
  const { status, error } = await api.call('PUT', '/api/v1/blocks/ann', body);
  expect([status, error]).toMatchObject([400, { message: expect.stringContaining(`invalid block: ${reason}`) }]);
});

test.for(['a%0Ab', 'a%7F', 'a'.repeat(1_101)])('an id %s is rejected', async (id, context) => {
  const api = await startApi(context, SETTINGS);
  expect((await api.call('PUT', `/api/v1/blocks/${id}`)).error).toMatchObject({ code: 'BAD_REQUEST' });
});
