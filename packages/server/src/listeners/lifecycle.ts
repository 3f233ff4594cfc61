import type { Server } from 'node:http';
import { type AddressInfo, Server as NetServer, type Socket } from 'node:net';
import type { ListenAddress } from '../config/addresses.ts';

/** A server that listens. */
export interface Listener {
  /** As bound, `host:port`. */
  readonly address: string;
  /**
   * Stops accepting, lets requests in flight finish for at most `graceMs`, then ends what is left (decisions 1.1).
   * Resolves when no connection is open any more.
   */
  drain(graceMs: number): Promise<void>;
}

const SWEEP_MS = 50;

/** Binds a server. Rejects with the system's error. */
export function listen(server: Server, { host, port }: ListenAddress): Promise<Listener> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host, port }, () => {
      server.off('error', reject);
      const address = displayed(server.address());
      resolve({ address, drain: (graceMs) => drain(server, sockets, graceMs) });
    });
  });
}

async function drain(server: Server, sockets: ReadonlySet<Socket>, graceMs: number): Promise<void> {
  if (!server.listening) return;
  // A connection becomes idle when its answer is out; kept alive, it would hold the server open. Node's own `close` and
  // `closeIdleConnections` take an answer for out that still waits for a slow reader: as long as there is one, nothing is
  // closed but the door.
  const closed = new Promise<void>((resolve) => NetServer.prototype.close.call(server, () => resolve()));
  const sweep = setInterval(() => {
    for (const { writableLength } of sockets) if (writableLength > 0) return;
    server.closeIdleConnections();
  }, SWEEP_MS);
  const deadline = setTimeout(() => server.closeAllConnections(), graceMs);
  await closed;
  clearInterval(sweep);
  clearTimeout(deadline);
  // What else Node has to tidy up when a server closes.
  server.close();
}

function displayed(address: AddressInfo | string | null): string {
  if (address === null || typeof address === 'string') return String(address);
  return address.family === 'IPv6' ? `[${address.address}]:${address.port}` : `${address.address}:${address.port}`;
}
