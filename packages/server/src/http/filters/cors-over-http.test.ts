import { createServer } from 'node:http';
import { describe, expect, it } from 'vitest';
import { listen } from '../../../../../test/fixtures/http-server.ts';
import { modernClient, post, send } from '../../../../../test/fixtures/raw-client.ts';
import { at, pipelineTests } from '../../app/pipeline.fixture.ts';

const { run, runFilters, finally: atEnd } = pipelineTests();

// Listeners let in loopback origins, that of the Host and the one of SERVICE_CORS_ORIGIN, whatever the filter says (mcp 6).
const CONSOLE = 'http://localhost:3000';
const OTHER = 'http://localhost:4000';

/** Headers of an answer that tell browsers what they may do. */
function cors(headers: Readonly<Record<string, unknown>>) {
  return Object.fromEntries(
    Object.entries(headers).filter(([name]) => name === 'vary' || name.startsWith('access-control-')),
  );
}

const ANSWER = '- { filter: static_response, status: 200, body: x }';

describe('cors', () => {
  it('names an allowed origin on every answer, errors included, and no other', async () => {
    const service = await runFilters(`
- { filter: cors, allow_origins: ['${CONSOLE}'], expose_headers: [Mcp-Session-Id, X-More], allow_credentials: true }
- filter: mcp
- filter: service_namespace
- filter: service_tool_list`);
    const allowed = {
      vary: 'Origin',
      'access-control-allow-origin': CONSOLE,
      'access-control-expose-headers': 'Mcp-Session-Id, X-More',
      'access-control-allow-credentials': 'true',
    };
    const { call } = modernClient(at(service, 'l', '/default/mcp'));
    const answers = [
      await call('tools/list', '{}', { origin: CONSOLE }),
      await call('no/such', '{}', { origin: CONSOLE }),
      await post(at(service, 'l', '/nowhere/mcp'), '{', { origin: CONSOLE }),
    ];
    expect(answers.map(({ status, headers }) => [status, cors(headers)])).toEqual([
      [200, allowed],
      [404, allowed],
      [400, allowed],
    ]);
    const { status, headers } = await call('tools/list', '{}', { origin: OTHER });
    expect([status, cors(headers)]).toEqual([200, { vary: 'Origin' }]);
    expect(cors((await call('tools/list')).headers)).toEqual({ vary: 'Origin' });
  });

  it('allows subdomains, at any depth, where an origin begins with a star', async () => {
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

  it('has * said as it is, whoever asks', async () => {
    const service = await runFilters(`- { filter: cors, allow_origins: ['*'] }\n${ANSWER}`);
    const senders: readonly Record<string, string>[] = [{ origin: CONSOLE }, {}];
    for (const headers of senders) {
      const answer = await send(at(service, 'l', '/'), 'GET', headers);
      expect(cors(answer.headers)).toEqual({ 'access-control-allow-origin': '*' });
    }
  });

  it('answers a preflight with what it allows, defaults where nothing is said', async () => {
    const service = await run(`
listeners:
  - { name: told, address: '127.0.0.1:0', filter_chains: [told] }
  - { name: silent, address: '127.0.0.1:0', filter_chains: [silent] }
filter_chains:
  - name: told
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
      const asked = { origin: CONSOLE, 'access-control-request-headers': 'x-one, x-many-a, x-other' };
      const { status, text, headers } = await send(at(service, listener, '/any'), 'OPTIONS', asked);
      return [status, text, cors(headers)];
    };
    expect(await preflight('told')).toEqual([
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
  ])('answers the preflight of another origin without a word of them, with %s %i', async (mode, status) => {
    const service = await runFilters(
      `- { filter: cors, allow_origins: ['${CONSOLE}'], disallowed_origin_mode: ${mode} }\n${ANSWER}`,
    );
    const answer = await send(at(service, 'l', '/'), 'OPTIONS', { origin: OTHER });
    expect([answer.status, cors(answer.headers)]).toEqual([status, { vary: 'Origin' }]);
  });

  it('has no say where the listener refuses an origin: a foreign one, and none', async () => {
    const filters = `- { filter: cors, allow_origins: ['https://console.example'], allow_null_origin: true }\n${ANSWER}`;
    const service = await runFilters(filters);
    for (const origin of ['https://console.example', 'null']) {
      expect((await send(at(service, 'l', '/'), 'GET', { origin })).status).toBe(403);
    }
    expect(service.log.filter((line) => line.includes('cors allows https://console.example, null'))).toHaveLength(0);
  });

  it('has the origin of SERVICE_CORS_ORIGIN in the place of its first', async () => {
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

  it('says it in the place of an upstream that says otherwise', async () => {
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
    const told = async (origin: string) => cors((await send(at(service, 'l', '/'), 'GET', { origin })).headers);
    expect(await told(CONSOLE)).toEqual({ vary: 'Accept, Origin', 'access-control-allow-origin': CONSOLE });
    expect(await told(OTHER)).toEqual({ vary: 'Accept, Origin' });
  });
});
