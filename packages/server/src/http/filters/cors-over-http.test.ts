import { createServer } from 'node:http';
import { connect } from 'node:net';
import { describe, expect, it, vi } from 'vitest';
import { listen } from '../../../../../test/fixtures/http-server.ts';
import { modernClient, post, send } from '../../../../../test/fixtures/raw-client.ts';
import { at, pipelineTests } from '../../app/pipeline.fixture.ts';

const { run, runFilters, finally: atEnd } = pipelineTests();

// Listeners accept loopback origins, that of the Host and SERVICE_CORS_ORIGIN, regardless of the filter.
const CONSOLE = 'http://localhost:3000';
const OTHER = 'http://localhost:4000';

/** CORS headers of a response. */
function cors(headers: Readonly<Record<string, unknown>>) {
  return Object.fromEntries(
    Object.entries(headers).filter(([name]) => name === 'vary' || name.startsWith('access-control-')),
  );
}

const ANSWER = '- { filter: static_response, status: 200, body: x }';

describe('cors', () => {
  it('returns an allowed origin with every response, including errors, and no other origin', async () => {
    const service = await runFilters(`
- { filter: cors, allow_origins: ['${CONSOLE}'], expose_headers: [Mcp-Session-Id, X-More], allow_credentials: true }
- filter: mcp
- filter: service_namespace
- filter: service_methods`);
    const allowed = {
      vary: 'Origin',
      'access-control-allow-origin': CONSOLE,
      'access-control-expose-headers': 'Mcp-Session-Id, X-More',
      'access-control-allow-credentials': 'true',
    };
    const { call } = modernClient(at(service, 'l', '/default/mcp'));
    const responses = [
      await call('tools/list', '{}', { origin: CONSOLE }),
      await call('no/such', '{}', { origin: CONSOLE }),
      await post(at(service, 'l', '/default/mcp'), '{', { origin: CONSOLE }),
      await post(at(service, 'l', '/nowhere/mcp'), '{', { origin: CONSOLE }),
    ];
    expect(responses.map(({ status, headers }) => [status, cors(headers)])).toEqual([
      [200, allowed],
      [404, allowed],
      [400, allowed],
      [404, allowed],
    ]);
    const { status, headers } = await call('tools/list', '{}', { origin: OTHER });
    expect([status, cors(headers)]).toEqual([200, { vary: 'Origin' }]);
    expect(cors((await call('tools/list')).headers)).toEqual({ vary: 'Origin' });
  });

  describe('of a response to a request that does not reach the filter', () => {
    /** Sends a head, and returns status and CORS headers of the response. */
    async function respond(url: string, head: string): Promise<[number, object]> {
      const { hostname, port } = new URL(url);
      const socket = connect(Number(port), hostname);
      socket.write(head);
      const chunks: Buffer[] = [];
      socket.on('data', (chunk: Buffer) => chunks.push(chunk));
      await vi.waitFor(() => expect(Buffer.concat(chunks).toString()).toContain('\r\n\r\n'));
      socket.destroy();
      const [status = '', ...lines] = Buffer.concat(chunks).toString().split('\r\n\r\n', 1)[0]?.split('\r\n') ?? [];
      const headers = lines.map((line) => [
        line.slice(0, line.indexOf(':')).toLowerCase(),
        line.slice(line.indexOf(':') + 2),
      ]);
      return [Number(status.split(' ')[1]), cors(Object.fromEntries(headers))];
    }

    const POST = 'POST /default/mcp HTTP/1.1\r\n';
    const JSON_BODY = 'Content-Type: application/json\r\n';
    it.each([
      ['413', 'Host: localhost\r\n', `${JSON_BODY}Content-Length: 5000000\r\n\r\n`, 413],
      ['503', 'Host: localhost\r\n', `${JSON_BODY}Content-Length: 4000000\r\n\r\n${' '.repeat(1_500_000)}`, 503],
      ['403 of a foreign Host', 'Host: evil.example\r\n', 'Content-Length: 0\r\n\r\n', 403],
      ['400 without a Host', '', 'Content-Length: 0\r\n\r\n', 400],
      ['431', 'Host: localhost\r\n', `X-Large: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
      ['400 of a malformed request', 'Host: localhost\r\n', 'Content-Length: x\r\n\r\n', 400],
      ['400 of an ambiguous request', 'Host: localhost\r\nHost: other\r\n', 'Content-Length: 0\r\n\r\n', 400],
      ['400 of CONNECT', 'Host: localhost\r\n', '\r\n', 400],
    ])('an allowed origin is returned, and a foreign one is not: %s', async (name, host, rest, status) => {
      const service = await runFilters(
        `
- { filter: cors, allow_origins: ['*'] }
- filter: mcp
- filter: service_namespace
- filter: service_methods`,
        '',
        { SERVICE_MAX_BODIES_BYTES: '1048576' },
      );
      const url = at(service, 'l', '/default/mcp');
      const start = name.endsWith('CONNECT') ? 'CONNECT localhost:1 HTTP/1.1\r\n' : POST;
      const sent = (origin: string) => respond(url, `${start}${host}Origin: ${origin}\r\n${rest}`);
      expect(await sent(CONSOLE)).toEqual([status, { 'access-control-allow-origin': '*' }]);
      expect(await sent('https://evil.example')).toEqual([expect.any(Number), {}]);
    });
  });

  it('allows subdomains of any depth for a wildcard origin', async () => {
    const filters = `- { filter: cors, allow_origins: ['https://*.example.com'] }\n${ANSWER}`;
    const hosts = ['a.example.com', 'a.b.example.com', 'example.com', 'a.example.com:8443', 'anexample.com'];
    const service = await runFilters(filters, '', { SERVICE_ALLOWED_HOSTS: hosts.join() });
    const allowed: unknown[] = [];
    for (const host of hosts) {
      const { status, headers } = await send(at(service, 'l', '/'), 'GET', { host, origin: `https://${host}` });
      expect(status).toBe(200);
      allowed.push(headers['access-control-allow-origin']);
    }
    expect(allowed).toEqual(['https://a.example.com', 'https://a.b.example.com', undefined, undefined, undefined]);
  });

  it('returns * literally for any origin', async () => {
    const service = await runFilters(`- { filter: cors, allow_origins: ['*'] }\n${ANSWER}`);
    const senders: readonly Record<string, string>[] = [{ origin: CONSOLE }, {}];
    for (const headers of senders) {
      const response = await send(at(service, 'l', '/'), 'GET', headers);
      expect(cors(response.headers)).toEqual({ 'access-control-allow-origin': '*' });
    }
  });

  it('responds to a preflight request with its settings and defaults', async () => {
    const service = await run(`
listeners:
  - { name: expected, address: '127.0.0.1:0', filter_chains: [expected] }
  - { name: silent, address: '127.0.0.1:0', filter_chains: [silent] }
filter_chains:
  - name: expected
    filters:
      - filter: cors
        allow_origins: ['${CONSOLE}']
        allow_methods: [PUT, DELETE]
        allow_headers: [X-One, X-Many-*]
        max_age: 7
  - name: silent
    filters: [{ filter: cors, allow_origins: ['${CONSOLE}'] }]
`);
    const preflight = async (listener: string) => {
      const requested = { origin: CONSOLE, 'access-control-request-headers': 'x-one, x-many-a, x-other' };
      const { status, text, headers } = await send(at(service, listener, '/any'), 'OPTIONS', requested);
      return [status, text, cors(headers)];
    };
    expect(await preflight('expected')).toEqual([
      204,
      '',
      {
        vary: 'Origin',
        'access-control-allow-origin': CONSOLE,
        'access-control-allow-methods': 'PUT, DELETE',
        'access-control-allow-headers': 'X-One, x-many-a',
        'access-control-max-age': '7',
      },
    ]);
    expect(await preflight('silent')).toEqual([
      204,
      '',
      {
        vary: 'Origin',
        'access-control-allow-origin': CONSOLE,
        'access-control-allow-methods': 'GET, HEAD, POST',
        'access-control-allow-headers': '',
        'access-control-max-age': '86400',
      },
    ]);
  });

  it.each([
    ['omit', 204],
    ['reject', 403],
  ])('responds to the preflight request of another origin without CORS headers, with %s %i', async (mode, status) => {
    const service = await runFilters(
      `- { filter: cors, allow_origins: ['${CONSOLE}'], disallowed_origin_mode: ${mode} }\n${ANSWER}`,
    );
    const response = await send(at(service, 'l', '/'), 'OPTIONS', { origin: OTHER });
    expect([response.status, cors(response.headers)]).toEqual([status, { vary: 'Origin' }]);
  });

  it('does not override the origin check of the listener', async () => {
    const filters = `- { filter: cors, allow_origins: ['https://console.example'], allow_null_origin: true }\n${ANSWER}`;
    const service = await runFilters(filters);
    for (const origin of ['https://console.example', 'null']) {
      expect((await send(at(service, 'l', '/'), 'GET', { origin })).status).toBe(403);
    }
    expect(service.log.filter((line) => line.includes('cors allows https://console.example, null'))).toHaveLength(0);
  });

  it('uses SERVICE_CORS_ORIGIN in place of its first origin', async () => {
    const filters = `- { filter: cors, allow_origins: ['${CONSOLE}', '${OTHER}'] }\n${ANSWER}`;
    const service = await runFilters(filters, '', { SERVICE_CORS_ORIGIN: 'https://console.example' });
    const allowed = async (origin: string) => {
      const { status, headers } = await send(at(service, 'l', '/'), 'GET', { origin });
      return [status, headers['access-control-allow-origin']];
    };
    expect(await allowed('https://console.example')).toEqual([200, 'https://console.example']);
    expect(await allowed(OTHER)).toEqual([200, OTHER]);
    expect(await allowed(CONSOLE)).toEqual([200, undefined]);
    expect(await allowed('https://other.example')).toEqual([403, undefined]);
  });

  it('replaces the CORS headers of an upstream', async () => {
    const server = createServer((_request, response) => {
      response.writeHead(200, {
        'Access-Control-Allow-Origin': '*',
        'Access-Control-Allow-Credentials': 'true',
        'Access-Control-Expose-Headers': 'X-Theirs',
        Vary: 'Accept',
      });
      response.end();
    });
    const port = await listen(server, 0);
    atEnd(() => server.close());
    const service = await runFilters(`
- { filter: cors, allow_origins: ['${CONSOLE}'] }
- { filter: router, routes: [{ path_prefix: /, cluster: up }] }
- { filter: load_balancer, clusters: [{ name: up, endpoints: ['127.0.0.1:${port}'] }] }`);
    const expected = async (origin: string) => cors((await send(at(service, 'l', '/'), 'GET', { origin })).headers);
    expect(await expected(CONSOLE)).toEqual({ vary: 'Accept, Origin', 'access-control-allow-origin': CONSOLE });
    expect(await expected(OTHER)).toEqual({ vary: 'Accept, Origin' });
  });
});
