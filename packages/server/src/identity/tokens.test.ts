import { createHmac } from 'node:crypto';
import { describe, expect, it, test } from 'vitest';
import { PROVIDERS } from './provider-claims.fixture.ts';
import { createSigner, identitySettings, keySet, type Members, type Signer, sign } from './signed-tokens.fixture.ts';
import { Tokens } from './tokens.ts';

const NOW = Date.parse('2026-11-30T12:00:00Z');
const SECONDS = NOW / 1_000;
const ISSUER = 'https://id.example.com';
const PUBLIC_URL = 'https://agents.example.com/tools';
const ENDPOINT = `${PUBLIC_URL}/finance/mcp`;
const CLAIMS = { iss: ISSUER, sub: 'ann', aud: ENDPOINT, iat: SECONDS - 10, exp: SECONDS + 3_600 };

const [ec, rsa, ed, other] = await Promise.all([
  createSigner('ES256', 'ec'),
  createSigner('RS256', 'rsa'),
  createSigner('EdDSA', 'ed'),
  createSigner('ES256', 'other'),
]);

interface Opened {
  readonly now?: () => number;
  readonly earlier?: Tokens;
}

/** Tokens of one issuer, whose keys are in a text, and of those in `more`. */
function open(settings: object = {}, more: readonly object[] = [], { now = () => NOW, earlier }: Opened = {}): Tokens {
  const corp = { name: 'corp', issuer: ISSUER, jwks_url: keySet(ec, rsa, ed), groups: ['groups'], ...settings };
  const fetch = () => Promise.reject(new Error('no network'));
  const parts = { publicUrl: PUBLIC_URL, fetch, now, report: () => {} };
  return new Tokens(identitySettings({ tokens: [corp, ...more] }).tokens, parts, earlier);
}

const verify = async (token: string, tokens = open()) => await tokens.verify(`Bearer ${token}`, token);

/** The reason why the token is not accepted; undefined if it is. */
async function reasonOf(token: string, tokens = open()): Promise<string | undefined> {
  const verification = await verify(token, tokens);
  return verification.kind === 'invalid' ? verification.reason : undefined;
}

const signed = (claims: Members = {}, header: Members = {}, signer: Signer = ec) =>
  sign(signer, { ...CLAIMS, ...claims }, header);
const example = await signed();
const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');

describe('a token is accepted', () => {
  it.each<[string, Members, Members, Signer?]>([
    ['with ES256', {}, {}],
    ['with RS256', {}, {}, rsa],
    ['with EdDSA', {}, {}, ed],
    ['with the new name of EdDSA', {}, { alg: 'Ed25519' }, ed],
    ['without the id of its key', {}, { kid: undefined }],
    ['with the type JWT', {}, { typ: 'JWT' }],
    ['with the type of access tokens', { nonce: 'n' }, { typ: 'at+jwt' }],
    ['with that type as a media type', {}, { typ: 'Application/AT+JWT' }],
    ['with a claim that names its type', { typ: 'Bearer', nonce: 'n' }, {}],
    ['a moment after it has expired', { exp: SECONDS - 59 }, {}],
    ['a moment before it is valid', { nbf: SECONDS + 59, iat: SECONDS + 59 }, {}],
    ['without its time of issue', { iat: undefined }, {}],
    ['with 24 hours', { iat: SECONDS, exp: SECONDS + 86_400 }, {}],
    ['with unknown headers', {}, { x5t: 'a', 'x5t#S256': 'b' }],
    ['with a name that has escapes', { 'gr\u00fc\u00dfe"\\': true }, {}],
  ])('%s', async (_what, claims, header, signer) => {
    expect(await verify(await signed(claims, header, signer))).toMatchObject({
      kind: 'verified',
      authenticated: { principal: { kind: 'user', id: 'corp/ann' } },
      namespaces: ['finance'],
      isForManagement: false,
    });
  });
});

