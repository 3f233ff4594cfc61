import { once } from 'node:events';
import { createServer } from 'node:net';

/** Whether something could listen there now; without a host, on all interfaces. */
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
 * Starts something on these ports, of which those that are taken are 0: the system chooses one that is not. Another may
 * take a port before it is bound; then it is started once more, and the system chooses all of them.
 */
export async function onPorts<T>(
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

const TRIES = 100;

/** The first free port from this one on, for a server that cannot be told to let the system choose. */
export async function firstFree(from: number): Promise<number> {
  for (let port = from; port < from + TRIES; port++) if (await isFree(port)) return port;
  throw new Error(`all ports from ${from} to ${from + TRIES - 1} are taken`);
}
