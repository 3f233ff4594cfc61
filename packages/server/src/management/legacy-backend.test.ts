import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage } from 'node:http';
import { createServer as createNetServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { listen } from '../../../../test/fixtures/http-server.ts';
import { send } from '../../../../test/fixtures/raw-client.ts';
import { sendBytes } from '../../../../test/fixtures/raw-exchange.ts';
import { startTestService } from '../../testing/service.ts';
import { startApi } from './api.fixture.ts';

const PATHS = [
  '/api/v1/service-catalog',
  '/api/v1/service-template/x',
  '/api/v1/data-store?a=%20b',
  '/api/v1/capabilities',
  '/api/v1/chat/completions',
  '/api/v1/management/info',
  '/api/v1/management/statistics/x',
  '/api/v2/code-execution-engine/e/l',
  '/api/v2/tool-calls/notifications',
];

/** A legacy backend that returns the received request. */
async function backend(status = 201) {
  const seen: { head: IncomingMessage; body: string }[] = [];
  const server = createServer(async (head, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of head) chunks.push(chunk);
    seen.push({ head, body: Buffer.concat(chunks).toString() });
    const theirs = { 'Access-Control-Allow-Origin': 'https://other', 'Access-Control-Allow-Credentials': 'true' };
    response.writeHead(status, { 'X-Odd-Case': 'a', ...theirs }).end('[1.0]');
  });
  const port = await listen(server, 0);
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return { seen, url: `http://127.0.0.1:${port}/legacy` };
}

async function serviceWith(url: string) {
  const service = await startTestService({ SERVICE_CLASSIC_URL: url });
  onTestFinished(() => service.stop(0));
  return service;
}

test.each(PATHS)('%s is proxied with method, query, headers and body, and its response returned', async (path) => {
  const { seen, url } = await backend();
  const { management } = await serviceWith(url);
  const headers = { 'content-type': 'text/x', connection: 'x-mine', 'x-mine': '1', te: 'trailers', authorization: 'a' };
  const answer = await send(`${management}${path}`, 'PATCH', headers, '{"n": 1.0}');
  expect([answer.status, answer.text]).toEqual([201, '[1.0]']);
  expect(answer.headers).toMatchObject({ 'x-odd-case': 'a', 'access-control-allow-origin': '*' });
  expect(Object.keys(answer.headers)).not.toContain('access-control-allow-credentials');
  const [{ head, body } = { head: undefined, body: '' }] = seen;
  expect([head?.method, head?.url, body]).toEqual(['PATCH', `/legacy${path}`, '{"n": 1.0}']);
  expect(head?.headers).toMatchObject({
    'content-type': 'text/x',
    authorization: 'a',
    host: new URL(url).host,
    'x-forwarded-for': '127.0.0.1',
    'x-forwarded-proto': 'http',
    'x-forwarded-host': new URL(management).host,
  });
  expect(Object.keys(head?.headers ?? {})).not.toContain('x-mine');
  expect(Object.keys(head?.headers ?? {})).not.toContain('te');
});

test('forwarding headers of a proxy in front are passed on if they are valid', async () => {
  const { seen, url } = await backend();
  const service = await startTestService({ SERVICE_CLASSIC_URL: url, SERVICE_ALLOWED_HOSTS: 'console.example' });
  onTestFinished(() => service.stop(0));
  const ask = (proto: string, host: string) =>
    send(`${service.management}${PATHS[0]}`, 'GET', { 'x-forwarded-proto': proto, 'x-forwarded-host': host });
  await ask('https', 'console.example');
  await ask('gopher', 'console.example');
  const refused = await ask('https', 'evil.example');
  expect([refused.status, JSON.parse(refused.text).error.code]).toEqual([403, 'FORBIDDEN']);
  expect(refused.text).toContain('X-Forwarded-Host not allowed: evil.example; set SERVICE_ALLOWED_HOSTS');
  expect(seen.map(({ head }) => [head?.headers['x-forwarded-proto'], head?.headers['x-forwarded-host']])).toEqual([
    ['https', 'console.example'],
    ['http', 'console.example'],
  ]);
});

test('statistics are read from Sluice, and written to the backend', async () => {
  const { seen, url } = await backend(404);
  const { management } = await serviceWith(url);
  const path = `${management}/api/v1/management/statistics`;
  expect((await send(path, 'GET')).status).toBe(200);
  expect((await send(path, 'POST')).status).toBe(404);
  expect(seen).toHaveLength(1);
});

