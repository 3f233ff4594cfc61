import { type IdentitySettings, identity } from '@sluice/contract';
import { describe, expect, it } from 'vitest';
import { identityHeaders, identityIssues, identityWarnings, receivedHeaders, unrestrictedCallers } from './settings.ts';

type Input = Parameters<typeof identity.encode>[0] | Readonly<Record<string, unknown>>;

const settingsOf = (input: Input): IdentitySettings => identity.parse(input);
const issuesOf = (input: Input) => identityIssues(settingsOf(input)).map(({ path, message }) => `${path} ${message}`);

const hash = (digit: string) => digit.repeat(64);
const KEY = { name: 'nightly', sha256: [hash('a')] };
const ADMIN_KEY = { ...KEY, management: true, groups: ['ops'] };
const PROXY = { trusted: ['127.0.0.1/32'] };
const WITH_GROUPS = { ...PROXY, groups: 'x-forwarded-groups' };

describe('settings without a problem', () => {
  it.each<[string, Input]>([
    ['nothing', {}],
    ['only a proxy', { anonymous: 'deny', inference: true, proxy: PROXY }],
    ['only keys', { anonymous: 'deny', keys: [KEY] }],
    ['keys beside a proxy whose headers win', { keys: [KEY], proxy: { ...PROXY, ignore_authorization: true } }],
    ['an admin by a group of the proxy', { proxy: WITH_GROUPS, roles: { admin: ['proxy/platform'] } }],
    ['an admin by a group of a bare proxy', { proxy: { ...WITH_GROUPS, bare: true }, roles: { admin: ['platform'] } }],
    [
      'an admin by a group of a key',
      { keys: [KEY, { ...ADMIN_KEY, name: 'b', sha256: [hash('b')] }], roles: { admin: ['keys/ops'] } },
    ],
    ['an admin by an expired key', { keys: [{ ...ADMIN_KEY, expires: '2020-01-01' }], roles: { admin: ['keys/ops'] } }],
    ['everyone of the proxy', { proxy: PROXY, roles: { admin: ['*'] } }],
    ['everyone with a key', { keys: [ADMIN_KEY], roles: { admin: ['*'] } }],
    ['one possible group of several', { proxy: WITH_GROUPS, roles: { admin: ['x', 'proxy/y'], viewer: ['z'] } }],
  ])('%s', (_what, input) => {
    expect(issuesOf(input)).toEqual([]);
  });
});

const ADMIN_REMEDY =
  'expected "proxy/<group>" (with proxy.groups), "keys/<group>" of a key with "management: true", a group of a token issuer (with groups, and management_audiences or sign_in), or "*" for everyone whom a source authenticates there';
const NO_ADMIN = `roles.admin has no group that a source gives on the management listener, so that nobody could administer: ${ADMIN_REMEDY}`;
const noHeader = (member: string, name: string) =>
  `proxy.${member} must not be ${name}, which has another meaning; name a header that only the proxy sets`;

describe('a problem between members', () => {
  it.each<[string, Input, string[]]>([
    [
      'nobody can authenticate',
      { anonymous: 'deny', keys: [] },
      ['anonymous rejects every request: nobody can authenticate; configure proxy, tokens or keys, or set it to allow'],
    ],
    [
      'an inference listener that seems protected',
      { inference: true, proxy: PROXY },
      ['inference has no effect without "anonymous: deny"; set it too, or remove this member'],
    ],
    [
      'two keys with one name',
      { keys: [KEY, { ...KEY, sha256: [hash('b')] }] },
      ['keys.1.name has the name of another key; each needs its own, since it is the id of the service account'],
    ],
    [
      'two keys with one hash',
      { keys: [KEY, { name: 'b', sha256: [hash('b'), hash('a')] }] },
      ['keys.1.sha256.1 is the hash of another key; create a key for each service account with sluice keys create'],
    ],
    [
      'a key with one hash twice',
      { keys: [{ ...KEY, sha256: [hash('a'), hash('a')] }] },
      ['keys.0.sha256.1 is the hash of another key; create a key for each service account with sluice keys create'],
    ],
    [
      'one header for two members',
      { proxy: { ...PROXY, groups: 'X-Forwarded-User', person: 'x-forwarded-user' } },
      ['groups', 'person'].map(
        (member) =>
          `proxy.${member} is x-forwarded-user a second time; user, groups and person need headers of their own`,
      ),
    ],
    [
      'roles without an admin',
      { proxy: PROXY, roles: {} },
      [`roles.admin has no group, so that nobody could administer: ${ADMIN_REMEDY}`],
    ],
    [
      'an empty list of admins',
      { proxy: WITH_GROUPS, roles: { admin: [], viewer: ['proxy/x'] } },
      [`roles.admin has no group, so that nobody could administer: ${ADMIN_REMEDY}`],
    ],
    ['a group of the proxy without its prefix', { proxy: WITH_GROUPS, roles: { admin: ['platform'] } }, [NO_ADMIN]],
    ['a prefix without a group', { proxy: WITH_GROUPS, roles: { admin: ['proxy/'] } }, [NO_ADMIN]],
    ['two groups in one text', { proxy: WITH_GROUPS, roles: { admin: ['proxy/a,b', 'proxy/ a'] } }, [NO_ADMIN]],
    ['a proxy without groups', { proxy: PROXY, roles: { admin: ['proxy/platform'] } }, [NO_ADMIN]],
    ['a group that no key has', { keys: [ADMIN_KEY], roles: { admin: ['keys/other'] } }, [NO_ADMIN]],
    [
      'a key that does not count at management',
      { keys: [{ ...KEY, groups: ['ops'] }], roles: { admin: ['keys/ops', '*'] } },
      [NO_ADMIN],
    ],
    [
      'a group of keys from a bare proxy',
      { proxy: { ...WITH_GROUPS, bare: true }, keys: [KEY], roles: { admin: ['keys/ops'] } },
      [NO_ADMIN.replace('"proxy/<group>"', 'a group of the proxy')],
    ],
    ['everyone, and no source', { roles: { admin: ['*'] } }, [NO_ADMIN]],
  ])('%s', (_what, input, issues) => {
    expect(issuesOf(input)).toEqual(issues);
  });

  it.each([
    'authorization',
    'cookie',
    'host',
    'origin',
    'connection',
    'transfer-encoding',
    'content-length',
    'proxy-authorization',
    'mcp-session-id',
    'forwarded',
    'x-forwarded-for',
    'x-sluice-authorization',
    'sluice-peer-principal',
  ])('the header %s cannot say who calls', (name) => {
    for (const member of ['user', 'groups', 'person']) {
      expect(issuesOf({ proxy: { ...PROXY, [member]: name.toUpperCase() } })).toEqual([noHeader(member, name)]);
    }
  });

  it('all of them are found at once', () => {
    const input = { anonymous: 'deny', proxy: { ...PROXY, user: 'host' }, keys: [KEY, KEY], roles: {} };
    expect(identityIssues(settingsOf(input)).map(({ path }) => path)).toEqual([
      'proxy.user',
      'keys.1.name',
      'keys.1.sha256.0',
      'roles.admin',
    ]);
  });
});

