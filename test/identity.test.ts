import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { listen } from './fixtures/http-server.ts';
import { OpenRequest } from './fixtures/open-request.ts';
import { startRawUpstream } from './fixtures/raw-upstream.ts';

// Who is accepted on which listener, with the object `identity`: keys, headers of a trusted proxy, anonymous requests, roles.

const newKey = () => `slk_${randomBytes(32).toString('base64url')}`;
const sha256 = (key: string) => createHash('sha256').update(key).digest('hex');

/** Keys by name. */
const KEYS = {
  everywhere: newKey(),
  finance: newKey(),
  expired: newKey(),
  reader: newKey(),
  changer: newKey(),
  limited: newKey(),
  nobody: newKey(),
} as const;
/** A marked key that nobody has. */
const UNKNOWN = newKey();

const IDENTITY = {
  anonymous: 'deny',
  proxy: {
    trusted: ['127.0.0.1/32'],
    user: 'x-forwarded-user',
    groups: 'x-forwarded-groups',
    service_accounts: ['service-account-*'],
  },
  keys: [
    { name: 'everywhere', sha256: [sha256(KEYS.everywhere)] },
    { name: 'finance', sha256: [sha256(KEYS.finance)], for: ['finance'] },
    { name: 'expired', sha256: [sha256(KEYS.expired)], expires: '2020-01-01' },
    { name: 'reader', sha256: [sha256(KEYS.reader)], groups: ['readers'], management: true },
    { name: 'changer', sha256: [sha256(KEYS.changer)], groups: ['changers'], management: true },
    { name: 'limited', sha256: [sha256(KEYS.limited)], groups: ['changers'], for: ['finance'], management: true },
    { name: 'nobody', sha256: [sha256(KEYS.nobody)], management: true },
  ],
  roles: { admin: ['proxy/platform'], operator: ['keys/changers'], viewer: ['keys/readers'] },
};

/** Peers of which only the first is a trusted proxy. */
const PROXY = '127.0.0.1';
const STRANGER = '127.0.0.2';

interface Reply {
  readonly status: number;
  readonly challenge: string | undefined;
  readonly body: string;
}

/** A request with these header lines, from this address. */
async function send(
  url: string,
  lines: readonly string[],
  from = STRANGER,
  body?: string,
  method = body === undefined ? 'GET' : 'POST',
): Promise<Reply> {
  const { host } = new URL(url);
  const headers = ['Host', host, 'Connection', 'close', ...lines];
  if (body !== undefined) headers.push('Content-Length', String(Buffer.byteLength(body)));
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, localAddress: from, headers }, (response) => {
      text(response).then((received) => {
        resolve({
          status: response.statusCode ?? 0,
          challenge: response.headers['www-authenticate'],
          body: received,
        });
      }, reject);
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

const bearer = (key: string) => ['Authorization', `Bearer ${key}`];
const user = (name: string, ...groups: string[]) => [
  'X-Forwarded-User',
  name,
  ...(groups.length > 0 ? ['X-Forwarded-Groups', groups.join(',')] : []),
];

const JSON_HEADERS = ['Content-Type', 'application/json', 'Accept', 'application/json, text/event-stream'];

let folder: string;
let service: TestService;
let upstream: Awaited<ReturnType<typeof startRawUpstream>>;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-identity-'));
  const file = join(folder, 'service.yaml');
  upstream = await startRawUpstream();
  const namespaces = [{ name: 'finance' }, { name: 'hr' }];
  await writeFile(file, JSON.stringify({ identity: IDENTITY, namespaces }));
  service = await startTestService({}, ['--service-config', file]);
});

afterAll(async () => {
  await service?.stop();
  await upstream?.close();
  await rm(folder, { recursive: true, force: true });
});

const PING = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: initializeParams() });

function initializeParams() {
  return { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '1' } };
}

const mcp = (namespace: string, lines: readonly string[], from?: string) =>
  send(service.url(namespace), [...JSON_HEADERS, ...lines], from, PING);

