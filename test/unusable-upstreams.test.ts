import {
  createServer as createHttp,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type ServerResponse,
} from 'node:http';
import { createServer as createTcp, type Server, type Socket } from 'node:net';
import { createServer as createTls, getCACertificates, setDefaultCACertificates } from 'node:tls';
import { gzipSync } from 'node:zlib';
import { forward, forwardTest } from '@sluice/contract';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  expiredCertificate,
  localhostCertificate,
  untrustedCertificate,
} from '../packages/server/src/http/client/certificate.fixture.ts';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { listen, readBody } from './fixtures/http-server.ts';

/** An upstream that cannot be used: a forward without its name. */
interface Unusable {
  readonly address: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly proxy?: string;
}

const servers: Server[] = [];
const sockets = new Set<Socket>();

async function start(server: Server): Promise<number> {
  servers.push(server);
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket));
  });
  return listen(server, 0);
}

/** An upstream that answers each connection, once something was received, with these bytes, and closes it. */
function bytes(text: string) {
  return raw((socket) => socket.once('data', () => socket.end(text, 'latin1')));
}

function raw(accept: (socket: Socket) => void) {
  return async (): Promise<Unusable> => ({ address: `http://127.0.0.1:${await start(createTcp(accept))}/mcp` });
}

/** An HTTP server with this handler of requests, which have arrived. */
function http(handle: (response: ServerResponse, body: string, request: IncomingMessage) => void) {
  return async (): Promise<Unusable> => {
    const server = createHttp(async (request, response) => {
      handle(response, String(await readBody(request)), request);
    });
    return { address: `http://127.0.0.1:${await start(server)}/mcp` };
  };
}

/** An HTTP server with one answer to all requests. */
function answer(status: number, type: string | undefined, body: string | Buffer, headers: OutgoingHttpHeaders = {}) {
  return http((response) => {
    response.writeHead(status, { ...(type !== undefined && { 'content-type': type }), ...headers }).end(body);
  });
}

/** An HTTP server that answers requests with a JSON-RPC message made from theirs. */
function rpc(reply: (request: { readonly id?: unknown; readonly method?: string }) => object) {
  return http((response, body, { method }) => {
    if (method !== 'POST') response.writeHead(405).end();
    else response.writeHead(200, { 'content-type': JSON_TYPE }).end(JSON.stringify(reply(JSON.parse(body))));
  });
}

function tls(certificate: typeof localhostCertificate, host: string) {
  return async (): Promise<Unusable> => {
    const port = await start(createTls(certificate, (socket) => socket.on('error', () => undefined).end()));
    return { address: `https://${host}:${port}/mcp` };
  };
}

const page = (title: string) => `<!doctype html><html><head><title>${title}</title></head><body>…</body></html>`;
const JSON_TYPE = 'application/json';
const HTML = 'text/html';

