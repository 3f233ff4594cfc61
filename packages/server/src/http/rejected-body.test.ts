import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { readAll } from '../../../../test/fixtures/raw-exchange.ts';
import { startTestService, type TestService } from '../../testing/service.ts';
import { pipelineTests } from '../app/pipeline.fixture.ts';

const { runFilters } = pipelineTests();

let service: TestService;
beforeAll(async () => {
  // A port without a listener.
  service = await startTestService({
    SERVICE_CLASSIC_URL: 'http://127.0.0.1:9',
    SERVICE_INFERENCE_UPSTREAM: '127.0.0.1:9',
  });
});
afterEach(() => {
  vi.useRealTimers();
});
afterAll(() => service.stop(0));

const ENDS = 'Connection: close\r\n';
const CLOSE = `Host: localhost\r\n${ENDS}`;
const SIZE = 12 * 1024 * 1024;

/** A client that reads the response only after sending everything. */
async function sent(listener: string, head: string, rest: readonly Buffer[], by = service): Promise<Socket> {
  const socket = connect({ port: Number(by.addresses[listener]?.split(':').at(-1)), host: '127.0.0.1' });
  onTestFinished(() => void socket.destroy());
  await once(socket, 'connect');
  socket.write(head);
  for (const piece of rest) if (!socket.write(piece)) await once(socket, 'drain');
  return socket;
}

const PIECES = Array.from({ length: SIZE / 65_536 }, () => Buffer.alloc(65_536, ' '));
const CHUNKS = PIECES.flatMap((piece) => [Buffer.from('10000\r\n'), piece, Buffer.from('\r\n')]);
const BODIES = [
  [`Content-Length: ${SIZE}`, PIECES],
  ['Transfer-Encoding: chunked', [...CHUNKS, Buffer.from('0\r\n\r\n')]],
] as const;

/** The status of the only response, which is complete. */
async function only(socket: Socket): Promise<number> {
  const response = await readAll(socket);
  expect(response.match(/HTTP\/1\.1 \d+/g)).toHaveLength(1);
  expect(response.endsWith('}')).toBe(true);
  return Number(response.slice(9, 12));
}

test.for([
  ['mcp', 'POST /default/mcp', 413],
  ['management', 'POST /api/v1/tools', 413],
  ['management', 'POST /api/v1/chat', 502],
  ['management', 'PUT /api/v1/chat/../x', 400],
  ['management', 'POST /api/v1/tools/%zz', 400],
  ['inference', 'POST /v1/chat/completions', 502],
] as const)(
  'on the %s listener, %s: a client that closes its side and sends before it reads receives %s',
  async ([listener, line, status]) => {
    for (const [framing, rest] of BODIES) {
      const socket = await sent(listener, `${line} HTTP/1.1\r\n${CLOSE}${framing}\r\n\r\n`, rest);
      expect(await only(socket)).toBe(status);
    }
  },
);

test.for(['mcp', 'inference', 'management'])(
  'a client with a foreign Host header receives its response: %s',
  async (listener) => {
    for (const [framing, rest] of BODIES) {
      const head = `POST /default/mcp HTTP/1.1\r\nHost: evil.example\r\n${ENDS}${framing}\r\n\r\n`;
      expect(await only(await sent(listener, head, rest))).toBe(403);
    }
  },
);

test.for([
  ["has a filter's response", 200],
  ['is one too many', 503],
] as const)('a client that %s receives its response', async ([, status]) => {
  const filters = "- { filter: static_response, status: 200, body: '{}' }";
  const by = await runFilters(filters, ', max_connections: 1');
  if (status === 503) await once(await sent('l', 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n', [], by), 'data');
  const head = `POST / HTTP/1.1\r\n${CLOSE}Content-Length: ${SIZE}\r\n\r\n`;
  expect(await only(await sent('l', head, PIECES, by))).toBe(status);
});

test.for([
  ['mcp', 'POST /default/mcp'],
  ['management', 'POST /api/v1/tools'],
] as const)(
  'on the %s listener, a client that never completes a rejected body is disconnected',
  async ([listener, line]) => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const length = 'Content-Length: 99999999';
    const socket = await sent(listener, `${line} HTTP/1.1\r\nHost: localhost\r\n${length}\r\n\r\n`, [
      Buffer.from('begun'),
    ]);
    const response = readAll(socket);
    await once(socket, 'data');
    vi.advanceTimersByTime(2_000);
    expect(await response).toMatch(/^HTTP\/1\.1 413 /);
  },
);

test('a keep-alive connection stays open after the end of a rejected body', async () => {
  for (const [listener, path, next, status] of [
    ['mcp', '/default/mcp', 'GET /x', 404],
    ['management', '/api/v1/tools', 'GET /healthz', 200],
  ] as const) {
    const head = `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${SIZE}\r\n\r\n`;
    const socket = await sent(listener, head, PIECES);
    socket.write(`${next} HTTP/1.1\r\n${CLOSE}\r\n`);
    expect((await readAll(socket)).match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 413', `HTTP/1.1 ${status}`]);
  }
});