describe('an MCP endpoint', () => {
  it.each([
    ['a key', bearer(KEYS.everywhere), STRANGER],
    ['a key of this namespace', bearer(KEYS.finance), STRANGER],
    ['a scheme in lower case', ['authorization', `bearer ${KEYS.finance}`], STRANGER],
    ['a header of the trusted proxy', user('ann'), PROXY],
    ['a key through the trusted proxy', [...bearer(KEYS.finance), ...user('ann')], PROXY],
  ])('accepts %s', async (_, lines, from) => {
    expect(await mcp('finance', lines, from)).toMatchObject({ status: 200 });
  });

  it.each([
    ['an unknown key', bearer(UNKNOWN), STRANGER],
    ['an expired key', bearer(KEYS.expired), STRANGER],
    ['another scheme', ['Authorization', `Basic ${KEYS.everywhere}`], STRANGER],
    ['a key with a prefix', bearer(`x${KEYS.everywhere}`), STRANGER],
    ['an empty credential', ['Authorization', ''], STRANGER],
    ['two credentials', [...bearer(KEYS.everywhere), ...bearer(KEYS.everywhere)], STRANGER],
    ['a header of the proxy in another notation', ['X_Forwarded_User', 'ann'], PROXY],
    ['groups in another notation', [...user('ann'), 'X_Forwarded_Groups', 'platform'], PROXY],
    ['a failed key beside the headers of the proxy', [...bearer(UNKNOWN), ...user('ann')], PROXY],
  ])('rejects %s as an invalid token', async (_, lines, from) => {
    const reply = await mcp('finance', lines, from);
    expect(reply).toMatchObject({ status: 401, challenge: 'Bearer error="invalid_token"' });
    expect(reply.body).not.toContain('slk_');
  });

  it.each([
    ['no credential', [], STRANGER],
    ['a header of a peer that is no proxy', user('ann'), STRANGER],
    ['the same in another notation', ['X_Forwarded_User', 'ann'], STRANGER],
    ['the same twice', [...user('ann'), ...user('ann')], STRANGER],
    ['an empty header of the proxy', user(''), PROXY],
  ])('rejects %s', async (_, lines, from) => {
    expect(await mcp('finance', lines, from)).toMatchObject({ status: 401, challenge: 'Bearer' });
  });

  it.each([
    ['OPTIONS', '/finance/mcp', 204],
    ['GET', '/token', 401],
    ['GET', '/.well-known/oauth-protected-resource/finance/mcp', 401],
    ['GET', '/.well-known/x/..%2f..%2ffinance/mcp', 401],
    ['DELETE', '/finance/mcp', 401],
    ['GET', '/finance/mcp', 401],
    ['GET', '/', 401],
  ])('without a credential, %s %s is answered with %i', async (method, path, status) => {
    expect(await send(`${service.mcp}${path}`, [], STRANGER, undefined, method)).toMatchObject({ status });
  });

  it('rejects an identity header that occurs twice', async () => {
    expect(await mcp('finance', [...user('ann'), ...user('ann')], PROXY)).toMatchObject({ status: 401 });
    expect(await mcp('finance', [...user('ann'), 'X_Forwarded_User', 'eve'], PROXY)).toMatchObject({ status: 401 });
  });

  it('rejects the key of another namespace like an unknown one', async () => {
    expect(await mcp('hr', bearer(KEYS.finance))).toEqual(await mcp('hr', bearer(UNKNOWN)));
  });

  it('answers without a credential alike for namespaces that exist and others', async () => {
    expect(await mcp('unknown', [])).toEqual(await mcp('finance', []));
    expect(await mcp('unknown', bearer(KEYS.finance))).toEqual(await mcp('hr', bearer(KEYS.finance)));
    expect(await mcp('unknown', bearer(KEYS.everywhere))).toMatchObject({ status: 404 });
  });

  it('answers a preflight without its body alike, too', async () => {
    const preflights = ['finance', 'unknown'].map((name) => {
      const { href } = new URL(`/${name}/mcp`, service.url());
      return new OpenRequest(name, href, 'OPTIONS', { 'content-length': '5' }).write('{');
    });
    for (const preflight of preflights) {
      await expect.poll(() => preflight.status).toBe(204);
      preflight.close();
    }
  });

  it('does not show a session to another principal', async () => {
    const sessionOf = async (lines: readonly string[]) => {
      const response = await fetch(service.url('finance'), {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          [lines[0] ?? '']: lines[1] ?? '',
        },
        body: PING,
      });
      return response.headers.get('mcp-session-id') ?? '';
    };
    const session = ['Mcp-Session-Id', await sessionOf(bearer(KEYS.finance))];
    const list = JSON.stringify({ jsonrpc: '2.0', id: 2, method: 'tools/list' });
    const listed = (lines: readonly string[]) =>
      send(service.url('finance'), [...JSON_HEADERS, ...session, ...lines], STRANGER, list);
    expect(await listed(bearer(KEYS.finance))).toMatchObject({ status: 200 });
    expect(await listed(bearer(KEYS.everywhere))).toMatchObject({ status: 404 });
  });

  it('logs one cause for each, and no credential', async () => {
    await mcp('finance', bearer(UNKNOWN));
    await mcp('finance', bearer(KEYS.expired));
    await mcp('hr', bearer(KEYS.finance));
    const log = service.log.join('\n');
    for (const cause of [
      'the key is unknown',
      'the key has expired',
      'the key does not count in this namespace',
      'there is no credential',
    ])
      expect(log).toContain(cause);
    for (const key of [...Object.values(KEYS), UNKNOWN]) expect(log).not.toContain(key);
  });
});

