import { identity } from '@sluice/contract';
import type { JsonObject } from '@sluice/protocol/json/parse';
import { describe, expect, it, test } from 'vitest';
import { createSource, invalid } from './claims.ts';
import { ANONYMOUS, type Principal } from './principal.ts';
import { PROVIDERS } from './provider-claims.fixture.ts';
import { claimReader } from './token-claims.ts';

type Settings = Readonly<Record<string, unknown>>;

function read(claims: JsonObject, settings: Settings = {}, bare = false) {
  const [issuer] = identity.parse({
    tokens: [{ name: 'corp', bare, issuer: 'https://id.example.com', ...settings }],
  }).tokens;
  if (!issuer) throw new Error('no issuer');
  return claimReader(issuer, createSource('corp', bare, ['corp', 'partner']))(claims);
}

function principalFor(claims: JsonObject, settings: Settings = {}): Principal {
  const principal = read({ sub: 'ann', ...claims }, settings);
  if (principal.kind === 'invalid') throw new Error(principal.reason);
  return principal;
}

test('a principal has what its token says, by the claims of the settings', () => {
  const claims = {
    sub: 'ann',
    groups: ['sre', 'ops'],
    realm_access: { roles: ['platform', 'ops'] },
    email: 'ann@example.com',
    email_verified: true,
    scope: 'openid tools  openid',
    act: { sub: 'agent', act: { sub: 'earlier' } },
    azp: 'claude',
  };
  const settings = { groups: ['groups', 'realm_access.roles'], person: 'email' };
  expect(read(claims, settings)).toEqual({
    ...ANONYMOUS,
    kind: 'user',
    id: 'corp/ann',
    key: 'user:corp/ann',
    groups: ['corp/sre', 'corp/ops', 'corp/platform'],
    source: 'corp',
    person: 'ann@example.com',
    actor: 'corp/agent',
    scopes: ['openid', 'tools'],
    claims: new Map<string, unknown>(Object.entries(claims)),
  });
  expect(read({ sub: 'ann', groups: ['sre'] }, settings, true)).toMatchObject({ id: 'ann', groups: ['sre'] });
});

describe('a claim is found by its exact name, else by a path', () => {
  it.each<[JsonObject, string, readonly string[]]>([
    [{ 'a.b': 'exact', a: { b: 'path' } }, 'a.b', ['exact']],
    [{ a: { b: ['x', 'y'] } }, 'a.b', ['x', 'y']],
    [{ 'kubernetes.io': { namespace: 'agents' } }, 'kubernetes.io.namespace', ['agents']],
    [{ 'https://example.com/roles': ['x'] }, 'https://example.com/roles', ['x']],
    [{ a: { 'b.c': 'x' } }, 'a.b.c', ['x']],
    [{ a: 'text' }, 'a.length', []],
    [{ a: ['x'] }, 'a.0', []],
    [{ a: {} }, 'a.constructor', []],
    [{}, '__proto__', []],
    [{ a: null }, 'a', []],
    [{ a: [] }, 'a', []],
  ])('case %#', (claims, path, groups) => {
    expect(principalFor(claims, { groups: [path] }).groups).toEqual(groups.map((group) => `corp/${group}`));
  });
});

describe('a service account', () => {
  it.each<[string, JsonObject]>([
    ['client_id', { client_id: 'ann' }],
    ['azp', { azp: 'ann' }],
    ['appid', { appid: 'ann' }],
    ['cid', { cid: 'ann' }],
    ['oid with tid', { oid: 'ann', tid: 't' }],
    ['idtyp', { idtyp: 'app' }],
    ['gty', { gty: 'client-credentials' }],
    ['kubernetes.io', { 'kubernetes.io': {} }],
    ['preferred_username', { preferred_username: 'service-account-x' }],
  ])('by %s', (_what, claims) => {
    expect(principalFor(claims)).toMatchObject({ kind: 'service_account', key: 'service_account:corp/ann' });
  });

  it.each<[string, JsonObject]>([
    ['of another client', { client_id: 'x', azp: 'x', appid: 'x', cid: 'x' }],
    ['with oid, without tid', { oid: 'ann' }],
    ['with another oid', { oid: 'x', tid: 't' }],
    ['of a user of an application', { idtyp: 'user', gty: 'password', preferred_username: 'ann' }],
  ])('is no user %s', (_what, claims) => {
    expect(principalFor(claims).kind).toBe('user');
  });

  it('by the globs of the settings', () => {
    const settings = { service_account: { claim: 'roles', values: ['bot', 'svc-*'] } };
    expect(principalFor({ roles: ['x', 'svc-1'] }, settings).kind).toBe('service_account');
    expect(principalFor({ roles: 'bot' }, settings).kind).toBe('service_account');
    expect(principalFor({ roles: ['robot'] }, settings).kind).toBe('user');
  });
});

