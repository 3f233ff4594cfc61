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

/** The port when it is free on that host, else 0: the system chooses one that is. */
export async function preferred(port: number, host: string): Promise<number> {
  return (await isFree(port, host)) ? port : 0;
}

const TRIES = 100;

/** The first free port from this one on, for a server that cannot be told to let the system choose. */
export async function firstFree(from: number): Promise<number> {
  for (let port = from; port < from + TRIES; port++) if (await isFree(port)) return port;
  throw new Error(`all ports from ${from} to ${from + TRIES - 1} are taken`);
}
