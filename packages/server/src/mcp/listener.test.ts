import { describe, expect, it } from 'vitest';
import { legacyClient, modernClient, post, type RawResponse, send } from '../../../../test/fixtures/raw-client.ts';
import { errorOf, LIST, listenerTests, PING, rpc } from '../../testing/listener.ts';
import { startTestService } from '../../testing/service.ts';

const service = listenerTests();

describe('the path', () => {
  it.each(['/default/mcp', '/default/mcp/', '/default/mcp?a=1&b', '/default/mcp/?x=/other/mcp', '/finance/mcp'])(
    '%s is served',
    async (path) => {
      const response = await post(service().mcp + path, LIST);
      expect(response.status).toBe(200);
      expect(JSON.parse(response.text).result.tools).toHaveLength(path.startsWith('/default') ? 1 : 0);
    },
  );

  it.each([
    '/',
    '/mcp',
    '/mcp/',
    '/finance',
    '/default',
    '/default/mcp/tools',
    '/default/mcp//',
    '//mcp',
    '/a/default/mcp',
    '/default/MCP',
    '/default/mcpx',
    '/?/default/mcp',
  ])('%s is 404 and named in the words of the right one, with the id echoed', async (path) => {
    const response = await post(service().mcp + path, rpc('tools/list', {}, 'abc'));
    expect(response.status).toBe(404);
    expect(errorOf(response)).toEqual({
      code: -32600,
      message: expect.stringContaining('/{namespace}/mcp'),
      id: 'abc',
    });
  });

  it.each([
    ['nowhere', 'nowhere'],
    ['DEFAULT', 'DEFAULT'],
    ['-x', '-x'],
    ['a_b', 'a_b'],
    ['%64efault', 'default'],
    ['a%2Fb', 'a/b'],
    ['%zz', '%zz'],
    ['a'.repeat(64), 'a'.repeat(64)],
    ['..%2f', '../'],
    ['__proto__', '__proto__'],
  ])('a namespace that is unknown or invalid, %s, is 404 before its message is read', async (segment, shown) => {
    const response = await post(`${service().mcp}/${segment}/mcp`, rpc('tools/list', {}, 7));
    expect(response.status).toBe(404);
    expect(errorOf(response)).toEqual({ code: -32600, message: `namespace not found: ${shown}`, id: null });
  });

  it('is checked before the message', async () => {
    expect(errorOf(await post(service().url('nowhere'), rpc('initialize')))).toMatchObject({ code: -32600, id: null });
    expect(errorOf(await post(service().url('nowhere'), '{'))).toMatchObject({ code: -32600, id: null });
    expect(
      (await post(service().url('nowhere'), '{"jsonrpc":"2.0","method":"notifications/initialized"}')).status,
    ).toBe(404);
  });

  it.each(['GET', 'DELETE', 'PUT'])('is checked for %s too', async (method) => {
    const bare = await send(`${service().mcp}/mcp`, method);
    expect([bare.status, errorOf(bare)]).toEqual([404, expect.objectContaining({ code: -32600, id: null })]);
    const unknown = await send(service().url('nowhere'), method);
    expect([unknown.status, errorOf(unknown).message]).toEqual([404, 'namespace not found: nowhere']);
  });

  it('is checked for a modern client too', async () => {
    const response = await modernClient(service().url('nowhere')).call('tools/list');
    expect([response.status, errorOf(response)]).toEqual([
      404,
      { code: -32600, message: 'namespace not found: nowhere', id: null },
    ]);
  });
});

describe('HTTP methods', () => {
  it.each(['GET', 'DELETE', 'PUT', 'PATCH', 'HEAD'])(
    '%s without a session is 405 and names those allowed',
    async (method) => {
      const response = await send(service().url(), method);
      expect(response.status).toBe(405);
      expect(response.headers.allow).toMatch(/\bPOST\b/);
      expect(response.text).toBe('');
    },
  );

  it.each(['GET', 'DELETE'])('%s with the modern version is 405, with any session', async (method) => {
    const { headers } = await legacyClient(service().url());
    for (const session of [headers['mcp-session-id'] ?? '', 'forged']) {
      const response = await send(service().url(), method, {
        'mcp-session-id': session,
        'mcp-protocol-version': '2026-07-28',
      });
      expect(response.status).toBe(405);
    }
    expect((await post(service().url(), LIST, headers)).status).toBe(200);
  });

  it('PUT with a session is 405 and does not end the session', async () => {
    const { headers } = await legacyClient(service().url());
    expect((await send(service().url(), 'PUT', headers)).status).toBe(405);
    expect((await post(service().url(), LIST, headers)).status).toBe(200);
  });
});