describe('an address counts only if it is verified', () => {
  const email = 'ann@example.com';
  it.each<[JsonObject, string, string | undefined]>([
    [{ email, email_verified: true }, 'email', email],
    [{ email }, 'email', undefined],
    [{ email, email_verified: false }, 'email', undefined],
    [{ email, email_verified: 'true' }, 'email', undefined],
    [{ user: { email, email_verified: true } }, 'user.email', email],
    [{ user: { email }, email_verified: true }, 'user.email', undefined],
    [{ upn: email }, 'upn', email],
  ])('case %#', (claims, person, expected) => {
    expect(principalFor(claims, { person }).person).toBe(expected);
  });

  it('as the id, too', () => {
    const claims = { email, email_verified: true };
    expect(read(claims, { user: 'email' })).toMatchObject({ id: `corp/${email}` });
    expect(read({ email }, { user: 'email' })).toMatchObject({ kind: 'invalid' });
  });
});

describe('claims that cannot be read make the token invalid', () => {
  const ID = 'the claim with the id is missing, not a text, or an address that is not verified';
  it.each<[string, JsonObject]>([
    [ID, { sub: 1 }],
    [ID, { sub: null }],
    [ID, { sub: ['ann'] }],
    ['the id is empty', { sub: '' }],
    ['the groups are not in the token, but at its issuer', { _claim_names: { groups: 'src1' }, _claim_sources: {} }],
    ['the groups are not in the token, but at its issuer', { hasgroups: true }],
    ['a claim with groups is not a list of texts', { groups: [1] }],
    ['a claim with groups is not a list of texts', { groups: { a: 'b' } }],
    ['a group is empty', { groups: [''] }],
    ['the claim with the person is not a text', { person: ['x'] }],
    ['the person has control characters', { person: 'x\n' }],
    ['the claim with the scopes is not a list of texts', { scope: 1 }],
    ['the claim with the scopes is not a list of texts', { scp: [{}] }],
    ['the claim act does not name the actor', { act: 'agent' }],
    ['the claim act does not name the actor', { act: {} }],
    ['the actor is empty', { act: { sub: '' } }],
  ])('%s, case %#', (reason, claims) => {
    const settings = { groups: ['groups'], person: 'person' };
    expect(read({ sub: 'ann', ...claims }, settings)).toEqual(invalid(reason));
  });

  it('so do names of another source', () => {
    const reasonOf = (claims: JsonObject) => read({ sub: 'ann', ...claims }, { groups: ['groups'] }, true);
    expect(reasonOf({ sub: 'keys/night' })).toEqual(invalid('the id begins with the name of another source'));
    expect(reasonOf({ groups: ['partner/x'] })).toEqual(invalid('a group begins with the name of another source'));
    expect(reasonOf({ act: { sub: 'proxy/x' } })).toEqual(invalid('the actor begins with the name of another source'));
  });
});

describe.each(Object.entries(PROVIDERS))('tokens in the layout of %s', (_name, { settings, expected, ...tokens }) => {
  it.runIf(tokens.user)('are those of users', () => {
    const principal = read(tokens.user ?? {}, settings);
    expect(principal).toMatchObject({ kind: 'user', id: `corp/${expected.id}`, person: expected.person });
  });

  it('are those of service accounts', () => {
    const groups = expected.groups.map((group) => `corp/${group}`);
    expect(read(tokens.serviceAccount, settings)).toMatchObject({ kind: 'service_account', groups });
  });
});
