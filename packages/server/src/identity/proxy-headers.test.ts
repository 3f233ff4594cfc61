import { identity } from '@sluice/contract';
import { describe, expect, it, test } from 'vitest';
import { ANONYMOUS_CALLER, authenticated, NO_CREDENTIALS } from './authenticator.ts';
import { invalid } from './claims.ts';
import { createUser, type Principal } from './principal.ts';
import { describeProxyHeaders, ProxyHeaders, proxyHeaders } from './proxy-headers.ts';
import { TrustedProxies } from './trusted-proxies.ts';

const authenticate = proxyHeaders();
const headersOf = (forwarded: string | undefined, requested: string | undefined) => ({
  ...(forwarded !== undefined && { 'x-forwarded-user': forwarded }),
  ...(requested !== undefined && { 'x-auth-request-user': requested }),
});
const principalOf = (headers: Record<string, string>, using = authenticate) =>
  using({ target: '/', headers, address: undefined });

describe('the headers of an authenticating proxy name the user, and different values neither', () => {
  it.each<[forwarded: string | undefined, requested: string | undefined, id: string]>([
    [undefined, undefined, ''],
    [undefined, '', ''],
    [undefined, 'a', 'a'],
    ['', undefined, ''],
    ['', '', ''],
    ['', 'a', '["","a"]'],
    ['a', undefined, 'a'],
    ['a', '', '["a",""]'],
    ['a', 'a', 'a'],
    ['a', 'b', '["a","b"]'],
    ['a', 'A', '["a","A"]'],
    ['x'.repeat(300), undefined, 'x'.repeat(300)],
  ])('%j and %j', (forwarded, requested, id) => {
    const headers = headersOf(forwarded, requested);
    expect(principalOf(headers)).toEqual(id === '' ? ANONYMOUS_CALLER : authenticated(createUser(id, 'proxy')));
  });
});

test('a user has one principal, which is forgotten when there are many others', () => {
  const own = proxyHeaders();
  const ann = principalOf(headersOf('ann', undefined), own);
  expect(principalOf(headersOf(undefined, 'ann'), own)).toBe(ann);
  for (let n = 0; n < 1_000; n++) principalOf(headersOf(`user ${n}`, undefined), own);
  const again = principalOf(headersOf('ann', undefined), own);
  expect(again).not.toBe(ann);
  expect(again).toEqual(ann);
});

test.each([
  [{}, [], false],
  [{ 'x-forwarded-for': '::1', 'x-forwarded-user': 'a', cookie: 'c' }, ['x-forwarded-for', 'x-forwarded-user'], true],
  [{ 'x-forwarded-host': 'h', 'x-forwarded-proto': 'https' }, ['x-forwarded-host', 'x-forwarded-proto'], false],
  [{ 'x-auth-request-user': '' }, ['x-auth-request-user'], true],
])('names the headers of a proxy, without values (case %#)', (headers, names, hasUser) => {
  expect(describeProxyHeaders({ headers, credentials: NO_CREDENTIALS }, undefined)).toEqual({ names, hasUser });
  const credentials = new Map(Object.entries(headers).map(([name, value]) => [name, [value]]));
  expect(describeProxyHeaders({ headers: {}, credentials }, undefined)).toEqual({ names, hasUser });
});

test('a configured proxy names users in its own header', () => {
  const { proxy } = identity.parse({ proxy: { trusted: ['10.0.0.0/8'], user: 'x-user' } });
  const described = (...names: string[]) =>
    describeProxyHeaders({ headers: {}, credentials: new Map(names.map((name) => [name, ['ann']])) }, proxy);
  expect(described('x-user')).toEqual({ names: ['x-user'], hasUser: true });
  expect(described('x-forwarded-user')).toEqual({ names: ['x-forwarded-user'], hasUser: false });
});

const ADDRESS = '10.0.0.1';
const SETTINGS = {
  trusted: ['10.0.0.0/8'],
  groups: 'x-groups',
  person: 'x-person',
  service_accounts: ['service-account-*', '*-bot'],
};
/** Values as the parser has them: bytes as characters. */
const asReceived = (text: string) => Buffer.from(text).toString('latin1');

function configured(more: object = {}) {
  const settings = identity.parse({ proxy: { ...SETTINGS, ...more } }).proxy;
  if (settings === undefined) throw new Error('no proxy');
  return new ProxyHeaders(settings, new TrustedProxies(settings.trusted), ['corp']);
}

const linesOf = (lines: Record<string, string | string[]>) =>
  new Map(Object.entries(lines).map(([name, values]) => [name, [values].flat()]));
const proofOf = (lines: Record<string, string | string[]>, { peer = ADDRESS, using = configured() } = {}) =>
  using.authenticate(linesOf(lines), peer);
/** The principal, unless the caller is anonymous. */
const from = (...request: Parameters<typeof proofOf>) => {
  const found = proofOf(...request);
  return found.kind === 'invalid' || found === ANONYMOUS_CALLER ? found : found.principal;
};