const ACCESS = 'the token is not an access token';
const REPEATED = 'the token has a member twice';
const ALGORITHM = 'the algorithm of the token is not allowed';
const KEY = 'the key of the token is none of its issuer';
const SIGNATURE = 'the signature of the token is wrong';
const NOT_SIGNED = 'the token is not a signed JWT';
const NOT_YET = 'the token is not valid yet';
const OWN_KEY = 'the header of the token brings a key';
const LONG = 'the token is valid for longer than max_lifetime_hours';
const NO_EXPIRY = 'the token has no time of expiry';
const ELSEWHERE = 'the groups are not in the token, but at its issuer';

describe('a token is refused', () => {
  it.each<[string, Members, Members, string]>([
    ['expired', { exp: SECONDS - 60 }, {}, 'the token has expired'],
    ['without an end', { exp: undefined }, {}, NO_EXPIRY],
    ['with an end that is a text', { exp: '9999999999' }, {}, NO_EXPIRY],
    ['not yet valid', { nbf: SECONDS + 61 }, {}, NOT_YET],
    ['issued in the future', { iat: SECONDS + 61 }, {}, NOT_YET],
    ['with a time that is a text', { nbf: '0' }, {}, NOT_YET],
    ['for a long time', { iat: SECONDS, exp: SECONDS + 86_401 }, {}, LONG],
    ['for a long time, without a beginning', { iat: undefined, exp: SECONDS + 86_401 }, {}, LONG],
    ['forever', { exp: 1e300 }, {}, LONG],
    ['from another issuer', { iss: 'https://other.example.com' }, {}, 'the issuer of the token is unknown'],
    ['from an issuer with another path', { iss: `${ISSUER}/` }, {}, 'the issuer of the token is unknown'],
    ['without an issuer', { iss: undefined }, {}, 'the token does not name its issuer'],
    ['with an algorithm that is none', {}, { alg: 'none' }, ALGORITHM],
    ['with a symmetric algorithm', {}, { alg: 'HS256' }, ALGORITHM],
    ['with an algorithm that is not in the settings', {}, { alg: 'ES384' }, ALGORITHM],
    ['with no algorithm', {}, { alg: 1 }, 'the token does not name its algorithm'],
    ['with the algorithm of another key', {}, { alg: 'RS256' }, KEY],
    ['with an unknown key', {}, { kid: 'unknown' }, KEY],
    ['with a key that is none', {}, { kid: 1 }, 'the id of the key is not a text'],
    ['with a key of its own', {}, { jwk: { kty: 'EC' } }, OWN_KEY],
    ['with the URL of a key', {}, { jku: `${ISSUER}/jwks` }, OWN_KEY],
    ['with the URL of a certificate', {}, { x5u: `${ISSUER}/cert` }, OWN_KEY],
    ['with a certificate', {}, { x5c: ['MIIB'] }, OWN_KEY],
    ['with critical extensions', {}, { crit: ['b64'], b64: false }, 'the header of the token has critical extensions'],
    ['with another type', {}, { typ: 'secevent+jwt' }, ACCESS],
    ['with a type that is none', {}, { typ: 1 }, ACCESS],
    ['that is an ID token', { nonce: 'n' }, { typ: 'JWT' }, ACCESS],
    ['that is an ID token by its claim', { typ: 'ID' }, {}, ACCESS],
    ['that is an ID token with a hash', { at_hash: 'h' }, {}, ACCESS],
    ['that is an ID token with the hash of a code', { c_hash: 'h' }, {}, ACCESS],
    ['that is an ID token with the hash of a state', { s_hash: 'h' }, {}, ACCESS],
    ['that is a refresh token', { typ: 'Refresh' }, {}, ACCESS],
    ['that is a logout token', { events: { 'http://schemas.openid.net/event/backchannel-logout': {} } }, {}, ACCESS],
    ['bound to a key', { cnf: { jkt: 'a' } }, {}, 'the token is bound to a key, whose possession is not verified'],
    ['with groups elsewhere', { _claim_names: { groups: 'src1' } }, {}, ELSEWHERE],
    ['with too many groups for a token', { hasgroups: true }, {}, ELSEWHERE],
    ['with a group that is none', { groups: [1] }, {}, 'a claim with groups is not a list of texts'],
    [
      'without a user',
      { sub: undefined },
      {},
      'the claim with the id is missing, not a text, or an address that is not verified',
    ],
  ])('%s', async (_what, claims, header, reason) => {
    expect(await reasonOf(await signed(claims, header))).toBe(reason);
  });

  const text = JSON.stringify(CLAIMS);
  const again = (member: string) => `${text.slice(0, -1)},${member}}`;
  const [header = '', claims = '', signature = ''] = example.split('.');
  const hmac = (key: string) => {
    const data = `${part({ alg: 'HS256', kid: 'rsa' })}.${claims}`;
    return `${data}.${createHmac('sha256', key).update(data).digest('base64url')}`;
  };
  it.each<[string, string | Promise<string>, string]>([
    ['without a signature', `${part({ alg: 'none' })}.${claims}.`, ALGORITHM],
    ['with the public key as a secret', hmac(String(rsa.jwk.n)), ALGORITHM],
    ['with a part missing', `${header}.${claims}`, NOT_SIGNED],
    ['with a part more', `${example}.x`, NOT_SIGNED],
    ['that is encrypted', `${part({ alg: 'dir', enc: 'A128GCM' })}..a.b.c`, 'the token is encrypted'],
    [
      'that has an encrypted one',
      sign(ec, `${header}..a.b.c`, { cty: 'JWT' }),
      'the claims of the token are not a JSON object',
    ],
    ['of an unknown form', 'opaque', NOT_SIGNED],
    ['with other characters', `${header}.${claims}.${signature}=`, NOT_SIGNED],
    ['with spaces', `${header}.${claims} .${signature}`, NOT_SIGNED],
    ['of 100 kB', sign(ec, { ...CLAIMS, pad: 'x'.repeat(100_000) }), 'the token has more than 16384 bytes'],
    ['with other claims', `${header}.${part({ ...CLAIMS, sub: 'eve' })}.${signature}`, SIGNATURE],
    ['with another signature', `${header}.${claims}.${signature.slice(0, -4)}AAAA`, SIGNATURE],
    ['with no signature', `${header}.${claims}.`, SIGNATURE],
    ['with the key of another issuer', signed({}, { kid: 'ec' }, other), SIGNATURE],
    ['with the key of another issuer, unnamed', signed({}, { kid: undefined }, other), SIGNATURE],
    [
      'whose header is no object',
      `${part(['a'])}.${claims}.${signature}`,
      'the header of the token is not a JSON object',
    ],
    ['whose claims are no object', sign(ec, '[]'), 'the claims of the token are not a JSON object'],
    [
      'whose claims are not UTF-8',
      `${header}.${Buffer.from('{"a":"\xff"}', 'latin1').toString('base64url')}.x`,
      'the claims of the token are not a JSON object',
    ],
    ['with a claim twice', sign(ec, again('"sub":"eve"')), REPEATED],
    ['with a claim twice, with escapes', sign(ec, again('"s\\u0075b":"eve"')), REPEATED],
    ['with a member of a claim twice', sign(ec, again('"a":{"b":[{"c":1,"c":2}]}')), REPEATED],
    ['with a header twice', sign(ec, CLAIMS, '{"alg":"ES256","kid":"ec","kid":"rsa"}'), REPEATED],
  ])('%s', async (_what, made, reason) => {
    expect(await reasonOf(await made)).toBe(reason);
  });

  it('with an algorithm for which the key is not', async () => {
    const keys = {
      keys: [
        { ...rsa.jwk, alg: 'RS512' },
        { ...ec.jwk, use: 'enc' },
      ],
    };
    const tokens = open({ jwks_url: { name: 'k', text: JSON.stringify(keys) } });
    expect(await reasonOf(await signed({}, {}, rsa), tokens)).toBe(KEY);
    expect(await reasonOf(await signed(), tokens)).toBe(KEY);
  });

  it('with a lifetime that the settings do not allow', async () => {
    expect(await reasonOf(await signed(), open({ max_lifetime_hours: 1 }))).toBe(LONG);
    expect(await reasonOf(await signed({ exp: SECONDS + 90_000 }), open({ max_lifetime_hours: 48 }))).toBeUndefined();
  });
});