describe('the management listener', () => {
  const manage = (path: string, lines: readonly string[], from?: string, body?: object) =>
    send(`${service.management}${path}`, [...JSON_HEADERS, ...lines], from, body && JSON.stringify(body));

  it.each(['/healthz', '/health', '/readyz'])('serves %s to everybody', async (path) => {
    expect(await manage(path, [])).toMatchObject({ status: 200 });
    expect(await manage(path, bearer(UNKNOWN))).toMatchObject({ status: 200 });
  });

  it.each([
    ['nobody', [], STRANGER, 401, 401],
    ['an unknown key', bearer(UNKNOWN), STRANGER, 401, 401],
    ['a key that does not count here', bearer(KEYS.everywhere), STRANGER, 403, 403],
    ['a key without a role', bearer(KEYS.nobody), STRANGER, 403, 403],
    ['a viewer', bearer(KEYS.reader), STRANGER, 200, 403],
    ['an operator', bearer(KEYS.changer), STRANGER, 200, 201],
    ['a user without a group', user('ann'), PROXY, 403, 403],
    ['an admin', user('ann', 'platform'), PROXY, 200, 201],
    ['the headers of an admin from elsewhere', user('ann', 'platform'), STRANGER, 401, 401],
    ['groups in another notation', [...user('bob'), 'X_Forwarded_Groups', 'platform'], PROXY, 401, 401],
  ])('lets %s read and change: %#', async (who, lines, from, reads, changes) => {
    expect(await manage('/api/v1/namespaces', lines, from)).toMatchObject({ status: reads });
    const name = who.replaceAll(/[^a-z]+/g, '-');
    expect(await manage('/api/v1/namespaces', lines, from, { name })).toMatchObject({ status: changes });
  });
});

describe('the MCP endpoint of the management listener', () => {
  const initialize = (namespace: string, key: string) =>
    send(`${service.management}/api/v1/namespaces/${namespace}/mcp`, [...JSON_HEADERS, ...bearer(key)], STRANGER, PING);

  it('accepts keys in the namespaces where they count', async () => {
    expect(await initialize('finance', KEYS.limited)).toMatchObject({ status: 200 });
    expect(await initialize('hr', KEYS.limited)).toMatchObject({ status: 401 });
    expect(await initialize('hr', KEYS.changer)).toMatchObject({ status: 200 });
    expect(await initialize('hr', KEYS.reader)).toMatchObject({ status: 403 });
  });
});

it('the management and inference listeners log a cause, too', async () => {
  const requests: [path: string, lines: string[]][] = [
    [`${service.management}/api/v1/tools`, []],
    [`${service.management}/api/v1/tools`, bearer(KEYS.nobody)],
    [`${service.management}/api/v1/tools`, bearer(KEYS.everywhere)],
    [`http://${service.addresses.inference}/v1/models`, bearer(KEYS.everywhere)],
  ];
  const before = service.log.length;
  for (const [url, lines] of requests) await send(url, lines);
  const reasons = service.log.slice(before).map((line) => Object(JSON.parse(line)).reason);
  expect(reasons).toEqual([
    'there is no credential',
    'missing right "read": no role of the caller has it',
    'the key does not count on the management listener',
    'the key is in the header of the model',
  ]);
});

