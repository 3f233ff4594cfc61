import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import {
  createSigner,
  keySet,
  type Members,
  type Signer,
  sign,
} from '../packages/server/src/identity/signed-tokens.fixture.ts';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { freePort } from './fixtures/free-port.ts';
import { listen } from './fixtures/http-server.ts';
import { post, type RawResponse, send } from './fixtures/raw-client.ts';

// Tokens of real issuers on real listeners: which one counts where, and when the keys of an issuer count.

const PUBLIC_URL = 'https://agents.example.com/tools';
const MANAGEMENT = 'https://admin.example.com';

/** An issuer that can be stopped and started again, with metadata and keys. */
class Issuer {
  readonly url: string;
  readonly #port: number;
  #server: Server | undefined;
  signers: readonly Signer[];
  requests = 0;

  constructor(port: number, signer: Signer) {
    this.#port = port;
    this.url = `http://127.0.0.1:${port}/realms/agents`;
    this.signers = [signer];
  }

  async start(): Promise<void> {
    const metadata = JSON.stringify({ issuer: this.url, jwks_uri: `${this.url}/certs?tenant=a` });
    this.#server = createServer(({ url }, response) => {
      this.requests++;
      if (url === '/realms/agents/.well-known/openid-configuration') response.end(metadata);
      else if (url === '/realms/agents/certs?tenant=a') response.end(keySet(...this.signers).text);
      else response.writeHead(404).end();
    });
    await listen(this.#server, this.#port);
  }

  async stop(): Promise<void> {
    if (!this.#server) return;
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
    this.#server = undefined;
  }

  /** Returns a token of this issuer with its first key, or another one. */
  token(claims: Members, [signer = this.signers[0]]: readonly Signer[] = [], header: Members = {}): Promise<string> {
    if (!signer) throw new Error('no key');
    const now = Math.floor(Date.now() / 1_000);
    return sign(signer, { iss: this.url, sub: 'ann', iat: now, exp: now + 3_600, ...claims }, header);
  }
}

const [k1, k2, partnerKey] = await Promise.all(['k1', 'k2', 'p1'].map((id) => createSigner('ES256', id)));
if (!k1 || !k2 || !partnerKey) throw new Error('no key');
const corp = new Issuer(await freePort(), k1);
const partner = new Issuer(await freePort(), partnerKey);
/** Of nobody: it must get no request. */
const stranger = new Issuer(await freePort(), k1);

const IDENTITY = {
  anonymous: 'deny',
  inference: true,
  proxy: { trusted: ['127.0.0.1/32'], user: 'x-user', groups: 'x-groups' },
  tokens: [
    {
      name: 'corp',
      issuer: corp.url,
      audiences: [
        { value: 'api://shared', for: ['finance', 'hr'] },
        { value: 'api://all', for: ['*'] },
      ],
      management_audiences: [MANAGEMENT],
      groups: ['groups'],
    },
    { name: 'partner', issuer: partner.url, groups: ['groups'], management_audiences: [MANAGEMENT] },
  ],
  roles: { admin: ['corp/platform'], viewer: ['corp/staff'] },
};

let folder: string;
let service: TestService;

beforeAll(async () => {
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() });
  await Promise.all([partner.start(), stranger.start()]);
  folder = await mkdtemp(join(tmpdir(), 'sluice-tokens-'));
  const file = join(folder, 'service.yaml');
  await writeFile(file, JSON.stringify({ identity: IDENTITY, namespaces: [{ name: 'finance' }, { name: 'hr' }] }));
  service = await startTestService({ SERVICE_PUBLIC_URL: PUBLIC_URL }, ['--service-config', file]);
});

afterAll(async () => {
  vi.useRealTimers();
  await service?.stop();
  await Promise.all([corp.stop(), partner.stop(), stranger.stop()]);
  await rm(folder, { recursive: true, force: true });
});

const PARAMS = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '1' } };
const INITIALIZE = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: PARAMS });
const endpoint = (namespace: string) => `${PUBLIC_URL}/${namespace}/mcp`;
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
const mcp = (namespace: string, headers: Record<string, string>) => post(service.url(namespace), INITIALIZE, headers);
const manage = (path: string, headers: Record<string, string>) => send(`${service.management}${path}`, 'GET', headers);
/** The reasons of the requests that were logged since. */
const reasons = (since: number) => service.log.slice(since).map((line): unknown => Object(JSON.parse(line)).reason);

