import { createHash } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { identity } from '@sluice/contract';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, test } from 'vitest';
import { modernClient, type RawResponse, send } from '../../../../test/fixtures/raw-client.ts';
import { toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { startTestService, type TestService } from '../../testing/service.ts';
import { Identity } from '../identity/identity.ts';
import { ProtectedResource } from './protected-resource.ts';

const ISSUERS = [
  { name: 'corp', issuer: 'https://id.example/realms/r' },
  { name: 'partner', issuer: 'https://partner.example' },
];
const TOKENS = { anonymous: 'deny', tokens: ISSUERS };
const METADATA = '/.well-known/oauth-protected-resource';
const ORIGIN = 'https://console.example';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-resource-'));
});
afterEach(() => rm(folder, { recursive: true }));

async function start(settings: object | undefined, env: Record<string, string> = {}): Promise<TestService> {
  const file = join(folder, 'service.yaml');
  await writeFile(file, JSON.stringify({ namespaces: ['finance'], ...(settings && { identity: settings }) }));
  const service = await startTestService({ SERVICE_PUBLIC_URL: 'https://agents.example', ...env }, [
    '--service-config',
    file,
  ]);
  onTestFinished(() => service.stop(0));
  return service;
}

const get = (service: TestService, path: string, headers = {}) => send(`${service.mcp}${path}`, 'GET', headers);
const challengeOf = ({ status, headers }: RawResponse) => [status, headers['www-authenticate']];
const bearer = (resource: string, more = '') => `Bearer ${more}resource_metadata="${resource}"`;

describe('the metadata of an endpoint', () => {
  it('name its URL and the issuers, for each valid name, whatever the address of the request', async () => {
    const service = await start(TOKENS, { SERVICE_ALLOWED_HOSTS: '*' });
    for (const [path, resource] of [
      [`${METADATA}/finance/mcp`, '/finance/mcp'],
      [`${METADATA}/finance/mcp/`, '/finance/mcp/'],
      [`${METADATA}/unknown/mcp`, '/unknown/mcp'],
      [METADATA, ''],
      [`${METADATA}?a=b`, ''],
    ]) {
      const headers = { host: 'evil.example', 'x-forwarded-host': 'evil.example', 'x-forwarded-proto': 'http' };
      const { status, text, headers: received } = await get(service, path ?? '', headers);
      expect([status, received['content-type'], received['cache-control']]).toEqual([
        200,
        'application/json',
        'no-store',
      ]);
      expect(JSON.parse(text)).toEqual({
        resource: `https://agents.example${resource}`,
        authorization_servers: ISSUERS.map(({ issuer }) => issuer),
        bearer_methods_supported: ['header'],
      });
    }
  });

  it('are below the prefix of the public URL, and behind its name', async () => {
    const service = await start(TOKENS, { SERVICE_PUBLIC_URL: 'https://agents.example/gw' });
    for (const [path, resource] of [
      [`/gw${METADATA}/finance/mcp`, '/finance/mcp'],
      [`${METADATA}/gw/finance/mcp`, '/finance/mcp'],
      [`${METADATA}/finance/mcp`, '/finance/mcp'],
      [`/gw${METADATA}`, ''],
      [`${METADATA}/gw`, ''],
      [METADATA, ''],
    ]) {
      const { text } = await get(service, path ?? '');
      expect([path, JSON.parse(text).resource]).toEqual([path, `https://agents.example/gw${resource}`]);
    }
    expect(challengeOf(await get(service, '/gw/finance/mcp'))).toEqual([
      401,
      bearer(`https://agents.example/gw${METADATA}/finance/mcp`),
    ]);
    expect(challengeOf(await get(service, '/finance/mcp/'))[1]).toBe(
      bearer(`https://agents.example/gw${METADATA}/finance/mcp/`),
    );
  });

  it.each([
    `${METADATA}/Finance/mcp`,
    `${METADATA}/a%22b/mcp`,
    `${METADATA}/-a/mcp`,
    `${METADATA}/mcp`,
    `${METADATA}/finance/mcp/x`,
    `${METADATA}/`,
    `${METADATA}x`,
  ])('are not there for other paths, which need a credential: %s', async (path) => {
    const service = await start(TOKENS);
    expect(challengeOf(await get(service, path))).toEqual([401, bearer(`https://agents.example${METADATA}`)]);
  });

  it('are read only, and open whatever the credential', async () => {
    const service = await start(TOKENS);
    const url = `${service.mcp}${METADATA}/finance/mcp`;
    const { status, headers } = await send(url, 'POST', { 'content-type': 'application/json' }, '{}');
    expect([status, headers.allow]).toEqual([405, 'GET, HEAD']);
    expect((await send(url, 'HEAD')).text).toBe('');
    expect((await get(service, `${METADATA}/finance/mcp`, { authorization: 'Bearer x' })).status).toBe(200);
  });

  it('and the challenge can be read by scripts of browsers', async () => {
    const service = await start(TOKENS, { SERVICE_CORS_ORIGIN: ORIGIN });
    const preflight = await send(`${service.mcp}/finance/mcp`, 'OPTIONS', {
      origin: ORIGIN,
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'authorization',
    });
    expect([preflight.status, preflight.headers['access-control-allow-headers']]).toEqual([
      204,
      expect.stringContaining('Authorization'),
    ]);
    const metadata = await get(service, `${METADATA}/finance/mcp`, { origin: ORIGIN });
    expect([metadata.status, metadata.headers['access-control-allow-origin']]).toEqual([200, ORIGIN]);
    const { status, headers } = await get(service, '/finance/mcp', { origin: ORIGIN });
    expect([status, headers['access-control-allow-origin']]).toEqual([401, ORIGIN]);
    expect(headers['access-control-expose-headers']).toMatch(/\bWWW-Authenticate\b/);
  });
});

