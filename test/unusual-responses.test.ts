import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { sendBytes } from './fixtures/raw-exchange.ts';

// Responses that Node.js would normalize, or reject, when forwarding them.

const LENGTH = 'Content-Length: 2\r\n';

let service: TestService;
let head = '';
const sockets = new Set<Socket>();
const upstream = createServer((socket) => {
  sockets.add(socket);
  socket.on('error', () => undefined);
  socket.on('data', () => socket.write(Buffer.from(`HTTP/1.1 200 OK\r\n${head}\r\nhi`, 'latin1')));
});
beforeAll(async () => {
  upstream.listen(0, '127.0.0.1');
  await once(upstream, 'listening');
  const address = upstream.address();
  const at = `127.0.0.1:${typeof address === 'object' ? address?.port : 0}`;
  service = await startTestService({ SERVICE_INFERENCE_UPSTREAM: at, SERVICE_CLASSIC_URL: `http://${at}` });
});
afterAll(async () => {
  await service.stop(0);
  for (const socket of sockets) socket.destroy();
  upstream.close();
});

/** Result of a request for the path at the listener of this name. */
function request(listener: string, path: string): Promise<string> {
  const port = Number(service.addresses[listener]?.split(':').at(-1));
  return sendBytes(port, `GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
}

it.each([
  ['inference', '/v1/files/1/content'],
  ['management', '/api/v1/data-store/file'],
])('the %s listener forwards the name of a file in any encoding', async (listener, path) => {
  for (const name of ['\xe6\x97\xa5.pdf', 'caf\xc3\xa9', 'caf\xe9']) {
    const disposition = `Content-Disposition: attachment; filename="${name}"\r\n`;
    for (const order of [`${LENGTH}${disposition}`, `${disposition}${LENGTH}`]) {
      head = order;
      const response = await request(listener, path);
      expect(response).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
      expect(response).toContain(disposition);
      expect(response).toMatch(/\r\n\r\nhi$/);
    }
  }
});
