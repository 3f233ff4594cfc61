import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { createTransport } from './pool.ts';
import { ResponseStream } from './response-stream.ts';

/** Requests a response of this server. */
async function opened(serve: RequestListener) {
  const server = createServer(serve).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const transport = createTransport(`http://127.0.0.1:${port}`);
  onTestFinished(async () => {
    server.close();
    server.closeAllConnections();
    await transport.destroy();
  });
  return new ResponseStream(transport, { method: 'GET', headers: [] });
}

test('a body is received as fast as it is read', async () => {
  const bytes = 32 * 1024 * 1024;
  let sent = 0;
  const stream = await opened((_, response) => {
    const send = (): void => {
      while (sent < bytes) {
        sent += 64 * 1024;
        if (!response.write(Buffer.alloc(64 * 1024, 'x'))) return void response.once('drain', send);
      }
      response.end();
    };
    send();
  });
  let last = -1;
  // Until the buffers between are full.
  while (sent > last) {
    last = sent;
    await delay(200);
  }
  expect(sent).toBeLessThan(bytes);
  let read = 0;
  for await (const chunk of stream) read += chunk.length;
  expect(read).toBe(bytes);
});

test('the head has the status, whatever it is', async () => {
  const stream = await opened((_, response) => response.writeHead(404, { 'x-kind': 'none' }).end());
  expect(await stream.head).toMatchObject({ status: 404, headers: { 'x-kind': 'none' } });
});

test('a response that is destroyed before it has begun has no head, and its request ends', async () => {
  const closed = Promise.withResolvers<void>();
  const stream = await opened((_, response) => {
    response.on('close', closed.resolve);
    stream.destroy(new Error('did not respond in time'));
  });
  await expect(stream.head).rejects.toThrow('did not respond in time');
  await closed.promise;
});

test('a body that breaks off is an error', async () => {
  const stream = await opened((_, response) => {
    response.write('begun');
    setImmediate(() => response.destroy());
  });
  await expect(stream.toArray()).rejects.toThrow();
});

test('the request ends with the stream', async () => {
  const closed = Promise.withResolvers<void>();
  const stream = await opened((_, response) => response.on('close', closed.resolve).write('begun'));
  await stream.head;
  stream.destroy();
  await closed.promise;
});
