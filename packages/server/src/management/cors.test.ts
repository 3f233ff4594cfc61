import { connect } from 'node:net';
import { text as readText } from 'node:stream/consumers';
import { errorResponse } from '@sluice/contract';
import { beforeAll, describe, expect, test } from 'vitest';
import { PausableStore } from '../registry/fixtures/pausable-store.ts';
import { type Api, type SharedApi, startApi, startSharedApi } from './api.fixture.ts';

const UNREACHABLE = { name: 'unreachable', address: 'http://127.0.0.1:9/mcp' };

/** Sends requests for every status of the API. */
async function everyStatus(api: Api, store: PausableStore) {
  const answers = [
    await api.call('GET', '/healthz'),
    await api.call('POST', '/api/v1/forwards', UNREACHABLE),
    await api.call('OPTIONS', '/api/v1/tools'),
    await api.call('POST', '/api/v1/tools', '{'),
    await api.call('GET', '/api/v1/tools/%zz'),
    await api.call('GET', '/healthz', undefined, { origin: 'https://evil.example' }),
    await api.call('GET', '/healthz', undefined, { host: 'evil.example' }),
    await api.call('GET', '/nothing'),
    await api.call('GET', '/api/v1/tools/none'),
    await api.call('DELETE', '/api/v1/tools'),
    await api.call('POST', '/api/v1/forwards', UNREACHABLE),
    await api.call('POST', '/api/v1/tools', Buffer.alloc(1024 * 1024 + 1, 0x20)),
    await api.call('POST', '/api/v1/forwards/unreachable/refreshes'),
    await api.call('GET', '/readyz'),
    await api.call('HEAD', '/api/v1/namespaces'),
  ];
  store.hold = true;
  const failing = api.call('POST', '/api/v1/namespaces', { name: 'new' });
  await expect.poll(() => store.waiting, { interval: 1 }).toBe(1);
  store.rejectAll();
  answers.push(await failing);
  expect(answers.map(({ status }) => status)).toEqual([
    200, 201, 204, 400, 400, 403, 403, 404, 404, 405, 409, 413, 502, 503, 200, 500,
  ]);
  return answers;
}

test.for([
  [undefined, '*', undefined],
  ['https://console.example', 'https://console.example', 'Origin'],
] as const)(
  'with the origin %s, every answer of every status allows %s',
  async ([corsOrigin, allowed, vary], context) => {
    const store = new PausableStore();
    const settings = corsOrigin === undefined ? {} : { corsOrigin };
    const api = await startApi(context, { ...settings, store, ready: () => false });
    for (const { status, headers } of await everyStatus(api, store)) {
      expect([headers['access-control-allow-origin'], headers.vary], String(status)).toEqual([allowed, vary]);
    }
  },
);

test('with the origin *, no origin is foreign', async (context) => {
  const api = await startApi(context, { corsOrigin: '*' });
  const answer = await api.call('GET', '/healthz', undefined, { origin: 'https://anywhere.example' });
  expect(answer).toMatchObject({ status: 200, headers: { 'access-control-allow-origin': '*' } });
  expect(answer.headers.vary).toBeUndefined();
});

const REASONS: Readonly<Record<string, string>> = {
  'no HTTP': 'malformed request: invalid method',
  'a head that is too long': 'malformed request: request headers too large: the limit is 16384 bytes, which is fixed',
  'a body that is not a chunk': 'malformed request: invalid chunk size',
  CONNECT: 'method CONNECT is not supported',
};

const CODES = { 400: 'BAD_REQUEST', 403: 'FORBIDDEN', 431: 'PAYLOAD_TOO_LARGE' } as const;

describe('a malformed request', () => {
  let api: SharedApi;
  beforeAll(async () => {
    api = await startSharedApi({ corsOrigin: 'https://console.example' });
    return () => api.close();
  });

  test.for([
    ['no HTTP', 'GARBAGE\r\n\r\n', 400],
    ['a path with a control character', 'GET /\u0001 HTTP/1.1\r\nHost: localhost\r\n\r\n', 400],
    ['no Host', 'GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n', 400],
    ['no Host and a path that cannot be decoded', 'GET /%zz HTTP/1.1\r\nConnection: close\r\n\r\n', 400],
    ['no Host, which HTTP/1.0 need not have', 'GET /healthz HTTP/1.0\r\n\r\n', 403],
    [
      'two lengths',
      'POST /api/v1/tools HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n',
      400,
    ],
    ['a head that is too long', `GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
    ['CONNECT', 'CONNECT localhost:1 HTTP/1.1\r\nHost: localhost:1\r\n\r\n', 400],
    [
      'a body that is not a chunk',
      'POST /api/v1/tools HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n',
      400,
    ],
    ['an expectation', 'GET /healthz HTTP/1.1\r\nHost: localhost\r\nExpect: wonders\r\nConnection: close\r\n\r\n', 200],
  ] as const)('is answered like all others: %s', async ([what, bytes, status], context) => {
    const socket = connect(api.port, '127.0.0.1');
    context.onTestFinished(() => {
      socket.destroy();
    });
    socket.write(bytes);
    const [head = '', body = ''] = (await readText(socket)).split('\r\n\r\n');
    expect(head).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    expect(head).toMatch(/^access-control-allow-origin: https:\/\/console\.example$/im);
    expect(head).toMatch(/^vary: Origin$/im);
    expect(head).toMatch(/^content-type: application\/json$/im);
    if (status === 200) return;
    const { error } = errorResponse.parse(JSON.parse(body));
    const message = REASONS[what];
    if (message !== undefined) expect(error.message).toBe(message);
    expect(error.code).toBe(CODES[status]);
  });
});