function later(seconds: number): void {
  vi.setSystemTime(Date.now() + seconds * 1_000);
}

describe('the keys of an issuer', () => {
  const use = async (signer: Signer) =>
    await mcp('finance', bearer(await corp.token({ aud: endpoint('finance') }, [signer])));

  it('are awaited until it can be reached, and count while it cannot', async () => {
    const waiting = await use(k1);
    expect(waiting).toMatchObject({ status: 503, headers: { 'retry-after': '5' } });
    expect(waiting.headers['www-authenticate']).toBeUndefined();
    expect(reasons(0)).toContain('the keys of the issuer are unknown, or too many tokens are new');
    await corp.start();
    later(6);
    expect(await use(k1)).toMatchObject({ status: 200 });
    await corp.stop();
    later(31);
    expect(await use(k1)).toMatchObject({ status: 200 });
    expect(await use(k2)).toMatchObject({ status: 401 });
  });

  it('are fetched again for a new one, and a removed one does not count any more', async () => {
    const earlier = await corp.token({ aud: endpoint('finance') });
    expect(await mcp('finance', bearer(earlier))).toMatchObject({ status: 200 });
    corp.signers = [k2];
    await corp.start();
    expect(await use(k2)).toMatchObject({ status: 401 });
    later(31);
    expect(await Promise.all([use(k2), use(k2)])).toMatchObject([{ status: 200 }, { status: 200 }]);
    expect(await mcp('finance', bearer(earlier))).toMatchObject({ status: 401 });
    expect(await mcp('finance', bearer(await corp.token({ aud: endpoint('finance') }, [k1])))).toMatchObject({
      status: 401,
    });
  });
});

describe('a token counts where its audience says', () => {
  const PLACES = ['finance', 'hr', 'unknown', 'management', 'inference'] as const;
  const requestsWith = (token: string): Promise<RawResponse>[] =>
    PLACES.map((place) => {
      if (place === 'management') return manage('/api/v1/namespaces', bearer(token));
      if (place !== 'inference') return mcp(place, bearer(token));
      const headers = { 'x-sluice-authorization': `Bearer ${token}` };
      return send(`http://${service.addresses.inference}/v1/models`, 'GET', headers);
    });

  // Without an upstream, the inference listener answers with 404 or 502 to whom it lets pass.
  const PASSED = 0;
  it.each<[aud: string | string[] | undefined, expected: number[]]>([
    [endpoint('finance'), [200, 401, 401, 401, 401]],
    [endpoint('hr'), [401, 200, 401, 401, 401]],
    [endpoint('unknown'), [401, 401, 404, 401, 401]],
    ['api://shared', [200, 200, 401, 401, 401]],
    ['api://all', [200, 200, 404, 401, PASSED]],
    [MANAGEMENT, [401, 401, 401, 200, 401]],
    [
      [endpoint('hr'), MANAGEMENT],
      [401, 200, 401, 200, 401],
    ],
    ['account', [401, 401, 401, 401, 401]],
    [PUBLIC_URL, [401, 401, 401, 401, 401]],
    [undefined, [401, 401, 401, 401, 401]],
  ])('%j', async (aud, expected) => {
    const token = await corp.token({ aud, groups: ['staff'] });
    const before = service.log.length;
    const replies = await Promise.all(requestsWith(token));
    const statuses = replies.map(({ status }, at) => (expected[at] === PASSED && status !== 401 ? PASSED : status));
    expect(statuses).toEqual(expected);
    for (const { headers } of replies.filter(({ status }) => status === 401)) {
      expect(headers['www-authenticate']).toContain('Bearer error="invalid_token"');
      expect(headers['www-authenticate']).not.toContain('error_description');
    }
    const refused = reasons(before).filter((reason) => reason !== undefined);
    expect(refused).toEqual(expected.filter((status) => status === 401).map(() => 'the token is for another audience'));
  });

  it('an audience of another issuer is none', async () => {
    const token = await partner.token({ aud: 'api://all' });
    expect(await mcp('finance', bearer(token))).toMatchObject({ status: 401 });
    expect(await mcp('finance', bearer(await partner.token({ aud: endpoint('finance') })))).toMatchObject({
      status: 200,
    });
  });
});

