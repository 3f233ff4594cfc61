import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { listen } from '../../../../test/fixtures/http-server.ts';
import { post, send } from '../../../../test/fixtures/raw-client.ts';
import { startTestService, type TestService } from '../../testing/service.ts';

const ISSUER = 'https://id.example/realms/r';
const MEGABYTE = 1024 * 1024;
const FORWARDED = { 'x-forwarded-proto': 'https', 'x-forwarded-host': 'mcp.example' };

let service: TestService;
let provider: {
  url: string;
  seen: { url: string | undefined; headers: IncomingHttpHeaders; body: string }[];
  /** Sends one request and returns the response. */
  answer: (response: ServerResponse) => unknown;
};
const ends: (() => unknown)[] = [];

beforeEach(async () => {
  const seen: typeof provider.seen = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    seen.push({ url: request.url, headers: request.headers, body: Buffer.concat(chunks).toString() });
    provider.answer(response);
  });
  provider = {
    url: `http://127.0.0.1:${await listen(server, 0)}/inside`,
    seen,
    answer: (response) =>
      response.writeHead(400, { 'Content-Type': 'application/json' }).end('{"error":"invalid_grant"}'),
  };
  service = await startTestService({
    SERVICE_AUTH_ISSUER: `${ISSUER}/`,
    SERVICE_AUTH_UPSTREAM_ISSUER: provider.url,
    SERVICE_ALLOWED_HOSTS: 'mcp.example',
  });
  ends.push(
    () => service.stop(0),
    () => {
      server.close();
      server.closeAllConnections();
    },
  );
});
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

const get = (path: string, headers = {}) => send(`${service.mcp}${path}`, 'GET', headers);

describe('the document of a protected resource', () => {
  it("names the namespace's endpoint and this service, at the address that the client used", async () => {
    const path = '/.well-known/oauth-protected-resource/default/mcp';
    const { status, text, headers } = await get(path, FORWARDED);
    expect([status, headers['content-type']]).toEqual([200, 'application/json']);
    expect(JSON.parse(text)).toEqual({
      resource: 'https://mcp.example/default/mcp',
      authorization_servers: ['https://mcp.example'],
      bearer_methods_supported: ['header'],
    });
    expect(JSON.parse((await get(path)).text).resource).toBe(service.url());
  });

  it('names the endpoint with a trailing slash where its client does', async () => {
    const path = '/.well-known/oauth-protected-resource/default/mcp/';
    const { status, text } = await get(path, FORWARDED);
    expect([status, JSON.parse(text)]).toEqual([
      200,
      {
        resource: 'https://mcp.example/default/mcp/',
        authorization_servers: ['https://mcp.example'],
        bearer_methods_supported: ['header'],
      },
    ]);
    const request = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}';
    const [plain, slash] = [await post(service.url(), request), await post(`${service.url()}/`, request)];
    expect([slash.status, slash.text]).toEqual([plain.status, plain.text]);
    expect((await get('/.well-known/oauth-protected-resource/default/mcp//')).status).toBe(404);
  });

  it('is not cached for clients that used another address', async () => {
    const { headers } = await get('/.well-known/oauth-protected-resource/default/mcp', FORWARDED);
    expect(headers['cache-control']).toBe('no-store');
    expect(headers.vary).toContain('X-Forwarded-Host, X-Forwarded-Proto');
  });

  it.each(['evil.example', 'evil.example, mcp.example', '"', 'mcp.example@evil.example'])(
    'names no host that is not allowed: %s',
    async (host) => {
      const { status, text } = await get('/.well-known/oauth-protected-resource/default/mcp', {
        'x-forwarded-host': host,
      });
      expect([status, JSON.parse(text).error.code]).toEqual([403, -32600]);
      expect(JSON.parse(text).error.message).toMatch(/^X-Forwarded-Host not allowed: .*; set SERVICE_ALLOWED_HOSTS/);
    },
  );

  it.each(['javascript', 'ftp', 'https:', ''])('ignores the forwarded scheme %j', async (scheme) => {
    const headers = { ...FORWARDED, 'x-forwarded-proto': scheme };
    const { text } = await get('/.well-known/oauth-protected-resource/default/mcp', headers);
    expect(JSON.parse(text).resource).toBe('http://mcp.example/default/mcp');
  });

  it('is not there for a namespace that is not', async () => {
    expect((await get('/.well-known/oauth-protected-resource/none/mcp')).status).toBe(404);
    expect((await get('/.well-known/oauth-protected-resource/default')).status).toBe(404);
  });
});

it.each(['/.well-known/openid-configuration', '/.well-known/oauth-authorization-server'])(
  '%s redirects to the provider through this service',
  async (path) => {
    const document = JSON.parse((await get(path, FORWARDED)).text);
    expect(document).toEqual({
      issuer: 'https://mcp.example',
      authorization_endpoint: 'https://mcp.example/authorize',
      token_endpoint: 'https://mcp.example/token',
      registration_endpoint: 'https://mcp.example/register',
      jwks_uri: `${ISSUER}/protocol/openid-connect/certs`,
      userinfo_endpoint: `${ISSUER}/protocol/openid-connect/userinfo`,
      response_types_supported: ['code'],
      grant_types_supported: ['authorization_code', 'refresh_token'],
      code_challenge_methods_supported: ['S256'],
      subject_types_supported: ['public'],
      id_token_signing_alg_values_supported: ['RS256'],
      token_endpoint_auth_methods_supported: ['none', 'client_secret_basic', 'client_secret_post'],
    });
    expect((await post(`${service.mcp}${path}`, '{}')).headers.allow).toBe('GET, HEAD');
  },
);

