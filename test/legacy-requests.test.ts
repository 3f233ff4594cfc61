import { createHash } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { responseParts, sendBytes } from './fixtures/raw-exchange.ts';
import { type Arrived, startTappedBackend, type TappedBackend } from './fixtures/tapped-backend.ts';

const HEAD = 'Host: localhost\r\nConnection: close\r\n';
const PREFIXES = [
  '/api/v1/service-catalog',
  '/api/v1/service-template',
  '/api/v1/data-store',
  '/api/v1/capabilities',
  '/api/v1/chat',
  '/api/v1/management/info',
  '/api/v1/management/statistics',
  '/api/v2/code-execution',
  '/api/v2/tool-calls',
];

let backend: TappedBackend;
let service: TestService;
let port: number;
beforeAll(async () => {
  backend = await startTappedBackend();
  service = await startTestService({ SERVICE_CLASSIC_URL: `${backend.url}/base/path/` });
  port = Number(new URL(service.management).port);
});
beforeEach(() => backend.clear());
afterAll(async () => {
  await service.stop(0);
  backend.close();
});

/** Headers of the transfer, and those that a proxy adds. */
const SLUICE_HEADERS = /^(?:host|connection|content-length|transfer-encoding|x-forwarded-(?:for|proto|host))$/i;

function valuesOf({ headers }: Arrived, name: string): string[] {
  return headers.filter((_, at) => at % 2 === 1 && headers[at - 1]?.toLowerCase() === name);
}

/** The parts of a request that must reach a backend unchanged. */
function comparableParts(arrived: Arrived, base: string) {
  const { method, target, headers, body } = arrived;
  return {
    method,
    target: base + target,
    headers: headers.filter((_, at) => !SLUICE_HEADERS.test(headers[at - (at % 2)] ?? '')),
    length: valuesOf(arrived, 'content-length'),
    coding: valuesOf(arrived, 'transfer-encoding'),
    body: createHash('sha256').update(body).digest('hex'),
  };
}

/** Sends the same bytes to the backend and to the service, and compares the received requests. */
async function compare(bytes: string | Buffer): Promise<Arrived> {
  await sendBytes(backend.port, bytes);
  await sendBytes(port, bytes);
  const [direct, passedOn] = backend.requests;
  if (!direct || !passedOn) throw new Error(`only ${backend.requests.length} requests arrived`);
  expect(comparableParts(passedOn, '')).toEqual(comparableParts(direct, '/base/path'));
  expect(backend.requests).toHaveLength(2);
  return passedOn;
}

test.for(PREFIXES)('%s and paths below it', async (prefix) => {
  for (const rest of ['/', '/a/b', '-more/x', '?q=1', 'x']) {
    backend.clear();
    await compare(`POST ${prefix}${rest} HTTP/1.1\r\n${HEAD}Content-Length: 2\r\n\r\nhi`);
  }
});

test.for(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'HEAD', 'PROPFIND', 'REPORT', 'MKCOL', 'QUERY', 'PURGE'])(
  'the method %s, with a body and without',
  async (method) => {
    await compare(`${method} /api/v1/chat HTTP/1.1\r\n${HEAD}Content-Length: 0\r\n\r\n`);
    backend.clear();
    await compare(`${method} /api/v1/chat HTTP/1.1\r\n${HEAD}Content-Length: 4\r\n\r\nbody`);
  },
);

// The backend does not know them either: its server answers 400, and what arrived counts.
test.for(['BREW', 'get', 'X-OWN', "!#$%&'*+.^_`|~"])('the unknown method %s', async (method) => {
  await sendBytes(port, `${method} /api/v1/chat?q=1 HTTP/1.1\r\n${HEAD}Content-Length: 4\r\n\r\nbody`);
  expect(backend.received.startsWith(`${method} /base/path/api/v1/chat?q=1 HTTP/1.1\r\n`)).toBe(true);
});

test.for([
  ['http://localhost/api/v1/chat?q=http://x/', '/api/v1/chat?q=http://x/'],
  ['HTTP://LOCALHOST/api/v2/tool-calls', '/api/v2/tool-calls'],
])('the absolute target %s is forwarded in origin form', async ([target, path]) => {
  await sendBytes(port, `POST ${target} HTTP/1.1\r\n${HEAD}Content-Length: 4\r\n\r\nbody`);
  expect(backend.requests).toMatchObject([{ method: 'POST', target: `/base/path${path}`, body: Buffer.from('body') }]);
});

test('an absolute target with another host is not forwarded', async () => {
  const response = await sendBytes(port, `GET http://other/api/v1/chat HTTP/1.1\r\n${HEAD}\r\n`);
  expect(response).toMatch(/^HTTP\/1\.1 400 /);
  expect(backend.received).toBe('');
});

