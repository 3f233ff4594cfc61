import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { ListenAddress } from '../config/addresses.ts';

/** Binds a server. Resolves with the bound address as `host:port`; rejects with the system's error. */
export function listen(server: Server, { host, port }: ListenAddress): Promise<string> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host, port }, () => {
      server.off('error', reject);
      resolve(displayed(server.address()));
    });
  });
}

/**
 * Stops accepting, lets requests in flight finish for at most `graceMs`, then ends what is left (decisions 1.1).
 * Resolves when no connection is open any more.
 */
export async function drain(server: Server, graceMs: number): Promise<void> {
  if (!server.listening) return;
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  // A connection becomes idle when its answer is out; kept alive, it would hold the server open.
  const sweep = setInterval(() => server.closeIdleConnections(), 50);
  const deadline = setTimeout(() => server.closeAllConnections(), graceMs);
  await closed;
  clearInterval(sweep);
  clearTimeout(deadline);
}

function displayed(address: AddressInfo | string | null): string {
  if (address === null || typeof address === 'string') return String(address);
  return address.family === 'IPv6' ? `[${address.address}]:${address.port}` : `${address.address}:${address.port}`;
}