it.each([
  ['GET', '/authorize?a=%20b&c', 302, `${ISSUER}/protocol/openid-connect/auth?a=%20b&c`],
  ['GET', '/register', 302, `${ISSUER}/clients-registrations/openid-connect`],
  ['POST', '/register?x=1', 307, `${ISSUER}/clients-registrations/openid-connect?x=1`],
])('%s %s is sent on to the provider', async (method, path, status, location) => {
  const response = await send(`${service.mcp}${path}`, method, {}, method === 'POST' ? 'a=b' : undefined);
  expect([response.status, response.headers.location]).toEqual([status, location]);
});

describe('a request for a token', () => {
  const FORM = { 'content-type': 'application/x-www-form-urlencoded', authorization: 'Basic eDp5', cookie: 'no' };

  it("is the provider's response, with its status", async () => {
    const response = await send(`${service.mcp}/token`, 'POST', FORM, 'grant_type=code&x=%20');
    expect([response.status, response.text]).toEqual([400, '{"error":"invalid_grant"}']);
    expect(response.headers['cache-control']).toBe('no-store');
    const [seen] = provider.seen;
    expect(seen).toMatchObject({ url: '/inside/protocol/openid-connect/token', body: 'grant_type=code&x=%20' });
    expect(seen?.headers).toMatchObject({ 'content-type': FORM['content-type'], authorization: 'Basic eDp5' });
    expect(seen?.headers).not.toHaveProperty('cookie');
  });

  it('requests a retry when the provider is unreachable', async () => {
    await ends.pop()?.();
    const response = await send(`${service.mcp}/token`, 'POST', FORM, 'a=b');
    expect([response.status, JSON.parse(response.text)]).toEqual([503, { error: 'temporarily_unavailable' }]);
    expect(service.log.join('')).not.toContain('eDp5');
  });

  it('forwards a response of 1 MiB unchanged, and none that is larger', async () => {
    // Two bytes per character: the limit is in bytes.
    const most = 'é'.repeat(512 * 1024);
    provider.answer = (response) => response.end(most);
    expect(await send(`${service.mcp}/token`, 'POST', FORM, 'a=b')).toMatchObject({ status: 200, text: most });
    provider.answer = (response) => response.end(`${most}.`);
    expect((await send(`${service.mcp}/token`, 'POST', FORM, 'a=b')).status).toBe(503);
  });

  it('stops reading a response at the limit', async () => {
    const piece = Buffer.alloc(MEGABYTE, 'x');
    const cutAfter = Promise.withResolvers<number>();
    provider.answer = async (response) => {
      let written = 0;
      response.on('close', () => cutAfter.resolve(written));
      while (written < 64 * MEGABYTE && !response.destroyed) {
        written += piece.length;
        if (!response.write(piece)) await Promise.race([once(response, 'drain'), once(response, 'close')]);
      }
      response.end();
    };
    expect((await send(`${service.mcp}/token`, 'POST', FORM, 'a=b')).status).toBe(503);
    // The contents of system buffers are sent regardless.
    expect(await cutAfter.promise).toBeLessThan(32 * MEGABYTE);
    expect(service.log.join('')).toContain('answered with more than 1048576 bytes');
  });

  it('is a POST', async () => {
    expect((await get('/token')).status).toBe(405);
  });
});

it('forwards the registration of a client if configured, since many clients do not follow a redirect for it', async () => {
  const forwarding = await startTestService({
    SERVICE_AUTH_ISSUER: ISSUER,
    SERVICE_AUTH_UPSTREAM_ISSUER: provider.url,
    SERVICE_AUTH_REGISTRATION: 'forward',
  });
  ends.push(() => forwarding.stop(0));
  provider.answer = (response) =>
    response.writeHead(201, { 'Content-Type': 'application/json' }).end('{"client_id":"1"}');
  const headers = { 'content-type': 'application/json', authorization: 'Bearer initial', cookie: 'no' };
  const response = await send(`${forwarding.mcp}/register`, 'POST', headers, '{"client_name":"a"}');
  expect([response.status, response.text]).toEqual([201, '{"client_id":"1"}']);
  const [seen] = provider.seen;
  expect(seen).toMatchObject({ url: '/inside/clients-registrations/openid-connect', body: '{"client_name":"a"}' });
  expect(seen?.headers).toMatchObject({ 'content-type': 'application/json', authorization: 'Bearer initial' });
  expect(seen?.headers).not.toHaveProperty('cookie');
  expect((await send(`${forwarding.mcp}/register`, 'GET')).status).toBe(302);
});

it('without a provider none of these paths exist', async () => {
  const plain = await startTestService();
  ends.push(() => plain.stop(0));
  for (const path of ['/authorize', '/token', '/register', '/.well-known/openid-configuration']) {
    expect((await send(`${plain.mcp}${path}`, 'GET')).status).toBe(404);
  }
  expect((await send(`${plain.mcp}/.well-known/oauth-protected-resource/default/mcp`, 'GET')).status).toBe(404);
});
