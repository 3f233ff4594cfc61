import { createServer as createHttpServer } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { createServer, type Socket } from 'node:net';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { startProxy, type TestProxyOptions } from '../../../testing/egress-proxy.ts';
import { localhostCertificate } from './certificate.fixture.ts';
import { EgressProxies } from './egress-proxies.ts';
import { listen } from './listening.fixture.ts';
import { pool, Sent, stopTime } from './pool.fixture.ts';

function proxyFor(env: Record<string, string>, url: string, setting?: string): string | undefined {
  return new EgressProxies(env).for(new URL(url), setting)?.url.origin;
}

describe('the proxy of a URL', () => {
  it.each([
    ['none without variables', {}, 'https://crm.example/mcp', undefined],
    ['HTTPS_PROXY', { HTTPS_PROXY: 'http://p:3128' }, 'https://crm.example/mcp', 'http://p:3128'],
    ['HTTPS_PROXY is not for http', { HTTPS_PROXY: 'http://p:3128' }, 'http://crm.example/mcp', undefined],
    ['HTTP_PROXY', { HTTP_PROXY: 'http://p:3128/' }, 'http://crm.example/mcp', 'http://p:3128'],
    ['HTTP_PROXY is not for https', { HTTP_PROXY: 'http://p:3128' }, 'https://crm.example/mcp', undefined],
    ['lower case', { https_proxy: 'http://p:3128' }, 'https://crm.example/mcp', 'http://p:3128'],
    [
      'lower case first',
      { https_proxy: 'http://a:1', HTTPS_PROXY: 'http://b:2' },
      'https://crm.example/mcp',
      'http://a:1',
    ],
    ['empty is unset', { https_proxy: '', HTTPS_PROXY: 'http://b:2' }, 'https://crm.example/mcp', 'http://b:2'],
    ['no scheme', { HTTPS_PROXY: 'p:3128' }, 'https://crm.example/mcp', 'http://p:3128'],
    ['https', { HTTPS_PROXY: 'https://p:3129' }, 'https://crm.example/mcp', 'https://p:3129'],
    ['not for localhost', { HTTP_PROXY: 'http://p:3128' }, 'http://localhost:8/mcp', undefined],
    [
      'not for localhost with the dot of the root',
      { HTTP_PROXY: 'http://p:3128' },
      'http://localhost.:8/mcp',
      undefined,
    ],
    ['not for 0.0.0.0', { HTTP_PROXY: 'http://p:3128' }, 'http://0.0.0.0:8/mcp', undefined],
    ['not for [::]', { HTTP_PROXY: 'http://p:3128' }, 'http://[::]:8/mcp', undefined],
    ['white space at the ends', { HTTP_PROXY: ' http://p:3128\n' }, 'http://crm.example/mcp', 'http://p:3128'],
    ['not for a name below localhost', { HTTP_PROXY: 'http://p:3128' }, 'http://a.localhost/mcp', undefined],
    ['not for 127.0.0.0/8', { HTTP_PROXY: 'http://p:3128' }, 'http://127.1.2.3/mcp', undefined],
    ['not for [::1]', { HTTP_PROXY: 'http://p:3128' }, 'http://[::1]:9/mcp', undefined],
    ['not for a mapped loopback address', { HTTP_PROXY: 'http://p:3128' }, 'http://[::ffff:127.0.0.1]/mcp', undefined],
  ])('%s', (_what, env, url, expected) => {
    expect(proxyFor(env, url)).toBe(expected);
  });

  it.each([
    ['none', 'https://crm.example/mcp', 'none', undefined],
    ['another one', 'https://crm.example/mcp', 'http://q:1', 'http://q:1'],
    ['one for loopback', 'http://127.0.0.1:1/mcp', 'http://q:1', 'http://q:1'],
    ['one for an exception', 'https://a.internal/mcp', 'http://q:1', 'http://q:1'],
  ])('may be that of a forward: %s', (_what, url, setting, expected) => {
    const env = { HTTPS_PROXY: 'http://p:1', HTTP_PROXY: 'http://p:1', NO_PROXY: 'internal' };
    expect(proxyFor(env, url, setting)).toBe(expected);
  });

  it.each([
    ['*', 'https://crm.example/', true],
    ['a, *', 'https://crm.example/', true],
    ['example', 'https://crm.example/', true],
    ['.example', 'https://crm.example/', true],
    ['*.example', 'https://crm.example/', true],
    ['.example', 'https://example/', true],
    ['EXAMPLE', 'https://CRM.Example/', true],
    ['ample', 'https://crm.example/', false],
    ['crm.example', 'https://crm.example./', true],
    ['crm.example', 'https://example/', false],
    ['other crm.example', 'https://crm.example/', true],
    ['a,b,,crm.example', 'https://crm.example/', true],
    ['crm.example:443', 'https://crm.example/', true],
    ['crm.example:8443', 'https://crm.example/', false],
    ['crm.example:8443', 'https://crm.example:8443/', true],
    ['.example:80', 'http://crm.example/', true],
    ['BÜCHER.example', 'https://www.bücher.example/', true],
    ['10.0.0.0/8', 'https://10.1.2.3/', true],
    ['10.0.0.0/8', 'https://11.1.2.3/', false],
    ['10.0.0.0/8', 'https://ten.example/', false],
    ['10.1.2.3', 'https://10.1.2.3/', true],
    ['10.1.2.3', 'https://10.1.2.30/', false],
    ['10.1.2.3:9', 'https://10.1.2.3:9/', true],
    ['10.1.2.3:9', 'https://10.1.2.3/', false],
    ['fd00::/8', 'https://[fd12:3456::1]/', true],
    ['fd00::/8', 'https://[fe80::1]/', false],
    ['fd00::1', 'https://[fd00:0::1]/', true],
    ['[fd00::1]', 'https://[fd00::1]/', true],
    ['[fd00::1]:443', 'https://[fd00::1]/', true],
    ['[fd00::1]:8443', 'https://[fd00::1]/', false],
    ['10.0.0.0/99', 'https://10.1.2.3/', false],
    ['<local>', 'https://crm.example/', false],
    ['', 'https://crm.example/', false],
  ])('NO_PROXY=%s: %s is an exception: %s', (exceptions, url, isException) => {
    for (const name of ['NO_PROXY', 'no_proxy']) {
      const env = { HTTPS_PROXY: 'http://p:1', HTTP_PROXY: 'http://p:1', [name]: exceptions };
      expect(proxyFor(env, url)).toBe(isException ? undefined : 'http://p:1');
    }
  });

  it.each(['socks5://s3cret@p:1080', 'http://', '::', 'http://user:s3cret@'])('must be an HTTP proxy: %s', (value) => {
    expect(() => new EgressProxies({ HTTPS_PROXY: value })).toThrow(/^HTTPS_PROXY: .*expected http:\/\/host:port$/);
    expect(() => new EgressProxies({ HTTPS_PROXY: value })).not.toThrow(/s3cret/);
  });

  it('is named without credentials', () => {
    const env = { HTTPS_PROXY: 'http://user:s3cret@p:3128', http_proxy: 'q', NO_PROXY: 'a,b' };
    expect(new EgressProxies(env).variables).toEqual({
      HTTPS_PROXY: 'http://p:3128',
      http_proxy: 'http://q',
      NO_PROXY: 'a,b',
    });
    expect(new EgressProxies({ NO_PROXY: 'a' }).variables).toEqual({});
  });
});