describe('the headers of a configured proxy', () => {
  it('name user, groups and person', () => {
    const lines = {
      'x-forwarded-user': 'ann',
      'x-groups': 'sre, ops ,,\t finance team\t,sre',
      'x-person': 'ann@example.com',
    };
    expect(from(lines)).toEqual({
      ...createUser('proxy/ann', 'proxy'),
      groups: ['proxy/sre', 'proxy/ops', 'proxy/finance team'],
      person: 'ann@example.com',
    });
    const bare = from(lines, { using: configured({ bare: true }) });
    expect(bare).toMatchObject({ id: 'ann', groups: ['sre', 'ops', 'finance team'] });
    const renamed = configured({ user: 'X-User', groups: undefined, person: undefined });
    expect(from({ ...lines, 'x-user': 'bob' }, { using: renamed })).toEqual(createUser('proxy/bob', 'proxy'));
  });

  it.each<Record<string, string>>([
    {},
    { 'x-forwarded-user': '' },
    { 'x-groups': 'platform', 'x-person': 'ann@example.com' },
    { 'x-forwarded-user': '', 'x-groups': 'platform' },
    { 'x-auth-request-user': 'ann' },
    { authorization: 'Bearer x' },
  ])('without a user, the caller is anonymous (case %#)', (lines) => {
    expect(from(lines)).toBe(ANONYMOUS_CALLER);
  });

  it.each<Record<string, string[]>>([
    { 'x-forwarded-user': ['ann', 'eve'] },
    { 'x-forwarded-user': ['ann', 'ann'] },
    { 'x-forwarded-user': ['', ''] },
    { 'x-forwarded-user': ['ann'], 'x-groups': ['a', 'b'] },
    { 'x-forwarded-user': ['ann'], 'x-person': ['', 'b'] },
    { 'x-groups': ['a', 'b'] },
  ])('are invalid if one of them is repeated (case %#)', (lines) => {
    const using = configured();
    expect(from(lines, { peer: ADDRESS, using })).toEqual(invalid('an identity header occurs twice'));
    expect(from(lines, { peer: '192.0.2.1', using })).toBe(ANONYMOUS_CALLER);
    expect(using.ignored).toBe(1);
  });

  it.each<Record<string, string>>([
    { 'x-forwarded-user': 'ann', x_groups: 'platform' },
    { 'x-forwarded_user': 'ann' },
    { x_auth_request_user: 'ann' },
  ])('are invalid in a notation that the proxy may not know (case %#)', (lines) => {
    const using = configured();
    expect(from(lines, { peer: ADDRESS, using })).toEqual(invalid('an identity header has "_" in place of "-"'));
    expect(from(lines, { peer: '192.0.2.1', using })).toBe(ANONYMOUS_CALLER);
    expect(using.ignored).toBe(1);
  });

  it('are ignored and counted from other peers', () => {
    const using = configured();
    for (const peer of ['192.0.2.1', '::ffff:192.0.2.1', '', 'eve']) {
      expect(from({ 'x-forwarded-user': 'ann' }, { peer, using })).toBe(ANONYMOUS_CALLER);
    }
    expect(using.authenticate(linesOf({ 'x-groups': 'platform' }), undefined)).toBe(ANONYMOUS_CALLER);
    expect(using.ignored).toBe(5);
    from({}, { peer: '192.0.2.1', using });
    from({ 'x-forwarded-user': 'ann' }, { using, peer: '::ffff:10.0.0.9' });
    expect(using.ignored).toBe(5);
  });

  it('are decoded as UTF-8', () => {
    const lines = {
      'x-forwarded-user': asReceived('Jürgen Ö'),
      'x-groups': asReceived('Köln, 東京'),
      'x-person': asReceived('ü'),
    };
    expect(from(lines)).toMatchObject({ id: 'proxy/Jürgen Ö', groups: ['proxy/Köln', 'proxy/東京'], person: 'ü' });
  });

  it.each([
    ['\xfc', 'an identity header is not valid UTF-8'],
    ['\xc0\xaf', 'an identity header is not valid UTF-8'],
    ['\xed\xa0\x80', 'an identity header is not valid UTF-8'],
    [asReceived('a\u0085'), 'control characters'],
    ['a\tb', 'control characters'],
    ['x'.repeat(257), '256 bytes'],
    [asReceived('ü'.repeat(129)), '256 bytes'],
  ])('are invalid if a value cannot be a name: %j', (value, reason) => {
    const expected = { kind: 'invalid', reason: expect.stringContaining(reason) };
    expect(from({ 'x-forwarded-user': value })).toEqual(expected);
    expect(from({ 'x-forwarded-user': 'ann', 'x-groups': `a,${value}` })).toEqual(expected);
    expect(from({ 'x-forwarded-user': 'ann', 'x-person': value })).toEqual(expected);
  });

  it('have the limits of groups', () => {
    const withGroups = (groups: string) => from({ 'x-forwarded-user': 'ann', 'x-groups': groups });
    expect(withGroups(`${'a,'.repeat(300)}`)).toMatchObject({ kind: 'invalid', reason: 'more than 256 groups' });
    expect(withGroups(','.repeat(16_384))).toMatchObject({ groups: [] });
    expect(withGroups(' '.repeat(16_384))).toMatchObject({ groups: [] });
    const long = Array.from({ length: 65 }, (_, n) => String(n).padEnd(256, 'x')).join(',');
    expect(withGroups(long)).toMatchObject({ kind: 'invalid', reason: 'the groups have more than 16384 bytes' });
  });

  it('keep characters that only look like blanks in names', () => {
    const names = ['\u00a0platform', '\ufeffplatform', 'platform\u3000'];
    expect(
      from({ 'x-forwarded-user': asReceived('\ufeffann'), 'x-groups': asReceived(names.join(',')) }),
    ).toMatchObject({
      id: 'proxy/\ufeffann',
      groups: names.map((name) => `proxy/${name}`),
    });
  });

  it('of the bare proxy name nobody of another source', () => {
    const using = configured({ bare: true });
    for (const value of ['corp/ann', 'keys/night', 'forward:crm']) {
      expect(from({ 'x-forwarded-user': value }, { using })).toMatchObject({ kind: 'invalid' });
    }
    expect(from({ 'x-forwarded-user': 'ann', 'x-groups': 'keys/a' }, { using })).toMatchObject({ kind: 'invalid' });
  });

  it.each<[id: string, kind: Principal['kind']]>([
    ['service-account-night', 'service_account'],
    ['build-bot', 'service_account'],
    ['Service-Account-night', 'user'],
    ['my-service-account-night', 'user'],
    ['ann', 'user'],
  ])('name service accounts by globs: %s', (id, kind) => {
    expect(from({ 'x-forwarded-user': id })).toMatchObject({ kind, id: `proxy/${id}`, key: `${kind}:proxy/${id}` });
  });
});