/** Ways to be unusable. */
const CASES: Readonly<Record<string, () => Promise<Unusable>>> = {
  'nothing listens': async () => ({ address: 'http://127.0.0.1:9/mcp' }),
  'unknown host': async () => ({ address: 'http://upstream.invalid/mcp' }),
  'https to a port without TLS': async () => {
    const { address } = await answer(404, 'text/plain', '')();
    return { address: address.replace('http:', 'https:') };
  },
  'http to a port with TLS': async () => {
    const { address } = await tls(localhostCertificate, '127.0.0.1')();
    return { address: address.replace('https:', 'http:') };
  },
  'http to the HTTPS port of nginx': answer(
    400,
    HTML,
    '<html><head><title>400 The plain HTTP request was sent to HTTPS port</title></head></html>',
  ),
  'self-signed certificate': tls(untrustedCertificate, 'localhost'),
  'certificate of another host': tls(localhostCertificate, '127.0.0.1'),
  'expired certificate': tls(expiredCertificate, 'localhost'),
  'closes without an answer': raw((socket) => socket.once('data', () => socket.end())),
  'resets the connection': raw((socket) => socket.once('data', () => socket.resetAndDestroy())),
  'SSH server': raw((socket) => socket.write('SSH-2.0-OpenSSH_9.6\r\n')),
  'HTTP/2 only': bytes('\0\0\x12\x04\0\0\0\0\0\0\x03\0\0\0\x80\0\x04\0\x01\0\0\0\x05\0\xff\xff\xff'),
  'head with a space before a colon': bytes('HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\n{}'),
  'two lengths': bytes('HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}'),
  'head beyond the limit': bytes(`HTTP/1.1 200 OK\r\nSet-Cookie: ${'x'.repeat(200_000)}\r\n\r\n`),
  'body that ends early': bytes(
    'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"json',
  ),
  'redirect to another origin': answer(307, undefined, '', { location: 'https://login.example.com/?token=hidden' }),
  'redirect that changes the method': answer(301, undefined, '', { location: '/mcp/' }),
  'redirect without a target': answer(302, undefined, ''),
  'redirect loop': answer(308, undefined, '', { location: '/mcp' }),
  '400 of a firewall': answer(400, HTML, page('Bad Request')),
  '401 with a challenge': answer(401, undefined, '', {
    'www-authenticate': 'Bearer error="invalid_token", error_description="The token has expired"',
  }),
  '401 without a challenge': answer(401, JSON_TYPE, '{"message":"Unauthorized"}'),
  '403 of a firewall': answer(403, HTML, page('Attention Required! | Cloudflare'), { 'cf-ray': '8' }),
  '403 of credentials': answer(403, JSON_TYPE, '{"error":"insufficient_scope"}'),
  '403 of a host': answer(403, 'text/plain', 'Invalid Host header'),
  '404 page': answer(404, HTML, page('Error 404')),
  '405': answer(405, 'text/plain', 'Method Not Allowed', { allow: 'GET' }),
  '406': answer(406, JSON_TYPE, '{"error":"Not Acceptable"}'),
  '407': answer(407, 'text/plain', 'Proxy Authentication Required'),
  '410': answer(410, 'text/plain', 'Gone'),
  '411': answer(411, 'text/plain', 'Length Required'),
  '413': answer(413, HTML, page('413 Request Entity Too Large')),
  '415': answer(415, JSON_TYPE, '{"error":"Unsupported Media Type"}'),
  '421': answer(421, 'text/plain', 'Misdirected Request'),
  '426': answer(426, 'text/plain', 'Upgrade Required', { upgrade: 'h2c' }),
  '429': answer(429, 'text/plain', 'Too Many Requests', { 'retry-after': '30' }),
  '500': answer(500, 'text/plain', 'Internal Server Error'),
  '502': answer(502, HTML, page('502 Bad Gateway')),
  '503': answer(503, 'text/plain', 'no healthy upstream'),
  '504': answer(504, HTML, page('504 Gateway Time-out')),
  'web page': answer(200, HTML, page('Welcome to nginx!')),
  'login page': answer(200, HTML, page('Sign in')),
  'empty answer': answer(200, JSON_TYPE, ''),
  '202 to a request': answer(202, undefined, ''),
  text: answer(200, 'text/plain', 'It works!'),
  'binary data': answer(200, 'application/octet-stream', Buffer.from([0, 1, 2, 3, 255, 254, 0, 0])),
  'unknown content coding': answer(200, JSON_TYPE, 'xyz', { 'content-encoding': 'snappy' }),
  'truncated gzip': answer(200, JSON_TYPE, gzipSync('{"jsonrpc":"2.0"}'.repeat(9)).subarray(0, 20), {
    'content-encoding': 'gzip',
  }),
  'other JSON': answer(200, JSON_TYPE, '{"status":"ok","uptime":12}'),
  'answer to another request': rpc(() => ({ jsonrpc: '2.0', id: 'other', result: {} })),
  'event stream without an answer': answer(200, 'text/event-stream', ': hello\n\ndata: {"status":"ok"}\n\n'),
  'unknown version': rpc(({ id, method }) =>
    method === 'initialize'
      ? { jsonrpc: '2.0', id, result: { protocolVersion: '1999-01-01', capabilities: {}, serverInfo: {} } }
      : { jsonrpc: '2.0', id, error: { code: -32601, message: 'Method not found' } },
  ),
  'error to initialize': rpc(({ id }) => ({
    jsonrpc: '2.0',
    id,
    error: { code: -32603, message: 'database is down' },
  })),
  'HTTP+SSE transport': http((response, _body, { method }) => {
    if (method === 'POST') response.writeHead(404, { 'content-type': 'text/plain' }).end('Not Found');
    else {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('event: endpoint\ndata: /messages?sessionId=1\n\n');
    }
  }),
  'missing secret': async () => {
    const { address } = await answer(200, JSON_TYPE, '')();
    return { address, headers: { authorization: `Bearer \${env:SERVICE_SECRET_ABSENT}` } };
  },
  'proxy that does not listen': async () => ({ address: 'http://upstream.example/mcp', proxy: 'http://127.0.0.1:9' }),
  'proxy that requires credentials': async () => {
    const { address } = await answer(407, 'text/plain', '')();
    return { address: 'http://upstream.example/mcp', proxy: new URL(address).origin };
  },
  'tunnel that requires credentials': async () => {
    const { address } = await bytes('HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n')();
    return { address: 'https://upstream.example/mcp', proxy: new URL(address).origin };
  },
};

