import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { listen } from './fixtures/http-server.ts';
import { readAll, responseParts, sendBytes } from './fixtures/raw-exchange.ts';
import { type BackendHandler, startTappedBackend, type TappedBackend } from './fixtures/tapped-backend.ts';

const HEAD = 'Host: localhost\r\nConnection: close\r\n';
const GET = `GET /api/v2/tool-calls HTTP/1.1\r\n${HEAD}\r\n`;

/** Response of the backend; changed by each test. */
let result: BackendHandler;
let backend: TappedBackend;
let service: TestService;
let port: number;
beforeAll(async () => {
  backend = await startTappedBackend((arrived, response, incoming) => {
    response.sendDate = false;
    result(arrived, response, incoming);
  });
  service = await startTestService({ SERVICE_CLASSIC_URL: backend.url });
  port = Number(new URL(service.management).port);
});
afterAll(async () => {
  await service.stop(0);
  backend.close();
});

const LENGTH = /^content-length:/i;
/** Lines that belong to the transfer, and the one added by the service. */
const SLUICE_HEADERS = /^(?:connection|keep-alive|transfer-encoding|access-control-allow-origin):/i;

/** Requests the same bytes from the backend and through the service, and compares the responses. */
async function compare(bytes = GET) {
  const [direct, passedOn] = [
    responseParts(await sendBytes(backend.port, bytes)),
    responseParts(await sendBytes(port, bytes)),
  ];
  const comparableParts = ({ statusLine, headers, body }: typeof direct) => ({
    statusLine,
    // The service sends the length after all other lines; the order of different headers has no meaning (RFC 9110 5.3).
    length: headers.filter((line) => LENGTH.test(line)),
    headers: headers.filter((line) => !SLUICE_HEADERS.test(line) && !LENGTH.test(line)),
    body: body.toString('latin1'),
  });
  expect(comparableParts(passedOn)).toEqual(comparableParts(direct));
  expect(passedOn.headers.filter((line) => /^access-control-allow-origin/i.test(line))).toEqual([
    'access-control-allow-origin: *',
  ]);
  return passedOn;
}

test.for([
  200, 201, 202, 203, 206, 299, 300, 400, 401, 404, 405, 409, 418, 429, 451, 499, 500, 501, 502, 503, 504, 599,
])('status %s with its reason phrase, headers and body', async (status) => {
  result = (_arrived, response) => response.writeHead(status, { 'X-A': 'b', 'Content-Length': 4 }).end('{"a"');
  await compare();
  result = (_arrived, response) => response.writeHead(status, 'Words of  its own!', { 'X-A': 'b' }).end('{"a"');
  expect((await compare()).statusLine).toBe(`HTTP/1.1 ${status} Words of  its own!`);
});

test.for([301, 302, 303, 304, 307, 308])('status %s is forwarded and not followed', async (status) => {
  for (const location of ['/elsewhere', 'https://other.example/x?y', `${backend.url}/api/v1/chat`]) {
    const before = backend.requests.length;
    result = (_arrived, response) => response.writeHead(status, { Location: location }).end();
    expect((await compare()).headers).toContain(`Location: ${location}`);
    expect(backend.requests).toHaveLength(before + 2);
  }
});

test.for([
  ['204', 204, {}],
  ['204 for which a length is given', 204, { ETag: '"x"' }],
  ['304', 304, { ETag: '"x"' }],
  ['304 with the length of what has not changed', 304, { 'Content-Length': 1234 }],
  ['205', 205, { 'Content-Length': 0 }],
] as const)('%s has no body, and the connection stays open', async ([_name, status, headers]) => {
  result = (_arrived, response) => response.writeHead(status, headers).end();
  expect((await compare()).body).toHaveLength(0);
  const stored = GET.replace('Connection: close\r\n', '');
  const both = await sendBytes(port, stored + GET);
  expect(both.match(/HTTP\/1\.1 \d+/g)).toEqual([`HTTP/1.1 ${status}`, `HTTP/1.1 ${status}`]);
});

