import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { expect, it, onTestFinished, vi } from 'vitest';
import { readAll } from '../../../../test/fixtures/raw-exchange.ts';
import { ListenerConnections } from './listener-connections.ts';

/** Starts a server that rejects requests on connections beyond the limit. */
async function start(connections: ListenerConnections, maxConnections?: number): Promise<Server> {
  const server = createServer((request, response) => {
    response.writeHead(excess.has(request.socket) ? 503 : 200, { connection: 'close' }).end();
  });
  const excess = connections.watch(server, false, maxConnections);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close().closeAllConnections());
  return server;
}

function open(server: Server): Socket {
  const { port } = server.address() as AddressInfo;
  const socket = connect(port, '127.0.0.1').on('error', () => undefined);
  onTestFinished(() => void socket.destroy());
  return socket;
}

const REQUEST = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';

/** Status of a request on a new connection; undefined if that is closed without a response. */
async function statusOf(server: Server): Promise<number | undefined> {
  const socket = open(server);
  socket.write(REQUEST);
  const status = /^HTTP\/1.1 (\d+)/.exec(await readAll(socket).catch(() => ''))?.[1];
  return status === undefined ? undefined : Number(status);
}

it('counts the connections of all listeners, except for one with a limit of its own', async () => {
  const onFull = vi.fn();
  const connections = new ListenerConnections({ listeners: 2, rejected: 1 }, onFull);
  const [one, other, own] = [await start(connections), await start(connections), await start(connections, 1)];
  const held = [open(one), open(other)];
  await Promise.all(held.map((socket) => once(socket, 'connect')));
  expect(await statusOf(one)).toBe(503);
  expect(await statusOf(other)).toBe(503);
  expect(onFull).toHaveBeenCalledWith(2);
  expect(await statusOf(own)).toBe(200);
  const last = open(own);
  await once(last, 'connect');
  expect(await statusOf(own)).toBe(503);

  // The only connection for rejections is in use.
  const rejected = open(one);
  await once(rejected, 'connect');
  expect(await statusOf(other)).toBeUndefined();
  for (const socket of [...held, last, rejected]) socket.destroy();
  await expect.poll(() => statusOf(one)).toBe(200);
});

it('closes a connection beyond the limit that sends nothing', async () => {
  const connections = new ListenerConnections({ listeners: 0, rejected: 5 });
  const server = await start(connections);
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const accepted = once(server, 'connection');
  const socket = open(server);
  await accepted;
  const closed = once(socket.resume(), 'close');
  vi.advanceTimersByTime(5_000);
  await closed;
});
