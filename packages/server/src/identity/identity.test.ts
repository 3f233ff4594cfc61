import { identity as schema } from '@sluice/contract';
import { createServiceKey, hashServiceKey } from '@sluice/contract/service-key';
import { describe, expect, it, onTestFinished, test } from 'vitest';
import type { Served } from './active-identity.ts';
import { ANONYMOUS_CALLER, type Authenticated, type Rejected } from './authenticator.ts';
import { Identity } from './identity.ts';
import { createSigner, keySet, sign } from './signed-tokens.fixture.ts';

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

describe('what was authenticated before other settings', () => {
  const identity = new Identity(undefined);
  const { authenticate } = identity.forListener('mcp', () => 'finance');
  const HEADERS = { 'x-user': 'ann', 'x-groups': 'a' };
  const NAMED = { ...PROXY, groups: 'x-groups' };
  const all = { keys: [NIGHT], proxy: NAMED, tokens: [] };
  const admit = (settings: object | undefined, head: ReturnType<typeof headOf>) => {
    identity.replace(settings && parse(settings));
    return authenticate(head) as Authenticated;
  };
  const reassess = (by: Authenticated, settings: object | undefined, served: Served = 'mcp', namespace = 'finance') => {
    identity.replace(settings && parse(settings));
    return identity.reassess(by, served, namespace);
  };

  it('counts for equal ones, with the groups that it has now', () => {
    const byKey = admit(all, WITH_KEY);
    expect(reassess(byKey, all)).toEqual(byKey);
    const promoted = { ...all, keys: [{ ...NIGHT, groups: ['admins'] }] };
    expect(reassess(byKey, promoted)?.principal.groups).toEqual(['keys/admins']);
    const byProxy = admit(all, headOf(HEADERS));
    expect(reassess(byProxy, all)).toEqual(byProxy);
    expect(reassess(byProxy, { proxy: PROXY })?.principal.groups).toEqual([]);
    expect(reassess(byProxy, undefined)).toBe(byProxy);
    expect(identity.ignored).toBeUndefined();
  });

  it('ends with its key, or where that does not count any more', () => {
    const by = admit(all, WITH_KEY);
    const withKey = (key: object) => ({ keys: [{ ...NIGHT, ...key }] });
    expect(reassess(by, { keys: [] })).toBeUndefined();
    expect(reassess(by, withKey({ sha256: ['0'.repeat(64)] }))).toBeUndefined();
    expect(reassess(by, withKey({ name: 'day' }))).toBeUndefined();
    expect(reassess(by, withKey({ expires: '2020-01-01' }))).toBeUndefined();
    expect(reassess(by, withKey({ for: ['hr'] }))).toBeUndefined();
    expect(reassess(by, withKey({ for: ['hr'] }), 'management', 'hr')).toBeDefined();
    expect(reassess(by, withKey({ management: false }), 'management')).toBeUndefined();
    expect(reassess(by, withKey({ management: false, for: ['finance'] }))).toBeDefined();
    // The replica that has handed it off asks where it counts.
    const handedOff = { ...by, isHandedOff: true };
    expect(reassess(handedOff, withKey({ for: ['hr'], management: false }), 'management')).toBeDefined();
    expect(reassess(handedOff, { keys: [] })).toBeUndefined();
  });

  it('continues after the end of its key, unless that is another one now', () => {
    let time = Date.parse('2027-06-30T12:00:00Z');
    const own = new Identity(parse({ keys: [{ ...NIGHT, expires: '2027-06-30' }] }), { now: () => time });
    const by = own.forListener('mcp').authenticate(WITH_KEY) as Authenticated;
    time += 24 * 60 * 60 * 1_000;
    expect(own.forListener('mcp').authenticate(WITH_KEY)).toMatchObject({ cause: 'the key has expired' });
    expect(own.reassess(by, 'mcp', undefined)).toBeDefined();
    own.replace(parse({ keys: [{ ...NIGHT, expires: '2027-06-29' }] }));
    expect(own.reassess(by, 'mcp', undefined)).toBeUndefined();
  });

  it('ends with its token issuer, its key or its audience, and not when it expires', async () => {
    const [signer, other] = [await createSigner(), await createSigner()];
    const issuer = {
      name: 'corp',
      issuer: 'https://id.example.com',
      jwks_url: keySet(signer),
      audiences: [{ value: 'tools', for: ['finance'] }],
      management_audiences: ['admin'],
    };
    const withIssuer = (more: object) => ({ tokens: [{ ...issuer, ...more }] });
    let time = Date.now();
    const own = new Identity(parse(withIssuer({})), { now: () => time });
    onTestFinished(() => own.close());
    const now = Math.floor(time / 1_000);
    const claims = { iss: issuer.issuer, sub: 'ann', email: 'ann', aud: ['tools', 'admin'], iat: now, exp: now + 60 };
    const head = headOf({ authorization: `Bearer ${await sign(signer, claims)}` });
    const by = (await own.forListener('mcp', () => 'finance').authenticate(head)) as Authenticated;
    expect(by.principal.key).toBe('user:corp/ann');
    const again = (settings: object, request = by, served: Served = 'mcp', namespace = 'finance') => {
      own.replace(parse(settings));
      return own.reassess(request, served, namespace)?.principal;
    };
    expect(again(withIssuer({ groups: ['aud'] }))?.groups).toEqual(['corp/tools', 'corp/admin']);
    expect(again(withIssuer({}), by, 'management')).toBeDefined();
    for (const more of [
      { name: 'other' },
      { issuer: 'https://other.example.com' },
      { jwks_url: keySet(other) },
      { audiences: [] },
      { audiences: [{ value: 'tools', for: ['hr'] }] },
      { user: 'email' },
      { algorithms: ['RS256'] },
    ]) {
      expect(again(withIssuer(more))).toBeUndefined();
    }
    expect(again({ tokens: [] })).toBeUndefined();
    expect(again(withIssuer({ management_audiences: [] }), by, 'management')).toBeUndefined();
    const handedOff = { ...by, isHandedOff: true };
    expect(again(withIssuer({ audiences: [], management_audiences: [] }), handedOff)).toBeDefined();
    expect(again(withIssuer({ jwks_url: keySet(other) }), handedOff)).toBeUndefined();
    time += 24 * 60 * 60 * 1_000;
    expect(again(withIssuer({}))).toBeDefined();
    expect(await own.forListener('mcp', () => 'finance').authenticate(head)).toMatchObject({ kind: 'rejected' });
  });

  it('ends with its proxy, and with another name by other headers', () => {
    const by = admit(all, headOf(HEADERS));
    expect(reassess(by, { keys: [NIGHT] })).toBeUndefined();
    expect(reassess(by, { proxy: { ...NAMED, trusted: ['10.0.0.2/32'] } })).toBeUndefined();
    expect(identity.ignored).toBe(0);
    expect(reassess(by, { proxy: { ...NAMED, user: 'x-name' } })).toBeUndefined();
    expect(reassess(by, { proxy: { ...NAMED, bare: true } })).toBeUndefined();
    expect(reassess(by, { proxy: { ...NAMED, service_accounts: ['ann'] } })).toBeUndefined();
    const other = authenticate(headOf(HEADERS, '10.0.0.2')) as Authenticated;
    expect(other.principal).toEqual({ ...by.principal, kind: 'service_account', key: 'service_account:proxy/ann' });
  });

  it('has the address of its own proxy, also if the user comes from several ones', () => {
    const [first, second] = [admit(all, headOf(HEADERS)), authenticate(headOf(HEADERS, '10.0.0.2')) as Authenticated];
    expect(first.principal).toBe(second.principal);
    const settings = { proxy: { ...NAMED, trusted: ['10.0.0.2/32'] } };
    expect([reassess(first, settings), reassess(second, settings)]).toEqual([undefined, second]);
  });

  it('ends if it was believed from everybody, or is anonymous where a credential is required', () => {
    const believed = admit(undefined, { ...headOf({}), headers: { 'x-forwarded-user': 'ann' } });
    expect(believed.principal.id).toBe('ann');
    expect(reassess(believed, all)).toBeUndefined();
    const anonymous = admit(undefined, headOf({}));
    expect(reassess(anonymous, all)).toBe(ANONYMOUS_CALLER);
    const denied = { ...all, anonymous: 'deny' };
    expect(reassess(anonymous, denied)).toBeUndefined();
    expect(reassess(anonymous, denied, 'inference')).toBe(ANONYMOUS_CALLER);
    expect(reassess(anonymous, { ...denied, inference: true }, 'inference')).toBeUndefined();
    expect(reassess({ ...anonymous, isHandedOff: true }, denied)).toBeDefined();
  });
});