describe('the audience', () => {
  const audiences = [
    { value: 'api://sluice', for: ['finance', 'hr'] },
    { value: 'api://all', for: ['*'] },
  ];
  const settings = { audiences, management_audiences: ['https://admin.example.com'] };
  it.each<[aud: unknown, namespaces: string[], isForManagement?: boolean]>([
    [`${PUBLIC_URL}/hr/mcp`, ['hr']],
    [`${PUBLIC_URL}/hr/mcp/`, ['hr']],
    [
      ['account', 'api://sluice', `${PUBLIC_URL}/it/mcp`],
      ['finance', 'hr', 'it'],
    ],
    ['api://all', ['*']],
    ['https://admin.example.com', [], true],
    ['https://other.example.com/tools/hr/mcp', []],
    [`${PUBLIC_URL}/hr/mcp/x`, []],
    [`${PUBLIC_URL}x/hr/mcp`, []],
    [`${PUBLIC_URL}/*/mcp`, []],
    [`${PUBLIC_URL}/hr`, []],
    [PUBLIC_URL, []],
    [[1, { a: 'api://all' }], []],
    [undefined, []],
  ])('%j', async (aud, namespaces, isForManagement = false) => {
    const token = await signed({ aud });
    expect(await verify(token, open(settings))).toMatchObject({ kind: 'verified', namespaces, isForManagement });
  });
});