it('headers that say who calls never leave, and neither does a credential that is read here', () => {
  const always = ['x-sluice-authorization', 'x-forwarded-user', 'x-auth-request-user'];
  expect([...identityHeaders(settingsOf({}))]).toEqual(always);
  const named = settingsOf({ proxy: { ...PROXY, user: 'X-User', groups: 'x-groups', person: 'x-email' }, keys: [KEY] });
  expect([...identityHeaders(named)]).toEqual([...always, 'x-user', 'x-groups', 'x-email']);
  expect([...receivedHeaders(named)]).toEqual([...identityHeaders(named), 'authorization']);
  expect([...receivedHeaders(settingsOf({ proxy: PROXY }))]).toEqual(always);
});

it('without roles, those who reach the management port can change everything', () => {
  expect(unrestrictedCallers(settingsOf({ proxy: PROXY }))).toBe('whoever reaches the management port');
  expect(unrestrictedCallers(settingsOf({ anonymous: 'deny', proxy: PROXY }))).toMatch(/^every authenticated caller/);
  expect(unrestrictedCallers(settingsOf({ proxy: PROXY, roles: { admin: ['*'] } }))).toBeUndefined();
});

const ISSUER = { name: 'corp', issuer: 'https://id.example.com' };

it('reads Authorization as soon as there are tokens', () => {
  expect([...receivedHeaders(settingsOf({ tokens: [ISSUER] }))]).toContain('authorization');
  expect(issuesOf({ anonymous: 'deny', tokens: [ISSUER] })).toEqual([]);
});

describe('a warning', () => {
  const warningsOf = (input: Input) =>
    identityWarnings(settingsOf(input)).map(({ path, message }) => `${path} ${message}`);

  it.each(['0.0.0.0/0', '10.0.0.0/0', '::/0', 'fd00::/0', '::ffff:0:0/96'])(
    'is given for a proxy at every address: %s',
    (range) => {
      expect(warningsOf({ proxy: { trusted: ['10.0.0.0/8', range] } })).toEqual([
        'proxy.trusted.1 is every address: whoever reaches a listener can send the headers of any user; list the addresses of the proxy only',
      ]);
    },
  );

  it('is given for an audience that counts in all namespaces', () => {
    const audiences = [
      { value: 'a', for: ['finance', 'hr'] },
      { value: 'b', for: ['*'] },
    ];
    expect(warningsOf({ tokens: [ISSUER, { ...ISSUER, name: 'partner', audiences }] })).toEqual([
      'tokens.1.audiences.1.for is every namespace: whoever gets a token from a client of one of them can use it in all others; list the namespaces',
    ]);
  });

  it('is given for nothing else', () => {
    const trusted = ['0.0.0.0/1', '128.0.0.0/1', '255.255.255.255/32', '::/1', '::1/128', '::ffff:0:0/97'];
    expect(warningsOf({ keys: [KEY], tokens: [ISSUER], proxy: { trusted } })).toEqual([]);
    expect(warningsOf({})).toEqual([]);
  });
});
