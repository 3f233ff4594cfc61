import { once } from 'node:events';
import type { Server } from 'node:http';
import type { Server as TcpServer } from 'node:net';
import { onTestFinished } from 'vitest';

/** Listens on a free port of loopback until the test is over. */
export async function listen(server: Server | TcpServer): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.close();
    if ('closeAllConnections' in server) server.closeAllConnections();
  });
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('not a TCP address');
  return address.port;
}