test('two issuers with the same users and groups have nothing in common', async () => {
  const partner = {
    name: 'partner',
    issuer: 'https://partner.example.com',
    jwks_url: keySet(other),
    groups: ['groups'],
  };
  const tokens = open({ bare: true }, [partner]);
  const claims = { groups: ['platform'] };
  const [own, foreign] = await Promise.all([
    verify(await signed(claims), tokens),
    verify(await signed({ ...claims, iss: partner.issuer }, {}, other), tokens),
  ]);
  expect(own).toMatchObject({
    authenticated: { principal: { key: 'user:ann', groups: ['platform'], source: 'corp' } },
  });
  expect(foreign).toMatchObject({
    authenticated: { principal: { key: 'user:partner/ann', groups: ['partner/platform'], source: 'partner' } },
  });
  for (const id of ['partner/ann', 'keys/ann', 'proxy/ann']) {
    expect(await reasonOf(await signed({ sub: id }), tokens)).toBe('the id begins with the name of another source');
    expect(await reasonOf(await signed({ groups: [id] }), tokens)).toBe(
      'a group begins with the name of another source',
    );
  }
  // With the name of the other issuer, or of its key.
  expect(await reasonOf(await signed({ iss: partner.issuer }), tokens)).toBe(KEY);
  expect(await reasonOf(await signed({ iss: partner.issuer }, { kid: 'other' }), tokens)).toBe(SIGNATURE);
});

describe.each(Object.entries(PROVIDERS))('tokens in the layout of %s', (name, provider) => {
  const { issuer, audience, settings, header, user, serviceAccount, idToken, expected } = provider;
  const tokens = open({}, [
    { name, issuer, jwks_url: keySet(rsa), audiences: [{ value: audience, for: ['finance'] }], ...settings },
  ]);
  const dates = { iss: issuer, iat: SECONDS - 10, exp: SECONDS + 3_600 };
  const made = (claims: Members = {}, members: Members = header) => sign(rsa, { ...dates, ...claims }, members);

  it.runIf(user)('are those of users', async () => {
    const { id, person } = expected;
    expect(await verify(await made(user), tokens)).toMatchObject({
      authenticated: { principal: { kind: 'user', id: `${name}/${id}`, person } },
      namespaces: ['finance'],
    });
  });

  it('are those of service accounts', async () => {
    expect(await verify(await made(serviceAccount), tokens)).toMatchObject({
      authenticated: {
        principal: { kind: 'service_account', groups: expected.groups.map((group) => `${name}/${group}`) },
      },
      namespaces: ['finance'],
    });
  });

  it.runIf(idToken)('are no ID tokens', async () => {
    expect(await reasonOf(await made(idToken, { typ: 'JWT' }), tokens)).toBe(ACCESS);
  });
});