const CREDENTIALS = `Basic ${Buffer.from('us@er:p:w').toString('base64')}`;

async function proxied(options?: TestProxyOptions, userInfo = '') {
  const proxy = await startProxy(options);
  onTestFinished(() => proxy.close());
  const setting = `http://${userInfo}127.0.0.1:${proxy.port}`;
  return { proxy, setting: new EgressProxies().for(new URL('http://x'), setting) };
}

describe('requests through a proxy', () => {
  const defaults = getCACertificates('default');
  beforeAll(() => setDefaultCACertificates([...defaults, localhostCertificate.cert.toString()]));
  afterAll(() => setDefaultCACertificates(defaults));

  const seen: { url: string | undefined; headers: Record<string, unknown>; length: number }[] = [];
  async function upstream(scheme: 'http' | 'https') {
    seen.length = 0;
    const handle: Parameters<typeof createHttpServer>[1] = async (request, response) => {
      let length = 0;
      for await (const chunk of request) length += chunk.length;
      seen.push({ url: request.url, headers: request.headers, length });
      response.end('x'.repeat(Number(request.headers['x-size'] ?? 2)));
    };
    return listen(
      scheme === 'http' ? createHttpServer(handle) : createHttpsServer({ ...localhostCertificate }, handle),
    );
  }

  it.each([
    ['http', 'POST http://localhost:PORT/mcp?a=1'],
    ['https', 'CONNECT localhost:PORT'],
  ] as const)('are sent for %s as %s', async (scheme, line) => {
    const port = await upstream(scheme);
    const { proxy, setting } = await proxied({ credentials: CREDENTIALS }, 'us%40er:p%3Aw@');
    const to = pool({ port }, { proxy: setting }, `${scheme}://localhost:${port}/mcp?a=1`);
    for (const size of [2, 300_000, 5_000_000]) {
      const { body, error } = await new Sent(to, { headers: ['x-size', String(size)], body: 'y'.repeat(size) }).done;
      expect(error).toBeUndefined();
      expect(body.length).toBe(size);
    }
    expect(seen.map(({ length }) => length)).toEqual([2, 300_000, 5_000_000]);
    expect(seen[0]).toMatchObject({ url: '/mcp?a=1', headers: { host: `localhost:${port}` } });
    expect(seen[0]?.headers).not.toHaveProperty('proxy-authorization');
    expect(proxy.requests[0]).toBe(line.replace('PORT', String(port)));
    expect(proxy.authorization).toBe(CREDENTIALS);
    // A tunnel is used again.
    if (scheme === 'https') expect(proxy.requests).toHaveLength(1);
  });

  it.each(['http', 'https'] as const)('are paused with their handler for %s', async (scheme) => {
    const port = await upstream(scheme);
    const { setting } = await proxied();
    const call = new Sent(
      pool({ port }, { proxy: setting }, `${scheme}://localhost:${port}/`),
      { headers: ['x-size', '3000000'] },
      (event) => {
        if (event !== 'data') return true;
        setImmediate(() => call.call.resume());
        return false;
      },
    );
    expect((await call.done).body.length).toBe(3_000_000);
  });

  it('follow redirects', async () => {
    const port = await listen(
      createHttpServer((request, response) => {
        if (request.url === '/mcp') response.writeHead(307, { location: '/mcp/' }).end();
        else response.end(request.url);
      }),
    );
    const { proxy, setting } = await proxied({ hosts: { 'crm.test': port } });
    const to = pool({ port }, { proxy: setting }, 'http://crm.test/mcp');
    for (let n = 0; n < 2; n++) expect((await new Sent(to).done).body).toBe('/mcp/');
    const target = 'POST http://crm.test/mcp/';
    expect(proxy.requests).toEqual(['POST http://crm.test/mcp', target, target]);
  });

  it('check the certificate of the upstream', async () => {
    const port = await upstream('https');
    const { setting } = await proxied({ hosts: { 'other.test': port } });
    const { error } = await new Sent(pool({ port }, { proxy: setting }, 'https://other.test/mcp')).done;
    expect(error).toMatchObject({ kind: 'refused' });
    expect(error?.message).toContain(
      'upstream https://other.test/mcp is unreachable: its certificate is for other hosts',
    );
  });

  describe.each(['http', 'https'] as const)('to an upstream with %s fail', (scheme) => {
    /** Fails a request through a proxy that handles connections like this. */
    async function failure(accept: ((socket: Socket) => void) | undefined, advanceMs?: number) {
      if (advanceMs !== undefined) stopTime();
      const reached = Promise.withResolvers<void>();
      const port = accept
        ? await listen(
            createServer((socket) => {
              socket.on('error', () => undefined);
              onTestFinished(() => void socket.destroy());
              socket.once('data', () => {
                accept(socket);
                reached.resolve();
              });
            }),
          )
        : 1;
      const proxy = new EgressProxies().for(new URL('http://x'), `http://user:s3cret@127.0.0.1:${port}`);
      const sent = new Sent(pool({ port }, { proxy }, `${scheme}://crm.test/mcp`));
      if (advanceMs !== undefined) {
        await reached.promise;
        vi.advanceTimersByTime(advanceMs);
      }
      const { error } = await sent.done;
      expect(error?.message).not.toContain('s3cret');
      expect(error?.message.startsWith(`upstream ${scheme}://crm.test/mcp `)).toBe(true);
      return { error, proxy: `proxy http://127.0.0.1:${port}` };
    }

    it('if the proxy refuses the connection', async () => {
      const { error, proxy } = await failure(undefined);
      expect(error).toMatchObject({ kind: 'refused', isUnavailable: true });
      expect(error?.message).toContain(`is unreachable: ${proxy} refused the connection (ECONNREFUSED)`);
    });

    it('if the proxy rejects the credentials', async () => {
      const { error, proxy } = await failure((socket) => socket.end('HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n'));
      const step = scheme === 'http' ? 'answered with HTTP 407' : 'answered CONNECT with HTTP 407';
      expect(error).toMatchObject({ kind: 'refused' });
      expect(error?.message).toContain(`is unreachable: ${proxy} ${step}; set its user name and password`);
    });

    if (scheme === 'http') return;

    it.each([
      ['another status', 'HTTP/1.1 503 Busy\r\n\r\n', 'answered CONNECT with HTTP 503'],
      ['no HTTP', 'SSH-2.0-OpenSSH_9.6\r\n\r\n', 'did not answer CONNECT with HTTP/1.1'],
      ['an endless head', `HTTP/1.1 200 OK\r\n${'x: y\r\n'.repeat(10_000)}`, 'did not answer CONNECT with HTTP/1.1'],
      ['more than a head', 'HTTP/1.1 200 OK\r\n\r\nhello', 'answered CONNECT with more than a head'],
      ['nothing', '', 'closed the connection without an answer to CONNECT'],
    ])('if the proxy answers with %s', async (_what, answer, step) => {
      const { error, proxy } = await failure((socket) => socket.end(answer));
      expect(error).toMatchObject({ kind: 'refused' });
      expect(error?.message).toContain(`is unreachable: ${proxy} ${step}`);
    });

    it('if the proxy does not answer in time', async () => {
      const { error, proxy } = await failure(() => undefined, 5_000);
      expect(error?.message).toContain(`is unreachable: ${proxy} did not answer CONNECT within 5 s`);
    });

    it('if the upstream does not start TLS in time', async () => {
      const { error } = await failure((socket) => socket.write('HTTP/1.1 200 OK\r\n\r\n'), 5_000);
      expect(error).toMatchObject({ kind: 'refused' });
      expect(error?.message).toMatch(/did not (accept a connection|answer CONNECT) within 5 s/);
    });
  });

  it('end with their call while the tunnel is opened', async () => {
    const opened = Promise.withResolvers<Socket>();
    const port = await listen(
      createServer((socket) => {
        socket.on('error', () => undefined).once('data', () => opened.resolve(socket));
      }),
    );
    const proxy = new EgressProxies().for(new URL('http://x'), `http://127.0.0.1:${port}`);
    const to = pool({ port }, { proxy }, 'https://crm.test/mcp');
    const sent = new Sent(to);
    const socket = await opened.promise;
    sent.call.abort();
    await new Promise((resolve) => socket.once('close', resolve));
    expect(sent.log).toEqual(['dispatched']);
    await to.close();
  });
});