test('a request without a body is forwarded without one', async () => {
  for (const method of ['GET', 'DELETE', 'OPTIONS', 'HEAD', 'PROPFIND']) {
    backend.clear();
    await compare(`${method} /api/v1/chat HTTP/1.1\r\n${HEAD}\r\n`);
  }
});

test.for([
  '?',
  '?a=1&a=2&&b',
  '?q=%2F%2f%00%ff%C3%BC+x%20y',
  "?q=/?:@!$&'()*+,;=-._~",
  '?q=[1]{2}|"<>^`\\',
  '?q=../../etc&p=/./',
  '/%2F%2f/x',
  '/%00',
  '/%FF%fe',
  '/%zz%',
  '/%252e%252e/x',
  "/:@!$&'()*+,;=-_~",
  '//double//slashes//',
  '/a.b/..c/d../...',
  '/.well-known',
  '/name%20with%20blanks/na%C3%AFve',
  `/${'x'.repeat(8_000)}`,
])('the request target ending in %s is unchanged', async (rest) => {
  await compare(`GET /api/v1/data-store${rest} HTTP/1.1\r\n${HEAD}\r\n`);
});

test('headers keep their order, case, duplicates, empty values and all allowed bytes', async () => {
  const headers =
    'x-oDD-cASE: 1\r\nX-Twice: a\r\nx-twice: b\r\nX-Empty:\r\nX-Blank: \t \r\nX-Tab: a\tb\r\nX-Latin: gr\xfc\xdfe\r\n' +
    "Cookie: a=1\r\nCookie: b=2\r\nAuthorization: Bearer x.y.z\r\nAccept-Encoding: gzip, br\r\n!#$%&'*+-.^_`|~: t\r\n" +
    'User-Agent: odd (1)\r\nOrigin: http://localhost:1\r\nRange: bytes=0-1\r\nIf-None-Match: W/"x"\r\n' +
    'Content-Type: text/x; a="b"\r\nX-Long: ';
  const arrived = await compare(
    Buffer.from(
      `POST /api/v1/chat HTTP/1.1\r\n${HEAD}${headers}${'y'.repeat(6_000)}\r\nContent-Length: 1\r\n\r\n1`,
      'latin1',
    ),
  );
  expect(valuesOf(arrived, 'x-twice')).toEqual(['a', 'b']);
  expect(valuesOf(arrived, 'x-latin')).toEqual(['gr\xfc\xdfe']);
});

const BINARY = Buffer.from(Array.from({ length: 70_000 }, (_, at) => (at * 7 + (at >> 8)) % 256));
const GZIPPED = gzipSync(BINARY);

test.for([
  ['binary bytes', '', BINARY],
  ['compressed bytes', 'Content-Encoding: gzip\r\n', GZIPPED],
  ['a body that is not compressed despite its Content-Encoding', 'Content-Encoding: gzip\r\n', Buffer.from('plain')],
  ['JSON with unusual notation', 'Content-Type: application/json\r\n', Buffer.from('{"n": 1.0, "n":1e400}\r\n')],
  ['nothing', '', Buffer.alloc(0)],
] as const)('a body of %s, with its length and in chunks', async ([_name, headers, body]) => {
  const head = (framing: string) =>
    Buffer.from(`PUT /api/v1/data-store/x HTTP/1.1\r\n${HEAD}${headers}${framing}\r\n\r\n`);
  await compare(Buffer.concat([head(`Content-Length: ${body.length}`), body]));
  backend.clear();
  const chunks: Buffer[] = [];
  for (let at = 0; at < body.length; at += 9_999) {
    const piece = body.subarray(at, at + 9_999);
    chunks.push(Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n'));
  }
  await compare(Buffer.concat([head('Transfer-Encoding: chunked'), ...chunks, Buffer.from('0\r\n\r\n')]));
});

test('100-continue is answered by the service, not by the backend', async () => {
  const expecting = `POST /api/v1/chat HTTP/1.1\r\n${HEAD}Expect: 100-continue\r\nContent-Length: 2\r\n\r\nhi`;
  const response = await sendBytes(port, expecting);
  expect(response).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK\r\n/);
  expect(backend.requests[0]?.body.toString()).toBe('hi');
  expect(valuesOf(backend.requests[0] ?? { method: '', target: '', headers: [], body: BINARY }, 'expect')).toEqual([]);
});

test.for([
  ['nobody', '', ['127.0.0.1'], ['http'], ['localhost']],
  [
    'a proxy',
    'X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: localhost:9000\r\n',
    ['192.0.2.1, 127.0.0.1'],
    ['https'],
    ['localhost:9000'],
  ],
  [
    'two proxies',
    'x-forwarded-for: 192.0.2.1\r\nX-FORWARDED-FOR: 192.0.2.2, 192.0.2.3\r\n',
    ['192.0.2.1, 192.0.2.2, 192.0.2.3, 127.0.0.1'],
    ['http'],
    ['localhost'],
  ],
] as const)('the origin of a request is set once, when %s set it before', async ([_name, sent, ...expected]) => {
  await sendBytes(port, `GET /api/v1/chat HTTP/1.1\r\n${HEAD}${sent}\r\n`);
  const [arrived] = backend.requests;
  if (!arrived) throw new Error('nothing arrived');
  const output = ['for', 'proto', 'host'].map((what) => valuesOf(arrived, `x-forwarded-${what}`));
  expect([...output, valuesOf(arrived, 'host')]).toEqual([...expected, [`127.0.0.1:${backend.port}`]]);
});