describe('the management listener', () => {
  it('accepts no token with an actor, which an MCP endpoint does', async () => {
    const acting = (aud: string) => corp.token({ aud, groups: ['platform'], act: { sub: 'agent' } });
    const before = service.log.length;
    expect(await manage('/api/v1/namespaces', bearer(await acting(MANAGEMENT)))).toMatchObject({ status: 401 });
    expect(reasons(before)).toContain('a token with an actor does not count on the management listener');
    expect(await mcp('finance', bearer(await acting(endpoint('finance'))))).toMatchObject({ status: 200 });
  });

  it('gives no role to the group of another issuer with the same name', async () => {
    const claims = { aud: MANAGEMENT, groups: ['platform', 'staff', 'corp/platform'] };
    expect(await manage('/api/v1/namespaces', bearer(await partner.token(claims)))).toMatchObject({ status: 403 });
    expect(await manage('/api/v1/namespaces', bearer(await corp.token(claims)))).toMatchObject({ status: 200 });
  });

  it('reaches the MCP endpoints of all namespaces with its audience only', async () => {
    const call = async (aud: string) => {
      const headers = bearer(await corp.token({ aud, groups: ['platform'] }));
      return await post(`${service.management}/api/v1/namespaces/hr/mcp`, INITIALIZE, headers);
    };
    expect(await call(MANAGEMENT)).toMatchObject({ status: 200 });
    expect(await call(endpoint('hr'))).toMatchObject({ status: 401 });
  });
});

it('two issuers with the same user do not share sessions', async () => {
  const claims = { aud: endpoint('finance'), groups: ['staff'] };
  const [own, foreign] = await Promise.all([corp.token(claims), partner.token(claims)]);
  const session = String((await mcp('finance', bearer(own))).headers['mcp-session-id']);
  const list = (token: string) => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 2, method: 'tools/list' });
    return post(service.url('finance'), body, { ...bearer(token), 'mcp-session-id': session });
  };
  expect([(await list(own)).status, (await list(foreign)).status]).toEqual([200, 404]);
  // Another token of the same user.
  expect((await list(await corp.token({ ...claims, jti: 'b' }))).status).toBe(200);
});

describe('a token that fails', () => {
  it.each<[string, () => Promise<string>, string]>([
    [
      'with a wrong signature',
      async () => `${(await corp.token({ aud: 'api://all' })).slice(0, -4)}AAAA`,
      'the signature of the token is wrong',
    ],
    ['that has expired', () => corp.token({ aud: 'api://all', exp: 1 }), 'the token has expired'],
    ['of an unknown issuer', () => stranger.token({ aud: 'api://all' }), 'the issuer of the token is unknown'],
    [
      'that names where its key is',
      () => corp.token({ aud: 'api://all' }, [], { jku: `${stranger.url}/certs?tenant=a` }),
      'the header of the token brings a key',
    ],
    ['that is no token', async () => 'opaque', 'the token is not a signed JWT'],
    ['that is a key', async () => `slk_${'a'.repeat(43)}`, 'the key is unknown'],
  ])('%s is 401, whatever headers of the proxy are beside it', async (_what, made, reason) => {
    const token = await made();
    const before = service.log.length;
    const proxied = { 'x-user': 'ann', 'x-groups': 'platform' };
    expect(await mcp('finance', proxied)).toMatchObject({ status: 200 });
    const reply = await mcp('finance', { ...proxied, ...bearer(token) });
    expect(reply.status).toBe(401);
    expect(reply.headers['www-authenticate']).toContain('error="invalid_token"');
    expect(reasons(before)).toContain(reason);
    expect(stranger.requests).toBe(0);
  });

  it('is not the principal where a valid one is', async () => {
    const before = service.log.length;
    const headers = { 'x-user': 'eve', ...bearer(await corp.token({ aud: endpoint('finance') })) };
    expect(await mcp('finance', headers)).toMatchObject({ status: 200 });
    const users = service.log.slice(before).map((line): unknown => Object(JSON.parse(line)).user);
    expect(users).toContain('corp/ann');
  });
});

it('no token is in the log', () => {
  expect(service.log.length).toBeGreaterThan(50);
  expect(service.log.filter((line) => /eyJ[\w-]{20}/.test(line))).toEqual([]);
});
