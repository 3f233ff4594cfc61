import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type FetchIssuer, IssuerKeys, type IssuerRequest, type KeySource } from './issuer-keys.ts';
import { createSigner, keySet, type Signer } from './signed-tokens.fixture.ts';

const [first, second] = await Promise.all([createSigner('ES256', 'k1'), createSigner('ES256', 'k2')]);
const ISSUER = 'https://id.example.com/realms/agents';
const METADATA = `${ISSUER}/.well-known/openid-configuration`;
const KEYS = `${ISSUER}/certs`;

/** Bodies by URL; other URLs do not exist. A test changes them. */
let served: Record<string, string>;
let requests: string[];
let reports: unknown[];
let open: IssuerKeys[];
/** Responds in place of what is served. */
let respond: FetchIssuer | undefined;

beforeEach(() => {
  vi.useFakeTimers();
  requests = [];
  reports = [];
  open = [];
  respond = undefined;
  served = { [METADATA]: JSON.stringify({ issuer: ISSUER, jwks_uri: KEYS }), [KEYS]: keySet(first).text };
});
afterEach(() => {
  for (const keys of open) keys.close();
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

async function fetchServed(request: IssuerRequest) {
  requests.push(request.url);
  if (respond) return await respond(request);
  const body = served[request.url];
  return body === undefined ? { status: 404, body: '' } : { status: 200, body };
}

function create(source: Partial<KeySource> = {}): IssuerKeys {
  const report = (_source: KeySource, error: unknown) => {
    reports.push(error instanceof Error ? error.message : error);
  };
  const keys = new IssuerKeys(
    { name: 'corp', issuer: ISSUER, ...source },
    { fetch: fetchServed, now: Date.now, report },
  );
  open.push(keys);
  return keys;
}

const idsOf = (found: Awaited<ReturnType<IssuerKeys['find']>>) => found?.map(({ text }) => JSON.parse(text).kid);
const find = async (keys: IssuerKeys, { keyId, algorithm }: Signer = first) => idsOf(await keys.find(algorithm, keyId));

describe('keys are found', () => {
  it('by the metadata of their issuer', async () => {
    const keys = create();
    expect(await find(keys)).toEqual(['k1']);
    expect(await find(keys)).toEqual(['k1']);
    expect(requests).toEqual([METADATA, KEYS]);
    expect(idsOf(await keys.find('RS256', 'k1'))).toEqual([]);
    expect(idsOf(await keys.find('ES256', undefined))).toEqual(['k1']);
  });

  it('by the metadata of an authorization server without OpenID Connect', async () => {
    const url = 'https://id.example.com/.well-known/oauth-authorization-server/realms/agents';
    served = { [url]: served[METADATA] ?? '', [KEYS]: keySet(first).text };
    expect(await find(create())).toEqual(['k1']);
    expect(requests).toEqual([METADATA, url, KEYS]);
  });

  it('of an issuer whose URL ends with a slash, on another host', async () => {
    const issuer = 'https://id.example.com/';
    const metadata = 'https://id.example.com/.well-known/openid-configuration';
    const jwks_uri = 'https://keys.example.net/v1/certs?tenant=a';
    served = { [metadata]: JSON.stringify({ issuer, jwks_uri }), [jwks_uri]: keySet(first).text };
    expect(await find(create({ issuer }))).toEqual(['k1']);
  });

  it('where the service itself reaches the issuer', async () => {
    const upstream = 'http://keycloak:8080/realms/agents';
    served = {
      [`${upstream}/.well-known/openid-configuration`]: served[METADATA] ?? '',
      [`${upstream}/certs`]: keySet(first).text,
    };
    expect(await find(create({ upstream_issuer: upstream }))).toEqual(['k1']);
    // An issuer that takes its own name from the request.
    const own = { issuer: upstream, jwks_uri: `${upstream}/certs` };
    served[`${upstream}/.well-known/openid-configuration`] = JSON.stringify(own);
    expect(await find(create({ upstream_issuer: upstream }))).toEqual(['k1']);
  });

  it('at a URL', async () => {
    expect(await find(create({ jwks_url: KEYS }))).toEqual(['k1']);
    expect(requests).toEqual([KEYS]);
  });

  it('in a text, without a request', async () => {
    const keys = create({ jwks_url: keySet(first) });
    expect([await find(keys), await find(keys, second)]).toEqual([['k1'], []]);
    expect(requests).toEqual([]);
  });
});

describe('an issuer without valid keys', () => {
  it.each<[string, () => void, string]>([
    [
      'metadata of another one',
      () => (served[METADATA] = '{"issuer":"https://eve","jwks_uri":"https://eve"}'),
      'the metadata is that of another issuer',
    ],
    [
      'metadata without keys',
      () => (served[METADATA] = JSON.stringify({ issuer: ISSUER })),
      'the metadata has no valid jwks_uri',
    ],
    [
      'keys in a file',
      () => (served[METADATA] = JSON.stringify({ issuer: ISSUER, jwks_uri: 'file:///etc/x' })),
      'the metadata has no valid jwks_uri',
    ],
    ['metadata that is no object', () => (served[METADATA] = '[]'), 'the metadata is not a JSON object'],
    ['no metadata', () => delete served[METADATA], `${METADATA} answered with status 404`],
    ['no key set', () => (served[KEYS] = '{}'), 'is not a JSON Web Key Set'],
    ['a key that is no object', () => (served[KEYS] = '{"keys":[1]}'), 'is not a JSON Web Key Set'],
    [
      'a large key set',
      () => (served[KEYS] = `{"keys":[],"a":"${'x'.repeat(1_048_576)}"}`),
      'is not a JSON Web Key Set',
    ],
    [
      'many keys',
      () => (served[KEYS] = JSON.stringify({ keys: Array(101).fill(first.jwk) })),
      'has more than 100 keys',
    ],
  ])('has %s', async (_what, change, report) => {
    change();
    expect(await find(create())).toBeUndefined();
    expect(reports).toEqual([report]);
  });

  it.each<[string, object]>([
    ['symmetric', { kty: 'oct', k: 'a'.repeat(43), kid: 'k1' }],
    ['private', { ...first.jwk, d: 'a'.repeat(43) }],
    ['for encryption', { ...first.jwk, use: 'enc' }],
    ['for another operation', { ...first.jwk, key_ops: ['wrapKey'] }],
    ['of another issuer', { ...first.jwk, issuer: 'https://other.example.com' }],
    ['of another curve', { ...first.jwk, crv: 'P-384' }],
    ['of an unknown type', { ...first.jwk, kty: 'AKP' }],
    ['a short one', { kty: 'RSA', kid: 'k1', e: 'AQAB', n: Buffer.alloc(255, 0xff).toString('base64url') }],
    [
      'a short one with zeros',
      {
        kty: 'RSA',
        kid: 'k1',
        e: 'AQAB',
        n: Buffer.concat([Buffer.alloc(9), Buffer.alloc(255, 0xff)]).toString('base64url'),
      },
    ],
    ['a long one', { kty: 'RSA', kid: 'k1', e: 'AQAB', n: Buffer.alloc(2_049, 0xff).toString('base64url') }],
  ])('has a key that is %s', async (_what, key) => {
    served[KEYS] = JSON.stringify({ keys: [key] });
    const keys = create();
    for (const algorithm of ['ES256', 'RS256', 'EdDSA']) expect(idsOf(await keys.find(algorithm, 'k1'))).toEqual([]);
    expect(reports).toEqual([]);
  });

  it('has no key in its text', () => {
    expect(() => create({ jwks_url: { name: 'a', text: '{' } })).toThrow('is not a JSON Web Key Set');
  });
});

it('RSA keys of 2048 bits and keys of all issuers count', async () => {
  const n = Buffer.alloc(256, 0x80).toString('base64url');
  const keys = [{ kty: 'RSA', kid: 'r', e: 'AQAB', n, issuer: 'https://id.example.com/{tenantid}/v2.0' }, first.jwk];
  served[KEYS] = JSON.stringify({ keys });
  expect(idsOf(await create().find('RS256', 'r'))).toEqual(['r']);
});

describe('keys are fetched again', () => {
  it('every 10 minutes, so that a removed one does not count any more', async () => {
    const keys = create();
    const [key] = (await keys.find('ES256', 'k1')) ?? [];
    if (!key) throw new Error('no key');
    await vi.advanceTimersByTimeAsync(600_000);
    // The same key is the same object: tokens that were verified with it count.
    expect([requests.length, keys.has(key), keys.equalOf(key.text)]).toEqual([4, true, key]);
    served[KEYS] = keySet(second).text;
    await vi.advanceTimersByTimeAsync(600_000);
    expect([requests.length, keys.has(key), keys.equalOf(key.text)]).toEqual([6, false, undefined]);
  });

  it('for an unknown key, once in 30 s', async () => {
    const keys = create();
    await find(keys);
    served[KEYS] = keySet(first, second).text;
    expect(await find(keys, second)).toEqual([]);
    await vi.advanceTimersByTimeAsync(29_999);
    expect(await find(keys, second)).toEqual([]);
    expect(requests).toHaveLength(2);
    await vi.advanceTimersByTimeAsync(1);
    const found = await Promise.all(Array.from({ length: 10 }, () => find(keys, second)));
    expect(found).toEqual(Array(10).fill(['k2']));
    expect(requests).toHaveLength(4);
  });

  it('until that succeeds, while the known ones count', async () => {
    const keys = create();
    await find(keys);
    respond = () => Promise.reject(new Error('refused'));
    await vi.advanceTimersByTimeAsync(600_000 + 60_000);
    expect(await find(keys)).toEqual(['k1']);
    expect(await find(keys, second)).toEqual([]);
    // Both forms of metadata, three times; the first failure is reported only.
    expect(requests).toHaveLength(2 + 6);
    expect(reports).toEqual(['refused']);
    respond = undefined;
    await vi.advanceTimersByTimeAsync(30_000);
    expect([await find(keys), reports]).toEqual([['k1'], ['refused', undefined]]);
  });

  it('not after they are closed', async () => {
    const keys = create();
    await find(keys);
    keys.close();
    await vi.advanceTimersByTimeAsync(600_000);
    expect(await find(keys, second)).toEqual([]);
    expect(requests).toHaveLength(2);
  });
});

describe('while an issuer is down and its keys are unknown, a request', () => {
  it('waits at most 5 s', async () => {
    respond = () => new Promise(() => {});
    const keys = create();
    let found: unknown = 'waiting';
    void find(keys).then((result) => {
      found = result;
    });
    await vi.advanceTimersByTimeAsync(4_999);
    expect(found).toBe('waiting');
    await vi.advanceTimersByTimeAsync(1);
    expect(found).toBeUndefined();
  });

  it('waits with at most 999 others', async () => {
    const { promise, resolve } = Promise.withResolvers<{ status: number; body: string }>();
    respond = () => promise;
    const keys = create({ jwks_url: KEYS });
    const waiting = Array.from({ length: 1_000 }, () => find(keys));
    expect(await find(keys)).toBeUndefined();
    resolve({ status: 200, body: keySet(first).text });
    expect(new Set((await Promise.all(waiting)).flat())).toEqual(new Set(['k1']));
  });

  it('gets an answer at once, and causes an attempt every 5 s', async () => {
    respond = () => Promise.reject(new Error('refused'));
    const keys = create({ jwks_url: KEYS });
    for (let time = 0; time < 10; time++) expect(await find(keys)).toBeUndefined();
    expect(requests).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(5_000);
    expect(await find(keys)).toBeUndefined();
    expect(requests).toHaveLength(2);
    respond = undefined;
    await vi.advanceTimersByTimeAsync(5_000);
    expect(await find(keys)).toEqual(['k1']);
  });
});