describe('the principal of a configured proxy', () => {
  it('is the same one for the same headers, and another one as soon as they differ', () => {
    const using = configured();
    const of = (groups: string, person = '') =>
      from({ 'x-forwarded-user': 'ann', 'x-groups': groups, 'x-person': person }, { using });
    const first = of('a,b');
    expect(of('a,b')).toBe(first);
    expect(of('a')).toMatchObject({ groups: ['proxy/a'] });
    expect(of('', 'p')).toMatchObject({ groups: [], person: 'p' });
    expect(of('')).toMatchObject({ groups: [], person: undefined });
    expect(of('a,b')).toEqual(first);
    expect(from({ 'x-forwarded-user': 'ann' }, { using })).toMatchObject({ groups: [] });
  });

  it('is proven by its headers, which prove the same one again', () => {
    const using = configured();
    const lines = { 'x-forwarded-user': asReceived('jürgen'), 'x-groups': 'a, b', 'x-person': '' };
    const found = proofOf({ ...lines, 'x-auth-request-user': 'eve' }, { using });
    const headers = linesOf({ 'x-forwarded-user': asReceived('jürgen'), 'x-groups': 'a, b' });
    expect(found).toMatchObject({ proof: { kind: 'proxy', headers, peer: ADDRESS }, expiresAt: undefined });
    expect(proofOf(lines, { using })).toBe(found);
    expect(using.authenticate(headers, ADDRESS)).toBe(found);
    expect(configured().authenticate(headers, ADDRESS)).toEqual(found);
    const withPerson = proofOf({ ...lines, 'x-person': 'p' }, { using });
    expect(withPerson).toMatchObject({ proof: { headers: linesOf({ ...lines, 'x-person': 'p' }) } });
  });

  it('is not believed from another peer because it is cached', () => {
    const using = configured();
    from({ 'x-forwarded-user': 'ann' }, { using });
    expect(from({ 'x-forwarded-user': 'ann' }, { using, peer: '192.0.2.1' })).toBe(ANONYMOUS_CALLER);
  });

  it('is forgotten when there are many others, and not cached if it has many groups', () => {
    const using = configured();
    const of = (id: string, groups = '') => from({ 'x-forwarded-user': id, 'x-groups': groups }, { using });
    const ann = of('ann');
    for (let n = 0; n < 1_000; n++) of(`user ${n}`);
    expect(of('ann')).not.toBe(ann);
    expect(of('ann')).toEqual(ann);
    const groups = Array.from({ length: 100 }, (_, n) => String(n).padEnd(50, 'x')).join(',');
    expect(of('bob', groups)).not.toBe(of('bob', groups));
    expect(of('bob', groups)).toEqual(of('bob', groups));
  });
});
