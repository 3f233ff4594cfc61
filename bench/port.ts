import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * A loopback port that was free a moment ago. nginx cannot report a port that the system chose, and the gateway reports
 * it in a log line that `--log` may hide.
 */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('the system gave no port');
  return address.port;
}