describe('a verified token', () => {
  it('is found again without a promise, by its header or by its hash', async () => {
    const tokens = open();
    const token = await signed();
    expect(tokens.recent(`Bearer ${token}`)).toBeUndefined();
    const first = tokens.verify(`Bearer ${token}`, token);
    expect(tokens.verify(`bearer ${token}`, token)).toBe(first);
    const verified = await first;
    expect(tokens.verify(`Bearer ${token}`, token)).toBe(verified);
    expect(tokens.recent(`Bearer ${token}`)).toBe(verified);
    expect(tokens.recent(`Bearer x${token.slice(1)}`)).toBeUndefined();
  });

  it('counts until it expires', async () => {
    let now = NOW;
    const tokens = open({}, [], { now: () => now });
    const token = await signed();
    const verified = await verify(token, tokens);
    expect(verified).toMatchObject({ expiresAt: (CLAIMS.exp + 60) * 1_000 });
    expect(tokens.verify(`Bearer ${token}`, token)).toBe(verified);
    now = (CLAIMS.exp + 60) * 1_000;
    expect(tokens.recent(`Bearer ${token}`)).toBeUndefined();
    expect(await reasonOf(token, tokens)).toBe('the token has expired');
  });

  it('is refused again if it was, and is not remembered', async () => {
    const tokens = open();
    const token = await signed({ exp: SECONDS - 61 });
    for (let time = 0; time < 2; time++) {
      expect(tokens.verify(`Bearer ${token}`, token)).toBeInstanceOf(Promise);
      expect(await reasonOf(token, tokens)).toBe('the token has expired');
    }
  });

  it('is one of at most 10,000 that are cached', async () => {
    const tokens = open({}, [], {});
    const first = await signed();
    await verify(first, tokens);
    // Of 16 kB: the limit of all of them is reached earlier.
    const large = await Promise.all(
      Array.from({ length: 2_100 }, (_, at) => sign(ed, { ...CLAIMS, at, pad: 'x'.repeat(11_900) })),
    );
    for (const token of large) await verify(token, tokens);
    expect(tokens.verify('', first)).toBeInstanceOf(Promise);
    expect(tokens.verify('', large.at(-1) ?? '')).toMatchObject({ kind: 'verified' });
  });
});

describe('under other settings, a verified token', () => {
  const verified = async (tokens: Tokens, claims: Members = {}) => {
    const verification = await verify(await signed(claims), tokens);
    if (verification.kind !== 'verified' || verification.authenticated.proof.kind !== 'token')
      throw new Error('refused');
    return verification.authenticated.proof;
  };

  it('has the principal and audience of the new ones', async () => {
    const earlier = open();
    const proof = await verified(earlier, { roles: ['x'], aud: 'a' });
    const audiences = [{ value: 'a', for: ['hr'] }];
    expect(open({ groups: ['roles'], audiences }, [], { earlier }).reassess(proof)).toMatchObject({
      authenticated: { principal: { groups: ['corp/x'] }, proof },
      namespaces: ['hr'],
    });
  });

  it.each<[string, object]>([
    ['its issuer is another one', { issuer: 'https://new.example.com' }],
    ['its source has another name', { name: 'renamed' }],
    ['its key is gone', { jwks_url: keySet(rsa) }],
    ['its algorithm is not allowed', { algorithms: ['RS256'] }],
    ['it lasts too long', { max_lifetime_hours: 0.5 }],
    ['its claims have another form', { user: 'email' }],
    ['it has expired', {}],
  ])('does not count if %s', async (what, settings) => {
    const earlier = open();
    const proof = await verified(earlier);
    const now = what === 'it has expired' ? () => (CLAIMS.exp + 61) * 1_000 : () => NOW;
    expect(open(settings, [], { earlier, now }).reassess(proof)).toBeUndefined();
  });
});