const NAMES = Object.keys(CASES);

let service: TestService;
/** `statusMessage` of each forward, without its retry. */
const messages = new Map<string, string>();

const nameOf = (name: string) => `f${NAMES.indexOf(name)}`;

const trusted = getCACertificates();

beforeAll(async () => {
  setDefaultCACertificates([...trusted, expiredCertificate.cert, localhostCertificate.cert]);
  service = await startTestService();
  const waiting = [...NAMES];
  const register = async () => {
    for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
      const unusable = await CASES[name]?.();
      const { status, data } = await service.manage('POST', '/forwards', { name: nameOf(name), ...unusable });
      expect([name, status]).toEqual([name, 201]);
      const { statusMessage = '', available } = forward.parse(data);
      expect([name, available]).toEqual([name, false]);
      messages.set(name, statusMessage.replace(/; retrying in [\d.]+ s$/, ''));
    }
  };
  // All at once, redirects would take longer than connecting may.
  await Promise.all(Array.from({ length: 4 }, register));
}, 60_000);

afterAll(async () => {
  setDefaultCACertificates(trusted);
  await service.stop();
  for (const socket of sockets) socket.destroy();
  for (const server of servers) server.close();
});

/** Ports differ in each run. */
function withoutPorts(text: string): string {
  return text.replaceAll(/(?<=127\.0\.0\.1:|localhost:)\d{4,5}\b/g, 'PORT');
}

it('each way to be unusable has a message of its own', async () => {
  const all = NAMES.map((name) => `${name}\n  ${withoutPorts(messages.get(name) ?? '')}\n`).join('\n');
  await expect(all).toMatchFileSnapshot('./unusable-upstreams.snapshot.txt');
});

describe('a test of the forward', () => {
  it.each(NAMES)('%s: has the same message, what was sent and received, and a remedy', async (name) => {
    const { data } = await service.manage('POST', '/forwards/test', { name: nameOf(name) });
    const { ok, steps } = forwardTest.parse(data);
    const failed = steps.find(({ status }) => status === 'failed');
    expect([ok, failed?.message]).toEqual([false, messages.get(name)]);
    expect(failed?.remedy).toMatch(/\w/);
    expect(failed?.message?.endsWith(`; ${failed.remedy}`)).toBe(true);
    expect(failed?.sent).toMatch(/\w/);
    expect(JSON.stringify(steps)).not.toContain('hidden');
  });
});