describe('a challenge', () => {
  it('says whether there was a credential, and where each valid name has its metadata', async () => {
    const service = await start({ ...TOKENS, keys: [{ name: 'a', sha256: ['a'.repeat(64)] }] });
    const at = (path: string) => `https://agents.example${METADATA}${path}`;
    const failed = { authorization: `Bearer slk_${'x'.repeat(43)}` };
    for (const [path, described] of [
      ['/finance/mcp', '/finance/mcp'],
      ['/unknown/mcp', '/unknown/mcp'],
      ['/Finance/mcp', ''],
      ['/x"y/mcp', ''],
      ['/', ''],
      ['/token', ''],
    ] as const) {
      expect(challengeOf(await get(service, path))).toEqual([401, bearer(at(described))]);
      const challenge = bearer(at(described), 'error="invalid_token", ');
      expect(challengeOf(await get(service, path, failed))).toEqual([401, challenge]);
    }
  });

  it('is Bearer alone without tokens, and on other listeners', async () => {
    const keys = { anonymous: 'deny', keys: [{ name: 'a', sha256: ['a'.repeat(64)] }] };
    expect(challengeOf(await get(await start(keys), '/finance/mcp'))).toEqual([401, 'Bearer']);
    const { management, addresses } = await start({ ...TOKENS, inference: true });
    expect(challengeOf(await send(`${management}/api/v1/tools`, 'GET'))).toEqual([401, 'Bearer']);
    expect(challengeOf(await send(`http://${addresses.inference}/v1/models`, 'GET'))).toEqual([401, 'Bearer']);
  });
});

