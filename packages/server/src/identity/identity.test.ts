import { type IdentitySettings, identity as schema } from '@sluice/contract';
import { createServiceKey, hashServiceKey } from '@sluice/contract/service-key';
import { expect, onTestFinished, test, vi } from 'vitest';
import { ConfiguredIdentity } from './active-identity.ts';
import { ANONYMOUS_CALLER, type Authenticated, type Rejected } from './authenticator.ts';
import { Identity } from './identity.ts';

const KEY = createServiceKey();
const NIGHT = { name: 'night', sha256: [hashServiceKey(KEY) ?? ''], groups: ['ops'], management: true };
const PROXY = { trusted: ['10.0.0.0/8'], user: 'x-user' };
const parse = (settings: object) => schema.parse(settings);

/** The head of a request with these credentials from a trusted proxy, or without identity headers from another peer. */
function headOf(lines: Record<string, string>, peer = '10.0.0.1') {
  const credentials = new Map(Object.entries(lines).map(([name, value]) => [name, [value]]));
  return { target: '/', headers: {}, credentials, peer, address: peer };
}
const WITH_KEY = headOf({ authorization: `Bearer ${KEY}` });
const ofUser = (peer?: string) => headOf({ 'x-user': 'ann' }, peer);
const nameOf = (found: unknown) =>
  (found as Authenticated).kind === 'authenticated'
    ? (found as Authenticated).principal.key
    : (found as Rejected).status;

test('other settings count for the next request, on listeners that exist', () => {
  const identity = new Identity(undefined);
  const mcp = identity.forListener('mcp');
  const inference = identity.forListener('inference');
  expect([identity.settings, identity.may, identity.receivedHeaders]).toEqual([undefined, undefined, undefined]);
  expect([mcp.credentialHeaders, mcp.requirement, mcp.addressOf]).toEqual([undefined, undefined, undefined]);
  expect([...identity.droppedHeaders]).toEqual([]);
  expect(mcp.authenticate(WITH_KEY)).toBe(ANONYMOUS_CALLER);

  const settings = parse({ anonymous: 'deny', keys: [NIGHT], proxy: PROXY, roles: { viewer: ['keys/ops'] } });
  identity.replace(settings);
  expect(identity.settings).toBe(settings);
  expect(nameOf(mcp.authenticate(WITH_KEY))).toBe('service_account:keys/night');
  expect([mcp.requirement, inference.requirement]).toEqual(['required', 'optional']);
  expect(mcp.addressOf?.('10.0.0.1', '192.0.2.7')).toBe('192.0.2.7');
  expect(mcp.credentialHeaders).toBe(identity.receivedHeaders);
  expect([...(mcp.credentialHeaders ?? [])]).toEqual(expect.arrayContaining(['authorization', 'x-user']));
  expect(identity.droppedHeaders.has('x-user')).toBe(true);
  const { principal } = mcp.authenticate(WITH_KEY) as Authenticated;
  expect([identity.may?.(principal, 'read'), identity.may?.(principal, 'administer')]).toEqual([true, false]);

  const before = mcp.credentialHeaders;
  identity.replace(parse({ keys: [{ ...NIGHT, groups: ['admins'] }], roles: { admin: ['keys/admins'] } }));
  expect(mcp.credentialHeaders).not.toBe(before);
  expect(identity.droppedHeaders.has('x-user')).toBe(false);
  expect([mcp.requirement, mcp.addressOf]).toEqual(['optional', undefined]);
  const again = mcp.authenticate(WITH_KEY) as Authenticated;
  expect(identity.may?.(again.principal, 'administer')).toBe(true);

  identity.replace(parse({ keys: [{ ...NIGHT, sha256: ['0'.repeat(64)] }] }));
  expect(mcp.authenticate(WITH_KEY)).toMatchObject({ kind: 'rejected', cause: 'the key is unknown' });
  identity.replace(undefined);
  expect(mcp.authenticate(WITH_KEY)).toBe(ANONYMOUS_CALLER);
});

test('the count of ignored headers goes on', () => {
  const identity = new Identity(parse({ proxy: PROXY }));
  const { authenticate } = identity.forListener('mcp');
  authenticate(ofUser('192.0.2.1'));
  identity.replace(parse({ proxy: { ...PROXY, trusted: ['192.0.2.0/24'] } }));
  authenticate(ofUser('192.0.2.1'));
  authenticate(ofUser('10.0.0.1'));
  expect(identity.ignored).toBe(2);
  identity.replace(undefined);
  expect(identity.ignored).toBeUndefined();
  identity.replace(parse({ proxy: PROXY }));
  expect(identity.ignored).toBe(2);
});

/** Makes all authenticators return promises, which the test settles. */
function slowAuthentication() {
  const pending: PromiseWithResolvers<Authenticated | Rejected>[] = [];
  const authenticate = vi.spyOn(ConfiguredIdentity.prototype, 'authenticate').mockImplementation(() => {
    const promise = Promise.withResolvers<Authenticated | Rejected>();
    pending.push(promise);
    return promise.promise;
  });
  onTestFinished(() => authenticate.mockRestore());
  return { pending, authenticate };
}

test('a credential that was verified by replaced settings is verified again, as often as they are replaced', async () => {
  const settings: IdentitySettings = parse({ keys: [NIGHT] });
  const identity = new Identity(settings);
  const { pending, authenticate } = slowAuthentication();
  const first = identity.forListener('mcp').authenticate(WITH_KEY);
  const second = identity.forListener('mcp').authenticate(WITH_KEY);
  pending[1]?.resolve(ANONYMOUS_CALLER);
  expect(await second).toBe(ANONYMOUS_CALLER);

  identity.replace(settings);
  pending[0]?.reject(new Error('by settings that do not count'));
  await expect.poll(() => pending.length).toBe(3);
  identity.replace(settings);
  pending[2]?.resolve(ANONYMOUS_CALLER);
  await expect.poll(() => pending.length).toBe(4);
  authenticate.mockRestore();
  identity.replace(settings);
  pending[3]?.resolve(ANONYMOUS_CALLER);
  expect(nameOf(await first)).toBe('service_account:keys/night');
});

test('a verification that fails fails', async () => {
  const identity = new Identity(parse({ keys: [NIGHT] }));
  const { pending } = slowAuthentication();
  const found = identity.forListener('mcp').authenticate(WITH_KEY);
  pending[0]?.reject(new Error('unreachable'));
  await expect(found).rejects.toThrow('unreachable');
});
