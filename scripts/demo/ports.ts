import { once } from 'node:events';
import { createServer } from 'node:net';

/** Returns true if the port is free; without a host, on all interfaces. */
async function isFree(port: number, host?: string): Promise<boolean> {
  const server = createServer();
  server.listen({ port, host });
  const free = await once(server, 'listening').then(
    () => true,
    () => false,
  );
  if (!free) return false;
  server.close();
  await once(server, 'close');
  return true;
}

/**
 * Starts a service on the given ports, with 0 (chosen by the system) in place of ports in use. If a port is taken before
 * the service binds it, starts it again with all ports 0.
 */
export async function withPorts<T>(
  wanted: readonly number[],
  host: string,
  start: (ports: readonly number[]) => Promise<T>,
): Promise<T> {
  const ports = await Promise.all(wanted.map(async (port) => ((await isFree(port, host)) ? port : 0)));
  try {
    return await start(ports);
  } catch (error) {
    if (!(error instanceof Error && error.message.includes('EADDRINUSE'))) throw error;
    return start(ports.map(() => 0));
  }
}

const MAX_ATTEMPTS = 100;

/** Finds the first free port from a start, for servers that do not support port 0. */
export async function findFreePort(from: number): Promise<number> {
  for (let port = from; port < from + MAX_ATTEMPTS; port++) if (await isFree(port)) return port;
  throw new Error(`no free port between ${from} and ${from + MAX_ATTEMPTS - 1}`);
}
