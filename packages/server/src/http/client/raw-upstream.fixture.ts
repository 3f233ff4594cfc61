import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

/** An upstream that handles connections as the test specifies; it reads nothing on its own. */
export interface RawUpstream {
  readonly port: number;
  /** All connections ever accepted, in order. */
  readonly sockets: Socket[];
  /** The first connection, once established. */
  readonly first: Promise<Socket>;
}

/** Starts one; `accept` is called for every connection, which is paused. */
export async function startRawUpstream(accept: (socket: Socket) => void = () => undefined): Promise<RawUpstream> {
  const sockets: Socket[] = [];
  const first = Promise.withResolvers<Socket>();
  const server = createServer({ pauseOnConnect: true }, (socket) => {
    sockets.push(socket);
    socket.on('error', () => undefined);
    first.resolve(socket);
    accept(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('not a TCP address');
  return { port: address.port, sockets, first: first.promise };
}
