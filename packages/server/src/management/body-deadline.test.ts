import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect, type Socket } from 'node:net';
import { expect, onTestFinished, test, vi } from 'vitest';
import { listen } from '../../../../test/fixtures/http-server.ts';
import { readAll } from '../../../../test/fixtures/raw-exchange.ts';
import { startApi } from './api.fixture.ts';

const LIMIT_MS = 100;
const CHUNKED = 'Host: localhost\r\nTransfer-Encoding: chunked\r\n';

/** A connection that sends a body byte by byte while it is open. */
function dripping(port: number, line: string, head = CHUNKED): { socket: Socket; stop: () => void } {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => undefined);
  socket.write(`${line} HTTP/1.1\r\n${head}\r\n`);
  const timer = setInterval(() => socket.write('1\r\n \r\n'), LIMIT_MS / 10);
  const stop = () => clearInterval(timer);
  socket.once('close', stop);
  onTestFinished(() => {
    stop();
    socket.destroy();
  });
  return { socket, stop };
}

test('a body that takes too long is 408 with the envelope, and the connection is closed', async (context) => {
  const api = await startApi(context, { bodyTimeoutMs: LIMIT_MS });
  const text = await readAll(dripping(api.port, 'POST /api/v1/namespaces').socket);
  expect(text).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n/);
  expect(text).toContain('"code":"BAD_REQUEST","message":"malformed request: Request Timeout"');
  expect(text).toContain('access-control-allow-origin: *');
  await expect.poll(() => api.log.some((line) => line.includes('"status":408'))).toBe(true);
  expect(text.match(/HTTP\/1\.1/g)).toHaveLength(1);
});

test.for([
  ['GET /healthz', 200],
  ['POST /nothing', 404],
  ['DELETE /api/v1/tools/x', 404],
  ['OPTIONS /api/v1/tools', 204],
  ['PUT /api/v1/tools/%zz', 400],
] as const)(
  '%s closes the connection of a client that continues to send an unwanted body',
  async ([line, status], context) => {
    const api = await startApi(context, { bodyTimeoutMs: LIMIT_MS });
    const text = await readAll(dripping(api.port, line).socket);
    expect(text.match(/HTTP\/1\.1 (?!408)\d+/g) ?? [`HTTP/1.1 ${status}`]).toEqual([`HTTP/1.1 ${status}`]);
  },
);

test('a response that is ready after that is discarded', async (context) => {
  const api = await startApi(context, { bodyTimeoutMs: LIMIT_MS });
  const { promise, resolve } = Promise.withResolvers<void>();
  vi.spyOn(api.registry, 'refresh').mockReturnValueOnce(promise);
  const all = readAll(dripping(api.port, 'GET /api/v1/tools').socket);
  await expect.poll(() => api.log.some((line) => line.includes('"status":408'))).toBe(true);
  resolve();
  expect((await all).match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 408']);
});

test('a body that arrives in time is read, and the connection stays open after the limit', async (context) => {
  const api = await startApi(context, { bodyTimeoutMs: LIMIT_MS });
  const socket = connect(api.port, '127.0.0.1');
  const all = readAll(socket);
  const body = '{"name":"in-time"}';
  socket.write(`POST /api/v1/namespaces HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  await new Promise((resolve) => setTimeout(resolve, 2 * LIMIT_MS));
  socket.write('GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n');
  expect((await all).match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 201', 'HTTP/1.1 200']);
});

test('a stream continues after its client has sent an unread body', async (context) => {
  const api = await startApi(context, { bodyTimeoutMs: LIMIT_MS, keepAliveMs: 2 * LIMIT_MS });
  const socket = connect(api.port, '127.0.0.1');
  context.onTestFinished(() => void socket.destroy());
  socket.write('GET /api/v1/tool-calls/notifications HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc');
  // The head, then keep-alive comments.
  for (let heard = 0; heard < 3; heard++) {
    const [piece] = await once(socket, 'data');
    expect(String(piece)).not.toContain('408');
  }
});

test('a proxied body has no timeout', async (context) => {
  const firstByteTimeoutMs = 5 * LIMIT_MS;
  let read = 0;
  const backend = createServer(async (request, response) => {
    for await (const piece of request) read += piece.length;
    response.end(`read ${read}`);
  });
  const port = await listen(backend, 0);
  onTestFinished(() => {
    backend.closeAllConnections();
    backend.close();
  });
  // The response timeout of the backend does not include the upload of a slow client.
  const api = await startApi(context, {
    bodyTimeoutMs: LIMIT_MS,
    classicUrl: `http://127.0.0.1:${port}`,
    firstByteTimeoutMs,
  });
  const { socket, stop } = dripping(api.port, 'POST /api/v1/chat', `${CHUNKED}Connection: close\r\n`);
  const all = readAll(socket);
  // At most ten bytes are sent per LIMIT_MS: this many take longer than either limit.
  await expect.poll(() => read).toBeGreaterThan(60);
  stop();
  socket.write('0\r\n\r\n');
  const text = await all;
  expect(text).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
  expect(text).toContain(`read ${read}`);
});