test('a request is logged as proxied only if it was sent to the backend', async () => {
  const { url } = await backend();
  const { host } = new URL(url);
  for (const [address, path, ...told] of [
    [url, '/api/v1/chat', 201, 'proxied', host],
    // The backend rejects what it cannot parse.
    [url, '/api/v1/chat/%zz', 201, 'proxied', host],
    [url, '/api/v1/chat/../x', 400, 'rejected', undefined],
    ['', '/api/v1/chat', 503, 'rejected', undefined],
    // Prefixes are matched before the path is decoded.
    ['', '/api/v1/management/statistics/%', 503, 'rejected', undefined],
  ] as const) {
    const service = await serviceWith(address);
    const port = Number(new URL(service.management).port);
    await sendBytes(port, `GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
    const logged = () => {
      const lines = service.log.map((text): Record<string, unknown> => JSON.parse(text));
      return lines
        .filter(({ target }) => target === 'service::mgmt::access')
        .map((line) => [line.path, line.status, line.handled, line.upstream]);
    };
    await expect.poll(logged).toEqual([[path, ...told]]);
  }
});

test.each(PATHS)('%s is 503 while there is no backend', async (path) => {
  const { management } = await serviceWith('');
  const answer = await send(`${management}${path}`, 'POST', {}, 'body');
  expect(answer.status).toBe(503);
  expect(JSON.parse(answer.text)).toMatchObject({ data: null, error: { code: 'UNAVAILABLE' } });
});

test('an unreachable backend is 502', async () => {
  // A port that the system never assigns.
  const { management, log } = await serviceWith('http://127.0.0.1:2');
  const answer = await send(`${management}/api/v1/chat`, 'GET');
  expect(answer.status).toBe(502);
  const told = log.map((line) => JSON.parse(line)).find(({ msg }) => /^legacy backend: /.test(msg));
  expect(told).toMatchObject({ level: 'warn', target: 'service::mgmt', msg: expect.stringContaining('ECONNREFUSED') });
  expect(JSON.parse(answer.text)).toMatchObject({ data: null, error: { code: 'BAD_GATEWAY' } });
});

/** Starts a backend that calls `onRequest` with the connection of each request; returns its address. */
async function rawBackend(onRequest: (socket: Socket) => void): Promise<string> {
  const server = createNetServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => onRequest(socket));
    onTestFinished(() => void socket.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const address = server.address();
  return `http://127.0.0.1:${typeof address === 'object' && address?.port}`;
}

const LIMIT_MS = 300;

test('a backend that does not start its response in time is 502', async (context) => {
  const classicUrl = await rawBackend(() => undefined);
  const api = await startApi(context, { classicUrl, firstByteTimeoutMs: LIMIT_MS });
  const answer = await api.call('POST', '/api/v1/chat', 'body');
  expect(answer).toMatchObject({ status: 502, data: null, error: { code: 'BAD_GATEWAY' } });
  expect(answer.headers['access-control-allow-origin']).toBe('*');
});

test('a response that has started has no timeout, neither for headers nor for the body', async (context) => {
  const asked = Promise.withResolvers<Socket>();
  const classicUrl = await rawBackend(asked.resolve);
  const api = await startApi(context, { classicUrl, firstByteTimeoutMs: LIMIT_MS });
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const answering = send(`${api.url}/api/v1/chat`, 'GET');
  const socket = await asked.promise;
  for (const bytes of ['HTTP/1.1 200', ' OK\r\nContent-Length: 4\r\n\r\n', 'do', 'ne']) {
    socket.write(bytes);
    // Once a later request is answered, everything written before has been read.
    expect((await send(`${api.url}/api/v1/namespaces`, 'GET')).status).toBe(200);
    vi.advanceTimersByTime(2 * LIMIT_MS);
  }
  const answer = await answering;
  expect([answer.status, answer.text]).toEqual([200, 'done']);
});

test.each(['GARBAGE\r\n\r\n', '', 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab'])(
  'a backend that answers %j is 502',
  async (bytes) => {
    const { management } = await serviceWith(await rawBackend((socket) => socket.end(bytes)));
    const answer = await send(`${management}/api/v1/chat`, 'GET');
    expect([answer.status, JSON.parse(answer.text).error.code]).toEqual([502, 'BAD_GATEWAY']);
  },
);

test('documents of the backend have an origin of their own, with identity only', async () => {
  const theirs = { 'Content-Type': 'text/html', 'Content-Security-Policy': 'sandbox allow-scripts allow-same-origin' };
  const server = createServer((_head, response) => response.writeHead(200, theirs).end('<script>'));
  const url = `http://127.0.0.1:${await listen(server, 0)}`;
  const folder = await mkdtemp(join(tmpdir(), 'sluice-legacy-'));
  const file = join(folder, 'service.yaml');
  await writeFile(file, 'identity: { proxy: { trusted: [127.0.0.1/32] } }');
  onTestFinished(async () => {
    server.close();
    await rm(folder, { recursive: true });
  });
  for (const [argv, policy] of [
    [['--service-config', file], `${theirs['Content-Security-Policy']}, sandbox`],
    [[], theirs['Content-Security-Policy']],
  ] as const) {
    const service = await startTestService({ SERVICE_CLASSIC_URL: url }, argv);
    const { headers } = await send(`${service.management}${PATHS[0]}`, 'GET');
    // With several sandboxes, the last one counts.
    expect(headers['content-security-policy']).toBe(policy);
    await service.stop(0);
  }
});