test.for([
  ['a length', { 'Content-Length': 1234, 'Content-Type': 'a/b' }],
  ['no length', { 'Content-Type': 'a/b' }],
] as const)('HEAD of a response with %s has the same head and no body', async ([_name, headers]) => {
  result = (_arrived, response) => response.writeHead(200, headers).end();
  const { body } = await compare(GET.replace('GET', 'HEAD'));
  expect(body).toHaveLength(0);
});

test('headers keep their order, case, duplicates, empty values and all allowed bytes', async () => {
  result = (_arrived, response) => {
    const lines = [
      'x-oDD-cASE',
      '1',
      'Set-Cookie',
      'a=1; Path=/',
      'X-Empty',
      '',
      'set-cookie',
      'b=2',
      'X-L',
      'gr\xfc\xdfe',
    ];
    const more = [
      'Vary',
      'Accept',
      'WWW-Authenticate',
      'Basic',
      'WWW-Authenticate',
      'Bearer',
      'Date',
      'yesterday',
      'Server',
      's',
    ];
    response.writeHead(200, [...lines, ...more, 'Content-Type', 'text/x; a="b"', 'Content-Length', '2']).end('hi');
  };
  const { headers } = await compare();
  expect(headers.filter((line) => /^set-cookie/i.test(line))).toEqual(['Set-Cookie: a=1; Path=/', 'set-cookie: b=2']);
  expect(headers).toContain('Date: yesterday');
});

test('hop-by-hop headers, including those listed in Connection, are not forwarded', async () => {
  result = (_arrived, response) => {
    const own = [
      'Connection',
      'X-Mine, keep-alive',
      'X-Mine',
      '1',
      'Keep-Alive',
      'timeout=7',
      'Proxy-Authenticate',
      'Basic',
    ];
    response
      .writeHead(200, [...own, 'Upgrade', 'h2c', 'TE', 'x', 'Proxy-Odd', '1', 'X-Other', '2', 'Content-Length', '0'])
      .end();
  };
  const { headers } = responseParts(await sendBytes(port, GET));
  expect(headers).toEqual(['X-Other: 2', 'access-control-allow-origin: *', 'Content-Length: 0', 'Connection: close']);
});

test("the backend's CORS headers are replaced by those of the service", async () => {
  result = (_arrived, response) =>
    response
      .writeHead(200, ['Access-Control-Allow-Origin', 'https://other.example', 'ACCESS-CONTROL-ALLOW-ORIGIN', 'null'])
      .end();
  await compare();
  const own = await startTestService({ SERVICE_CLASSIC_URL: backend.url, SERVICE_CORS_ORIGIN: 'https://ui.example' });
  onTestFinished(() => own.stop(0));
  const { headers } = responseParts(await sendBytes(Number(new URL(own.management).port), GET));
  expect(headers.filter((line) => /^(?:access-control|vary)/i.test(line))).toEqual([
    'access-control-allow-origin: https://ui.example',
    'vary: Origin',
  ]);
});

const BINARY = Buffer.from(Array.from({ length: 70_000 }, (_, at) => (at * 7 + (at >> 8)) % 256));

test.for([
  ['binary bytes', {}, BINARY],
  ['gzip', { 'Content-Encoding': 'gzip' }, gzipSync(BINARY)],
  ['brotli', { 'Content-Encoding': 'br' }, brotliCompressSync(BINARY)],
  ['a body that is not compressed despite its Content-Encoding', { 'Content-Encoding': 'gzip' }, Buffer.from('plain')],
] as const)('a body of %s, with its length and in chunks', async ([_name, headers, body]) => {
  result = (_arrived, response) => response.writeHead(200, { ...headers, 'Content-Length': body.length }).end(body);
  expect((await compare()).body.equals(body)).toBe(true);
  result = (_arrived, response) => {
    response.writeHead(200, headers).write(body.subarray(0, 100));
    response.end(body.subarray(100));
  };
  expect((await compare()).body.equals(body)).toBe(true);
});

