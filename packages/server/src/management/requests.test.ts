import { once } from 'node:events';
import { connect } from 'node:net';
import { beforeAll, expect, test } from 'vitest';
import { responseParts, sendBytes } from '../../../../test/fixtures/raw-exchange.ts';
import { commit } from '../registry/fixtures/commit.ts';
import { createEntry } from '../registry/operations.ts';
import { type SharedApi, startApi, startSharedApi } from './api.fixture.ts';

let api: SharedApi;
beforeAll(async () => {
  api = await startSharedApi();
  await api.call('POST', '/api/v1/namespaces', { name: 'ops' });
  // Long enough to be sent in slices.
  await commit(api.registry, (draft) => {
    for (let at = 0; at < 201; at++) createEntry(draft, 'prompt', { name: `prompt-${at}` });
  });
  return () => api.close();
});

const HOST = 'Host: localhost\r\n';
const CLOSE = `${HOST}Connection: close\r\n`;

/** Sends requests on one connection and returns the responses, without the date. */
async function exchange(...requests: string[]): Promise<string> {
  const text = await sendBytes(api.port, requests.join(''));
  return text.replaceAll(/^date: .*\r\n/gim, '');
}

const get = (path: string, head = CLOSE, version = '1.1') => `GET ${path} HTTP/${version}\r\n${head}\r\n`;
const withBody = (method: string, path: string, body: string, head = CLOSE) =>
  `${method} ${path} HTTP/1.1\r\n${head}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
const statuses = (text: string) => text.match(/HTTP\/1\.1 \d{3}/g);

test.for([
  '/healthz',
  '/openapi.json',
  '/api/docs',
  '/api/docs/static/index.css',
  '/api/v1/namespaces',
  '/api/v1/namespaces/none',
  '/nothing',
  '/%zz',
])('HEAD %s has the head of the response to GET', async (path) => {
  const [head = ''] = (await exchange(get(path))).split('\r\n\r\n', 1);
  expect(await exchange(get(path).replace('GET', 'HEAD'))).toBe(`${head}\r\n\r\n`);
});

test.for(['/api/v1/prompts', '/metrics', '/api/v1/tool-calls/notifications'])(
  'HEAD %s ends without a body, although the response to GET is streamed',
  async (path) => {
    const text = await exchange(get(path).replace('GET', 'HEAD'));
    expect(text).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
    expect(text).not.toMatch(/^transfer-encoding:/im);
    expect(text.split('\r\n\r\n')[1]).toBe('');
  },
);

test('a long list is chunked, and ends with the connection for an HTTP/1.0 client', async () => {
  expect(await exchange(get('/api/v1/prompts'))).toMatch(/^transfer-encoding: chunked\r$/im);
  const [head = '', body = ''] = (await exchange(get('/api/v1/prompts', HOST, '1.0'))).split('\r\n\r\n');
  expect(head).not.toMatch(/^(transfer-encoding|content-length):/im);
  expect(JSON.parse(body).data).toHaveLength(201);
});

test.for([
  ['/api/v1/namespaces/%6fps', 200],
  ['/api/v1/%6eamespaces/ops', 200],
  ['/api/v1/namespaces/ops/', 200],
  ['/api/v1/namespaces/ops//', 404],
  ['/api/v1/namespaces/ops?x=%zz', 200],
  ['/api/v1/namespaces/ops?', 200],
  ['/api/v1/namespaces/ops;x=1', 404],
  ['/api/v1/namespaces/OPS', 404],
  ['/api/v1/Namespaces/ops', 404],
  ['/api/v1//namespaces', 404],
  ['/api/v1/namespaces/ops%', 400],
  ['/api/v1/namespaces/%E0%A4%A', 400],
  ['/api/v1/namespaces/%ff', 400],
  ['/%zz', 400],
  [`/api/v1/namespaces/${'a'.repeat(10_000)}`, 404],
] as const)('%s is %i', async ([path, status]) => {
  expect(statuses(await exchange(get(path)))).toEqual([`HTTP/1.1 ${status}`]);
});

test.for(['PATCH', 'TRACE', 'PROPFIND', 'MKCOL', 'LOCK', 'M-SEARCH', 'QUERY', 'PUT'])(
  '%s is rejected with the methods of the path, or as not found',
  async (method) => {
    const known = await exchange(withBody(method, '/api/v1/namespaces', ''));
    expect(known).toMatch(/^HTTP\/1\.1 405 /);
    expect(known).toMatch(/^allow: GET, HEAD, POST, OPTIONS\r$/im);
    const unknown = await exchange(withBody(method, '/nothing', ''));
    expect(unknown).toMatch(/^HTTP\/1\.1 404 /);
    expect(unknown).not.toMatch(/^allow:/im);
  },
);

test.for(['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PROPFIND'])(
  'the body of %s is ignored, whatever its size',
  async (method) => {
    const oversized = ' '.repeat(1024 * 1024 + 1);
    const [first, second] =
      statuses(await exchange(withBody(method, '/healthz', oversized, HOST), get('/healthz'))) ?? [];
    expect(first).toMatch(/ (200|204|405)$/);
    expect(second).toBe('HTTP/1.1 200');
  },
);

test.for(['POST', 'PUT', 'PATCH', 'DELETE'])(
  'an oversized body of %s is rejected, and the connection stays open',
  async (method) => {
    const oversized = ' '.repeat(1024 * 1024 + 1);
    for (const path of ['/api/v1/namespaces', '/nothing']) {
      const text = await exchange(withBody(method, path, oversized, HOST), get('/healthz'));
      expect(statuses(text), path).toEqual(['HTTP/1.1 413', 'HTTP/1.1 200']);
    }
  },
);

test('pipelined requests are answered in order', async () => {
  const body = '{"name":"piped"}';
  const text = await exchange(
    withBody('POST', '/api/v1/namespaces', body, HOST),
    withBody('POST', '/api/v1/namespaces', '{', HOST),
    get('/nothing', HOST),
    withBody('OPTIONS', '/api/v1/namespaces', '', HOST),
    get('/healthz'),
  );
  expect(statuses(text)?.map((line) => Number(line.slice(-3)))).toEqual([201, 400, 404, 204, 200]);
});

test('a client that expects 100-continue gets it before it sends the body', async () => {
  const socket = connect(api.port, '127.0.0.1');
  const body = '{"name":"expected"}';
  const head = `${CLOSE}Expect: 100-continue\r\nContent-Length: ${body.length}\r\n`;
  socket.write(`POST /api/v1/namespaces HTTP/1.1\r\n${head}\r\n`);
  const [first] = await once(socket, 'data');
  expect(String(first)).toBe('HTTP/1.1 100 Continue\r\n\r\n');
  socket.write(body);
  const [second] = await once(socket, 'data');
  expect(String(second)).toMatch(/^HTTP\/1\.1 201 /);
});

test('an aborted upload changes nothing and is logged with status 499', async () => {
  const socket = connect(api.port, '127.0.0.1');
  socket.write(
    `POST /api/v1/namespaces HTTP/1.1\r\n${HOST}Content-Length: 100\r\nX-Request-Id: aborted\r\n\r\n{"name":"gone"`,
  );
  await once(socket, 'connect');
  await new Promise(setImmediate);
  socket.destroy();
  const aborted = () => api.log.map((line) => JSON.parse(line)).filter(({ status }) => status === 499);
  await expect.poll(aborted).toHaveLength(1);
  expect(aborted()[0]).toMatchObject({ method: 'POST', path: '/api/v1/namespaces', client_disconnected: true });
  expect(api.registry.current.namespace('gone')).toBeUndefined();
});

test('files of the API reference can be cached', async () => {
  const path = '/api/docs/static/index.css';
  const { headers } = await fetch(`${api.url}${path}`, { headers: { connection: 'close' } });
  const etag = headers.get('etag') ?? '';
  const unchanged = await exchange(get(path, `${CLOSE}If-None-Match: ${etag}\r\n`));
  expect(unchanged).toMatch(/^HTTP\/1\.1 304 /);
  expect(unchanged.split('\r\n\r\n')[1]).toBe('');
  const range = await exchange(get(path, `${CLOSE}Range: bytes=0-3\r\n`));
  expect(range).toMatch(/^HTTP\/1\.1 206 [\s\S]*\r\n\r\nhtml$/);
});

test('a credential that is not accepted is rejected in the envelope, with the headers of the rejection', async (context) => {
  const { port } = await startApi(context, {
    authenticate: () => ({
      kind: 'rejected',
      status: 401,
      reason: 'invalid token',
      headers: ['WWW-Authenticate', 'Bearer'],
    }),
  });
  const response = responseParts(await sendBytes(port, get('/api/v1/namespaces')));
  expect(response.statusLine).toBe('HTTP/1.1 401 Unauthorized');
  expect(response.headers.map((line) => line.toLowerCase())).toEqual(
    expect.arrayContaining(['www-authenticate: bearer', 'access-control-allow-origin: *']),
  );
  expect(JSON.parse(String(response.body))).toMatchObject({ data: null, error: { message: 'invalid token' } });
});