it('a request whose credential is not accepted any more gets the challenge, too', async () => {
  const [key, admin] = ['a', 'b'].map((letter) => `slk_${letter.repeat(42)}A`);
  const sha256 = (text = '') => [createHash('sha256').update(text).digest('hex')];
  const called = Promise.withResolvers<void>();
  const upstream = await startRawUpstream({
    scripts: {
      'tools/list': toolList(toolText('wait')),
      'tools/call': () => {
        called.resolve();
        return new Promise<string>(() => undefined);
      },
    },
  });
  onTestFinished(() => upstream.close());
  const keys = [
    { name: 'agent', sha256: sha256(key) },
    { name: 'admin', sha256: sha256(admin), management: true },
  ];
  const file = join(folder, 'service.yaml');
  const forwards = [{ name: 'up', address: upstream.url, namespace: 'finance' }];
  await writeFile(file, JSON.stringify({ namespaces: ['finance'], forwards, identity: { ...TOKENS, keys } }));
  const env = { SERVICE_PUBLIC_URL: 'https://agents.example', SERVICE_CORS_ORIGIN: ORIGIN };
  const service = await startTestService(env, ['--service-config', file]);
  onTestFinished(() => service.stop(0));
  const authorization = `Bearer ${key}`;
  const client = modernClient(service.url('finance'));
  const response = client.call('tools/call', '{"name":"wait"}', {
    authorization,
    accept: 'application/json',
    origin: ORIGIN,
  });
  await called.promise;
  const blocked = await send(
    `${service.management}/api/v1/blocks/keys%2Fagent`,
    'PUT',
    {
      authorization: `Bearer ${admin}`,
      'content-type': 'application/json',
    },
    '{}',
  );
  expect(blocked.status).toBe(200);
  const { headers, ...rest } = await response;
  expect(challengeOf({ headers, ...rest })).toEqual([
    401,
    bearer(`https://agents.example${METADATA}/finance/mcp`, 'error="invalid_token", '),
  ]);
  expect(headers['access-control-expose-headers']).toMatch(/\bWWW-Authenticate\b/);
});

describe('beside SERVICE_AUTH_ISSUER', () => {
  const AUTH = { SERVICE_AUTH_ISSUER: 'https://id.example/realms/other' };

  it('tokens replace all documents; the endpoints of the provider stay', async () => {
    const service = await start(TOKENS, AUTH);
    const { text } = await get(service, `${METADATA}/finance/mcp`);
    expect(JSON.parse(text).authorization_servers).toEqual(ISSUERS.map(({ issuer }) => issuer));
    for (const name of ['oauth-authorization-server', 'openid-configuration']) {
      expect((await get(service, `/.well-known/${name}`)).status).toBe(404);
    }
    expect((await get(service, '/authorize')).headers.location).toMatch(/^https:\/\/id\.example\/realms\/other\//);
  });

  it('the document does not tell which namespaces there are, where anonymous requests may not know it', async () => {
    const proxy = { trusted: ['10.0.0.0/8'] };
    const denying = await start({ anonymous: 'deny', proxy }, AUTH);
    for (const name of ['finance', 'unknown']) {
      const { status, text } = await get(denying, `${METADATA}/${name}/mcp`);
      expect([status, JSON.parse(text)]).toEqual([
        200,
        {
          resource: `https://agents.example/${name}/mcp`,
          authorization_servers: ['https://agents.example'],
          bearer_methods_supported: ['header'],
        },
      ]);
    }
    expect((await get(denying, `${METADATA}/Finance/mcp`)).status).toBe(404);
    const allowing = await start({ proxy }, AUTH);
    expect((await get(allowing, `${METADATA}/unknown/mcp`)).status).toBe(404);
  });
});

test('the active settings count', () => {
  const active = new Identity(undefined);
  const publicUrl = { href: 'https://a.example', origin: 'https://a.example', host: 'a.example', prefix: '' };
  const resource = new ProtectedResource(active, publicUrl);
  const rejection = { status: 401, reason: '', headers: ['WWW-Authenticate', 'Bearer'] };
  expect(resource.respond('GET', METADATA)).toBeUndefined();
  expect(resource.challenge(rejection, '/a/mcp')).toBe(rejection);
  active.replace(identity.parse(TOKENS));
  expect(resource.respond('GET', METADATA)).toMatchObject({ status: 200 });
  expect(resource.challenge(rejection, '/a/mcp').headers?.[1]).toContain('resource_metadata');
  expect(resource.challenge({ ...rejection, status: 403 }, '/a/mcp').headers).toEqual(rejection.headers);
});
