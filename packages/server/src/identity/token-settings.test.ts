import { describe, expect, it, test } from 'vitest';
import { localhostCertificate } from '../http/client/certificate.fixture.ts';
import { identityIssues } from './settings.ts';
import { createSigner, identitySettings, keySet } from './signed-tokens.fixture.ts';
import { endpointAudiences } from './token-settings.ts';

const CORP = { name: 'corp', issuer: 'https://id.example.com' };
const PARTNER = { name: 'partner', issuer: 'https://partner.example.com' };
const SIGN_IN = { sign_in: { client_id: 'console' } };
const issuesOf = (settings: object) =>
  identityIssues(identitySettings(settings)).map(({ path, message }) => `${path} ${message}`);
const signer = await createSigner();

describe('token issuers without a problem', () => {
  it.each<[string, object]>([
    ['several', { tokens: [{ ...CORP, bare: true, ...SIGN_IN }, PARTNER] }],
    ['keys in a text', { tokens: [{ ...CORP, jwks_url: keySet(signer) }] }],
    ['a certificate', { tokens: [{ ...CORP, ca_file: { name: 'ca.pem', text: localhostCertificate.cert } }] }],
    [
      'an audience of two issuers, and another one of management',
      {
        tokens: [CORP, PARTNER].map((issuer) => ({
          ...issuer,
          audiences: [{ value: 'a', for: ['finance'] }],
          management_audiences: ['b'],
        })),
      },
    ],
  ])('%s', (_what, settings) => {
    expect(issuesOf(settings)).toEqual([]);
  });
});

const NAME = 'is the name of another source; each needs its own, since it begins all its ids';
const OVERLAP = 'is in audiences, too; tokens for namespaces must not count on the management listener';

describe('a problem of token issuers', () => {
  it.each<[string, object, string[]]>([
    ['the name of the proxy', { tokens: [{ ...CORP, name: 'proxy' }] }, [`tokens.0.name ${NAME}`]],
    ['the name of the keys', { tokens: [{ ...CORP, name: 'keys' }] }, [`tokens.0.name ${NAME}`]],
    ['one name for two', { tokens: [CORP, { ...PARTNER, name: 'corp' }] }, [`tokens.1.name ${NAME}`]],
    [
      'one issuer for two',
      { tokens: [CORP, { ...PARTNER, issuer: CORP.issuer }] },
      ['tokens.1.issuer is the issuer of another source; write what it has into one of them'],
    ],
    [
      'two bare sources',
      {
        tokens: [
          { ...CORP, bare: true },
          { ...PARTNER, bare: true },
        ],
      },
      ['tokens.1.bare is set for corp, too; ids without prefix can have one source only'],
    ],
    [
      'a bare proxy beside a bare issuer',
      { proxy: { trusted: ['127.0.0.1/32'], bare: true }, tokens: [{ ...CORP, bare: true }] },
      ['tokens.0.bare is set for proxy, too; ids without prefix can have one source only'],
    ],
    [
      'two issuers for the sign-in',
      { tokens: [CORP, PARTNER].map((issuer) => ({ ...issuer, ...SIGN_IN })) },
      ['tokens.1.sign_in is set for corp, too; people sign in with one issuer only'],
    ],
    [
      'an audience of an endpoint and of management',
      {
        tokens: [
          { ...CORP, audiences: [{ value: 'a', for: ['*'] }] },
          { ...PARTNER, management_audiences: ['b', 'a'] },
        ],
      },
      [`tokens.1.management_audiences.1 ${OVERLAP}`],
    ],
    [
      'a text without keys',
      { tokens: [{ ...CORP, jwks_url: { name: 'a', text: 'kid: 1' } }] },
      ['tokens.0.jwks_url is not a JSON Web Key Set'],
    ],
    [
      'a text with private keys only',
      { tokens: [{ ...CORP, jwks_url: { name: 'a', text: '{"keys":[{"kty":"EC","d":"x"}]}' } }] },
      ['tokens.0.jwks_url has no public key that can verify a signature'],
    ],
    [
      'a text that is no certificate',
      { tokens: [{ ...CORP, ca_file: { name: 'a', text: localhostCertificate.key } }] },
      ['tokens.0.ca_file has no valid certificate; expected certificates in PEM'],
    ],
  ])('%s', (_what, settings, issues) => {
    expect(issuesOf(settings)).toEqual(issues);
  });
});

describe('a way to be admin', () => {
  const isPossible = (issuer: object, ...admin: string[]) =>
    issuesOf({ tokens: [{ ...CORP, ...issuer }, PARTNER], roles: { admin } }).length === 0;
  const MANAGEMENT = { management_audiences: ['m'] };
  const groups = { groups: ['groups'] };

  it.each<[object, string]>([
    [{ ...MANAGEMENT, ...groups }, 'corp/platform'],
    [{ ...SIGN_IN, ...groups }, 'corp/platform'],
    [{ ...MANAGEMENT, ...groups, bare: true }, 'platform'],
    [MANAGEMENT, '*'],
    [SIGN_IN, '*'],
  ])('is there, case %#', (issuer, admin) => {
    expect(isPossible(issuer, admin)).toBe(true);
  });

  it.each<[object, string]>([
    [groups, 'corp/platform'],
    [{}, '*'],
    [MANAGEMENT, 'corp/platform'],
    [{ ...MANAGEMENT, ...groups }, 'platform'],
    [{ ...MANAGEMENT, ...groups }, 'corp/'],
    [{ ...MANAGEMENT, ...groups }, 'partner/platform'],
    [{ ...MANAGEMENT, ...groups, bare: true }, 'partner/platform'],
    [{ ...MANAGEMENT, ...groups, bare: true }, 'keys/platform'],
    [{ ...MANAGEMENT, ...groups }, 'corp/a\n'],
  ])('is missing, case %#', (issuer, admin) => {
    expect(isPossible(issuer, admin)).toBe(false);
  });
});

test('management audiences that are the URL of an endpoint are found', () => {
  const own = ['https://a.example/hr/mcp', 'https://a.example/', 'https://a.example/hr/mcp/'];
  const settings = identitySettings({ tokens: [CORP, { ...PARTNER, management_audiences: own }] });
  expect(endpointAudiences(settings, 'https://a.example')).toEqual([own[0], own[2]]);
  expect(endpointAudiences(settings, 'https://b.example')).toEqual([]);
});