test.for([
  '/api/v1/chat/../tools',
  '/api/v1/chat/..',
  '/api/v1/chat/./x',
  '/api/v1/chat/.',
  '/api/v1/chat/%2e%2e/tools',
  '/api/v1/chat/%2E./tools',
  '/api/v1/chat/.%2e/tools',
  '/api/v1/chat/..%2ftools',
  '/api/v1/chat%2f..%2Ftools',
  '/api/v1/chat/..\\tools',
  '/api/v1/chat\\..\\tools',
  '/api/v1/chat/x%5c..%5C..',
  '/api/v1/chat/..;/tools',
  '/api/v1/chat/..;x=1/..;y/tools',
  '/api/v1/chat/x/../../../../../admin?q=1',
  '/api/v1/management/statistics/../info',
])('%s is ambiguous and has no route', async (target) => {
  for (const method of ['GET', 'POST']) {
    const { statusLine, body } = responseParts(await sendBytes(port, `${method} ${target} HTTP/1.1\r\n${HEAD}\r\n`));
    expect(statusLine).toBe('HTTP/1.1 400 Bad Request');
    expect(JSON.parse(body.toString())).toMatchObject({ data: null, error: { code: 'BAD_REQUEST' } });
  }
  expect(backend.requests).toEqual([]);
});

test.for([
  '/api/v1/tools/../chat',
  '/api/v1/tools/%2e%2e/chat',
  '/api/v1/ch%61t',
  '/API/v1/chat',
  '//api/v1/chat',
  '/./api/v1/chat',
  '/api//v1/chat',
  '/x/../api/v1/chat',
])('%s is not proxied to the backend', async (target) => {
  const { statusLine } = responseParts(await sendBytes(port, `GET ${target} HTTP/1.1\r\n${HEAD}\r\n`));
  expect(statusLine).toBe('HTTP/1.1 404 Not Found');
  expect(backend.requests).toEqual([]);
});

test.for([
  ['GET', '/api/v1/management/statistics', false],
  ['GET', '/api/v1/management/statistics/', false],
  ['GET', '/api/v1/management/statistics?x=1', false],
  ['HEAD', '/api/v1/management/statistics', false],
  ['OPTIONS', '/api/v1/management/statistics', false],
  ['POST', '/api/v1/management/statistics', true],
  ['PUT', '/api/v1/management/statistics/', true],
  ['PATCH', '/api/v1/management/statistics?x=1', true],
  ['DELETE', '/api/v1/management/statistics', true],
  ['PROPFIND', '/api/v1/management/statistics', true],
  ['GET', '/api/v1/management/statistics/tools', true],
  ['GET', '/api/v1/management/statistics//', true],
  ['GET', '/api/v1/management/statistics-of', true],
  ['GET', '/api/v1/management/information', true],
  ['GET', '/api/v1/management/inf', false],
  ['GET', '/api/v1/tool-calls', false],
  ['GET', '/api/v2/tool-calls', true],
  ['GET', '/api/v2/tool-call', false],
] as const)('%s %s: the backend’s? %s', async ([method, target, passedOn]) => {
  await sendBytes(port, `${method} ${target} HTTP/1.1\r\n${HEAD}\r\n`);
  expect(backend.requests.map((arrived) => arrived.target)).toEqual(passedOn ? [`/base/path${target}`] : []);
});

test('a CORS preflight is answered here, also for calls that go to the backend', async () => {
  const preflight = 'Origin: http://localhost:3000\r\nAccess-Control-Request-Method: PATCH\r\n';
  const response = responseParts(await sendBytes(port, `OPTIONS /api/v1/chat HTTP/1.1\r\n${HEAD}${preflight}\r\n`));
  expect(response.statusLine).toBe('HTTP/1.1 204 No Content');
  expect(response.headers).toContain('access-control-allow-origin: *');
  expect(backend.requests).toEqual([]);
});

test('a foreign host or origin is not forwarded to the backend', async () => {
  for (const headers of ['Host: evil.example\r\n', 'Host: localhost\r\nOrigin: https://evil.example\r\n']) {
    const request = `POST /api/v1/chat HTTP/1.1\r\n${headers}Connection: close\r\nContent-Length: 0\r\n\r\n`;
    expect(await sendBytes(port, request)).toMatch(/^HTTP\/1\.1 403 /);
  }
  expect(backend.requests).toEqual([]);
});