describe('the inference listener', () => {
  const complete = (lines: readonly string[], from?: string) =>
    send(`http://${service.addresses.inference}/v1/models`, lines, from);

  it.each([
    bearer(KEYS.everywhere),
    ['Authorization', `Bearer\t${KEYS.everywhere}`],
    ['Authorization', KEYS.everywhere],
    ['Authorization', 'Bearer x', 'Authorization', `Bearer ${KEYS.everywhere}`],
    ['X-Api-Key', KEYS.everywhere],
    [...bearer(KEYS.everywhere), ...user('ann')],
  ])('refuses a key in the header of the model, and names the one for it (case %#)', async (...lines) => {
    const reply = await complete(lines, PROXY);
    expect(reply.status).toBe(401);
    expect(reply.body).toContain('X-Sluice-Authorization');
  });

  it('rejects a failed key', async () => {
    expect(await complete(['X-Sluice-Authorization', `Bearer ${UNKNOWN}`])).toMatchObject({ status: 401 });
  });
});

it('the inference listener requires a credential for every method where its settings say so', async () => {
  const file = join(folder, 'inference.yaml');
  await writeFile(file, JSON.stringify({ identity: { ...IDENTITY, inference: true } }));
  const own = await startTestService({}, ['--service-config', file]);
  const statusOf = async (method: string, lines: readonly string[]) =>
    (await send(`http://${own.addresses.inference}/v1/models`, lines, STRANGER, undefined, method)).status;
  expect(await Promise.all(['GET', 'OPTIONS', 'HEAD'].map((method) => statusOf(method, [])))).toEqual([401, 401, 401]);
  expect(await statusOf('GET', ['X-Sluice-Authorization', `Bearer ${KEYS.everywhere}`])).not.toBe(401);
  await own.stop();
});

it('credentials reach no upstream', async () => {
  const lines = user('ann', 'platform');
  const forward = { name: 'raw', namespace: 'finance', address: upstream.url };
  const created = await send(
    `${service.management}/api/v1/forwards`,
    [...JSON_HEADERS, ...lines],
    PROXY,
    JSON.stringify(forward),
  );
  expect(created.status).toBe(201);
  await mcp('finance', bearer(KEYS.finance));
  const received = JSON.stringify(upstream.seen);
  expect(received).not.toContain(KEYS.finance);
  expect(received).not.toContain('"ann"');
});

it.each(['X-Forwarded-User', 'x_auth_request_user', 'X-Sluice-Authorization'])(
  'no forward sends the header %s, which says who calls',
  async (name) => {
    const lines = [...JSON_HEADERS, ...user('ann', 'platform')];
    const forged = { address: upstream.url, headers: { [name]: `$\{env:SERVICE_SECRET_ANN}` } };
    const refused = async (path: string, sent: object) => {
      const { status, body } = await send(`${service.management}/api/v1${path}`, lines, PROXY, JSON.stringify(sent));
      const { code, details } = JSON.parse(body).error;
      return [status, code, details];
    };
    const message = 'names who calls and is never sent; remove the header';
    const expected = [422, 'UNPROCESSABLE', [{ path: `headers.${name}`, message }]];
    expect(await refused('/forwards', { name: 'forged', ...forged })).toEqual(expected);
    expect(await refused('/forwards/test', forged)).toEqual(expected);
  },
);

it('the keys of an issuer are fetched at the start', async () => {
  const requested = Promise.withResolvers<string | undefined>();
  const issuer = createServer((received, response) => {
    requested.resolve(received.url);
    response.writeHead(404).end();
  });
  const file = join(folder, 'tokens.yaml');
  const url = `http://127.0.0.1:${await listen(issuer, 0)}`;
  await writeFile(file, JSON.stringify({ identity: { tokens: [{ name: 'corp', issuer: url }] } }));
  const env = { SERVICE_PUBLIC_URL: 'https://agents.example.com' };
  const own = await startTestService(env, ['--service-config', file]);
  expect(await requested.promise).toBe('/.well-known/openid-configuration');
  await own.stop(0);
  issuer.close();
});
