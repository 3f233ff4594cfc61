import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { post, send } from '../../../../test/fixtures/raw-client.ts';
import { PING } from '../../testing/listener.ts';
import { startTestService, type TestService } from '../../testing/service.ts';

const MIB = 1024 * 1024;
const LIMIT = 8 * MIB;

let service: TestService;
const sockets: Socket[] = [];
beforeAll(async () => {
  service = await startTestService({ SERVICE_MAX_BODIES_BYTES: String(LIMIT) });
  await service.register('namespaces', { name: 'finance' });
});
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
});
afterAll(() => service.stop(0));

/** Sends a head, and bytes of a body that never ends. */
async function begin(
  listener: string,
  path: string,
  bytes: number,
): Promise<{ socket: Socket; received: () => string }> {
  const socket = connect(Number(service.addresses[listener]?.split(':').at(-1)), '127.0.0.1');
  sockets.push(socket);
  let text = '';
  socket.on('error', () => undefined);
  socket.on('data', (chunk) => {
    text += chunk;
  });
  await once(socket, 'connect');
  socket.write(`POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${bytes + 1}\r\n\r\n`);
  if (bytes > 0) socket.write(Buffer.alloc(bytes, ' '));
  return { socket, received: () => text };
}

/** A ping whose text has this many bytes. */
const pingOf = (bytes: number) => PING + ' '.repeat(bytes - PING.length);

describe('150 uploads that never end', () => {
  it('do not use more memory than the limit, and keep nobody else from being served', async () => {
    const uploads = await Promise.all(Array.from({ length: 150 }, () => begin('mcp', '/default/mcp', 200 * 1024)));
    const rejected = () => uploads.filter(({ received }) => received() !== '');
    // A body of 200 KiB takes up to 400 KiB, and at least what was sent of it.
    await expect.poll(() => rejected().length).toBeGreaterThanOrEqual(150 - LIMIT / (200 * 1024));
    for (const { received } of rejected()) {
      expect(received()).toMatch(/^HTTP\/1\.1 503 Service Unavailable\r\n/);
      expect(received()).toMatch(/\r\nRetry-After: 1\r\n/);
      expect(received()).toContain(
        '"error":{"code":-32000,"message":"too many request bodies at once; try again later"}',
      );
    }
    // Others are served: with a small body always, with a large one in another namespace.
    for (const url of [service.url(), service.url('finance')]) {
      expect((await post(url, pingOf(60 * 1024))).status).toBe(200);
    }
    expect((await post(service.url('finance'), pingOf(500 * 1024))).status).toBe(200);
    expect((await service.manage('POST', '/namespaces', { name: 'x', labels: { a: 'b'.repeat(200) } })).status).toBe(
      201,
    );
  });

  it('are over when their clients disconnect', async () => {
    const uploads = await Promise.all(Array.from({ length: 150 }, () => begin('mcp', '/default/mcp', 200 * 1024)));
    await expect.poll(() => uploads.filter(({ received }) => received() !== '').length).toBeGreaterThan(100);
    for (const { socket } of uploads) socket.destroy();
    await expect.poll(async () => (await post(service.url(), pingOf(3 * MIB))).status).toBe(200);
  });
});

describe('an unknown namespace', () => {
  it.each(['/nowhere/mcp', '/nowhere/mcp/?x=1', '/%64efault/mcp', '/__proto__/mcp'])(
    'in %s is answered before the body',
    async (path) => {
      const { received } = await begin('mcp', path, 0);
      await expect.poll(received).toContain('\r\n\r\n{');
      expect(received()).toMatch(/^HTTP\/1\.1 404 Not Found\r\n/);
      const { id, error } = JSON.parse(received().split('\r\n\r\n')[1] ?? '');
      expect([id, error.code]).toEqual([null, -32600]);
    },
  );

  it('has the CORS headers of its listener, and does not affect the next request on the connection', async () => {
    const { socket, received } = await begin('mcp', '/nowhere/mcp', 0);
    await expect.poll(received).toContain('namespace not found: nowhere');
    socket.write(` POST /default/mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${PING.length}\r\n\r\n${PING}`);
    await expect.poll(received).toContain('HTTP/1.1 200 OK');
    const response = await send(`${service.mcp}/nowhere/mcp`, 'POST', { origin: 'http://localhost:1' }, PING);
    expect([response.status, response.headers['access-control-allow-origin']]).toEqual([404, '*']);
  });
});