test('informational responses and trailers are not forwarded', async () => {
  result = (_arrived, response) => {
    response.writeEarlyHints({ link: '</style.css>; rel=preload' });
    response.writeProcessing();
    response.writeHead(200, { Trailer: 'X-Sum', 'X-A': 'b' });
    response.write('hello');
    response.addTrailers({ 'X-Sum': '1' });
    response.end();
  };
  expect(await sendBytes(backend.port, GET)).toMatch(/^HTTP\/1\.1 103 .*X-Sum: 1\r\n\r\n$/s);
  const passedOn = responseParts(await sendBytes(port, GET));
  expect(passedOn).toMatchObject({ statusLine: 'HTTP/1.1 200 OK', trailers: '' });
  expect(passedOn.headers).toEqual([
    'X-A: b',
    'access-control-allow-origin: *',
    'Connection: close',
    'Transfer-Encoding: chunked',
  ]);
  expect(passedOn.body.toString()).toBe('hello');
});

test('an HTTP/1.0 client gets a response of unknown length without chunks', async () => {
  result = (_arrived, response) => {
    response.write('he');
    response.end('llo');
  };
  const text = await sendBytes(port, GET.replace('HTTP/1.1', 'HTTP/1.0'));
  expect(text.endsWith('\r\n\r\nhello')).toBe(true);
});

/** A request through the service, up to the head of its response. */
async function open(path: string): Promise<IncomingMessage> {
  const sent = request({ port, host: '127.0.0.1', path, headers: { accept: 'text/event-stream' }, agent: false });
  onTestFinished(() => void sent.destroy());
  sent.end();
  const [head] = await once(sent, 'response');
  return head;
}

test('an event stream is forwarded event by event: each arrives before the next is sent', async () => {
  const started = Promise.withResolvers<ServerResponse>();
  result = (_arrived, response) => {
    response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' }).flushHeaders();
    started.resolve(response);
  };
  // The head arrives before the first event.
  const head = await open('/api/v2/tool-calls/notifications');
  expect(head.headers['content-type']).toBe('text/event-stream');
  const stream = await started.promise;
  for (let round = 0; round < 100; round++) {
    // Pieces of all kinds, also halves of an event.
    const piece = round % 3 === 0 ? ': comment\n\n' : round % 3 === 1 ? `id: ${round}\ndata: {"a"` : ':1.0}\n\n';
    const arrives = once(head, 'data');
    stream.write(piece);
    const [read] = await arrives;
    expect(read.toString()).toBe(piece);
  }
  const ended = once(head, 'end');
  stream.end();
  head.resume();
  await ended;
  expect(head.complete).toBe(true);
});

test('a client that disconnects from an event stream ends it at the backend', async () => {
  const closed = Promise.withResolvers<void>();
  result = (_arrived, response) => {
    response.on('close', () => closed.resolve());
    response.writeHead(200, { 'Content-Type': 'text/event-stream' }).flushHeaders();
  };
  const head = await open('/api/v2/tool-calls/notifications');
  head.on('error', () => undefined).destroy();
  await closed.promise;
});

test('an aborted response is aborted for the client too', async () => {
  result = (_arrived, response) => {
    response.writeHead(200, { 'Content-Length': 10 }).write('half', () => response.destroy());
  };
  const withLength = await sendBytes(port, GET);
  expect(withLength.endsWith('\r\n\r\nhalf')).toBe(true);
  result = (_arrived, response) => {
    response.writeHead(200, {}).write('half', () => response.destroy());
  };
  const inChunks = await sendBytes(port, GET);
  expect(inChunks.endsWith('\r\n4\r\nhalf\r\n')).toBe(true);
});

test('an early response of the backend is forwarded before the request is complete', async () => {
  const server = createServer((_incoming, response) => response.writeHead(413, { 'Content-Length': 3 }).end('no!'));
  const early = await listen(server, 0);
  const own = await startTestService({ SERVICE_CLASSIC_URL: `http://127.0.0.1:${early}` });
  onTestFinished(async () => {
    await own.stop(0);
    server.closeAllConnections();
    server.close();
  });
  const socket = connect(Number(new URL(own.management).port), '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  socket.write('POST /api/v1/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\nbegun');
  const [first] = await once(socket, 'data');
  expect(first.toString()).toMatch(/^HTTP\/1\.1 413 /);
  // The rest is drained, and the connection stays open.
  const all = readAll(socket);
  socket.write(Buffer.alloc(1_000_000 - 5));
  socket.write(`GET /healthz HTTP/1.1\r\n${HEAD}\r\n`);
  expect(await all).toMatch(/HTTP\/1\.1 200 OK/);
});