test('keys are kept under other settings of their issuer, and not fetched again', async () => {
  const requests: string[] = [];
  const fetch = async ({ url }: { readonly url: string }) => {
    requests.push(url);
    return { status: 200, body: keySet(ec).text };
  };
  const parts = { publicUrl: PUBLIC_URL, fetch, now: () => NOW, report: () => {} };
  const corp = { name: 'corp', issuer: ISSUER, jwks_url: `${ISSUER}/a` };
  const settings = (more: object) => identitySettings({ tokens: [{ ...corp, ...more }] }).tokens;
  const first = new Tokens(settings({}), parts);
  const token = await signed();
  expect(await verify(token, first)).toMatchObject({ kind: 'verified' });
  const second = new Tokens(settings({ user: 'iss' }), parts, first);
  expect(await verify(token, second)).toMatchObject({ authenticated: { principal: { id: `corp/${ISSUER}` } } });
  expect(requests).toEqual([`${ISSUER}/a`]);
  const third = new Tokens(settings({ jwks_url: `${ISSUER}/b` }), parts, second);
  expect(await verify(token, third)).toMatchObject({ kind: 'verified' });
  expect(requests).toEqual([`${ISSUER}/a`, `${ISSUER}/b`]);
  // What was replaced is closed: its refreshes have ended.
  expect(await verify(await signed({}, { kid: 'unknown' }), second)).toMatchObject({ kind: 'invalid' });
  third.close();
});

describe('the ID token of a sign-in', () => {
  const SIGN_IN = { clientId: 'console', nonce: 'n1' };
  const ID = { aud: 'console', nonce: 'n1' };
  const idToken = async (claims: Members, header: Members = {}) =>
    await open().verifyIdToken(await signed({ ...ID, ...claims }, header), 'corp', SIGN_IN);

  it.each<[Members, Members?]>([
    [{}],
    [{ typ: 'ID', azp: 'console' }, { typ: 'JWT' }],
    [{ aud: ['console', 'b'], azp: 'console' }],
  ])('is accepted, case %#', async (claims, header) => {
    expect(await idToken(claims, header)).toMatchObject({ authenticated: { principal: { id: 'corp/ann' } } });
  });

  it.each<[Members, Members, string]>([
    [{ aud: 'other' }, {}, 'the ID token is for another client'],
    [{ aud: ['console', 'b'] }, {}, 'the ID token is for another client'],
    [{ azp: 'other' }, {}, 'the ID token is for another client'],
    [{ nonce: 'n2' }, {}, 'the ID token is for another sign-in'],
    [{ nonce: undefined }, {}, 'the ID token is for another sign-in'],
    [{ typ: 'Bearer' }, {}, 'the token is not an ID token'],
    [{}, { typ: 'at+jwt' }, 'the token is not an ID token'],
    [{ exp: SECONDS - 61 }, {}, 'the token has expired'],
    [{ iss: 'https://other.example.com' }, {}, 'the issuer of the token is unknown'],
    [{}, { alg: 'none' }, ALGORITHM],
    [{}, { kid: 'unknown' }, KEY],
  ])('is refused, case %#', async (claims, header, reason) => {
    expect(await idToken(claims, header)).toEqual({ kind: 'invalid', reason });
  });

  it('is none of another issuer', async () => {
    const partner = { name: 'partner', issuer: 'https://partner.example.com', jwks_url: keySet(other) };
    const token = await sign(other, { ...CLAIMS, ...ID, iss: partner.issuer });
    expect(await open({}, [partner]).verifyIdToken(token, 'corp', SIGN_IN)).toMatchObject({ kind: 'invalid' });
    expect(await open({}, [partner]).verifyIdToken(token, 'partner', SIGN_IN)).toMatchObject({ kind: 'verified' });
  });
});

test('many new tokens wait for their turn, and too many are not verified', async () => {
  const tokens = open();
  const wrong = Array.from({ length: 1_500 }, async (_, at) => `${(await signed({ at })).slice(0, -4)}AAAA`);
  const verifications = await Promise.all((await Promise.all(wrong)).map((token) => verify(token, tokens)));
  const kinds = new Set(verifications.map(({ kind }) => kind));
  expect(kinds).toEqual(new Set(['invalid', 'unavailable']));
  expect(await verify(await signed(), tokens)).toMatchObject({ kind: 'verified' });
});

test('what no issuer can verify is rejected at once: no promise of it is kept', async () => {
  const tokens = open();
  for (const token of ['a.b.c', await signed({ iss: 'https://other.example.com' })])
    expect(tokens.verify(`Bearer ${token}`, token)).toMatchObject({ kind: 'invalid' });
});