describe('CORS', () => {
  const ORIGIN = { origin: 'http://localhost:3000' };

  it('responds to a preflight with all methods and headers that clients send', async () => {
    const response = await send(service().url(), 'OPTIONS', {
      ...ORIGIN,
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'content-type,mcp-param-Region,mcp-param-x,x-other,mcp-param-"bad"',
    });
    expect([response.status, response.text]).toEqual([204, '']);
    expect(response.headers['access-control-allow-origin']).toBe('*');
    expect(response.headers['access-control-max-age']).toBe('86400');
    expect(words(response, 'access-control-allow-methods')).toEqual(['get', 'post', 'delete', 'options']);
    const allowed = words(response, 'access-control-allow-headers');
    for (const name of [
      'content-type',
      'accept',
      'authorization',
      'mcp-session-id',
      'mcp-protocol-version',
      'mcp-method',
      'mcp-name',
      'last-event-id',
      'x-request-id',
      'x-conversation-id',
      'mcp-param-region',
      'mcp-param-x',
    ]) {
      expect(allowed).toContain(name);
    }
    expect(allowed).not.toContain('x-other');
    expect(allowed.join()).not.toContain('bad');
  });

  it('responds to a preflight on any path', async () => {
    expect((await send(`${service().mcp}/mcp`, 'OPTIONS', ORIGIN)).status).toBe(204);
  });

  it.each([
    ['a result', PING, 200],
    ['an error of the method', rpc('no/such'), 200],
    ['a parse error', '{', 400],
    ['an accepted notification', '{"jsonrpc":"2.0","method":"notifications/initialized"}', 202],
  ])('puts its headers on %s', async (_what, body, status) => {
    const response = await post(service().url(), body, ORIGIN);
    expect(response.status).toBe(status);
    expect(response.headers['access-control-allow-origin']).toBe('*');
    expect(words(response, 'access-control-expose-headers')).toContain('mcp-session-id');
  });

  it('adds CORS headers to 404 and 405 responses', async () => {
    expect((await post(`${service().mcp}/mcp`, PING, ORIGIN)).headers['access-control-allow-origin']).toBe('*');
    expect((await send(service().url(), 'PUT', ORIGIN)).headers['access-control-allow-origin']).toBe('*');
  });

  function words(response: RawResponse, header: string): string[] {
    return String(response.headers[header]).toLowerCase().split(', ');
  }
});

describe('Origin and Host', () => {
  it.each(['https://evil.example', 'null', 'http://localhost.evil.example'])(
    'reject the foreign origin %s',
    async (origin) => {
      for (const method of ['POST', 'OPTIONS', 'GET']) {
        const response = await send(service().url(), method, { origin }, method === 'POST' ? PING : undefined);
        expect(response.status).toBe(403);
        expect(errorOf(response)).toMatchObject({ code: -32600, id: null, message: expect.stringContaining('Origin') });
        expect(response.headers['access-control-allow-origin']).toBeUndefined();
      }
    },
  );

  it("accept loopback origins and the listener's own", async () => {
    for (const origin of ['http://localhost:5173', 'http://127.0.0.1', 'https://[::1]:1', service().mcp]) {
      expect((await post(service().url(), PING, { origin })).status).toBe(200);
    }
  });

  it.each(['evil.example', 'localhost.evil.example:8081', '10.0.0.1'])(
    'reject the name %s resolved to loopback',
    async (host) => {
      const response = await post(service().url(), PING, { host });
      expect(response.status).toBe(403);
      expect(errorOf(response)).toMatchObject({ code: -32600, id: null, message: expect.stringContaining(host) });
      // A page loaded from such a name would have the same origin.
      expect((await post(service().url(), PING, { host, origin: `http://${host}` })).status).toBe(403);
    },
  );

  it('reject a request over the limit before its body is read', async () => {
    const response = await send(
      service().url(),
      'POST',
      { origin: 'https://evil.example', 'content-length': '9' },
      'x'.repeat(9),
    );
    expect(response.status).toBe(403);
  });

  it('follow SERVICE_ALLOWED_HOSTS and SERVICE_CORS_ORIGIN', async () => {
    const strict = await startTestService({
      SERVICE_ALLOWED_HOSTS: 'gateway.example',
      SERVICE_CORS_ORIGIN: 'https://console.example',
    });
    try {
      const url = strict.url();
      expect((await post(url, PING, { host: 'gateway.example:8081' })).status).toBe(200);
      expect((await post(url, PING)).status).toBe(200);
      expect((await post(url, PING, { host: 'evil.example' })).status).toBe(403);

      const configured = await post(url, PING, { origin: 'https://console.example' });
      expect(configured.status).toBe(200);
      expect(configured.headers['access-control-allow-origin']).toBe('https://console.example');
      expect(configured.headers.vary).toBe('Origin');
      expect((await post(url, PING, { origin: 'https://evil.example' })).status).toBe(403);
      // Same origin: the guard accepts it, and a browser needs no CORS headers for it.
      const own = await post(url, PING, { host: 'gateway.example', origin: 'https://gateway.example' });
      expect([own.status, own.headers['access-control-allow-origin']]).toEqual([200, undefined]);
    } finally {
      await strict.stop();
    }
  });

  it('accept every origin only when SERVICE_CORS_ORIGIN is *', async () => {
    const open = await startTestService({ SERVICE_CORS_ORIGIN: '*' });
    try {
      const response = await post(open.url(), PING, { origin: 'https://evil.example' });
      expect([response.status, response.headers['access-control-allow-origin']]).toEqual([200, '*']);
      expect((await post(open.url(), PING, { host: 'evil.example' })).status).toBe(403);
    } finally {
      await open.stop();
    }
  });
});
