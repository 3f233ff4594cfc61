import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

/** Handler of an accepted connection. */
export type ConnectionHandler = (near: Socket) => void;

/** A TCP proxy in front of a service whose connections a test can break, unlike those of a service and its library. */
export interface FaultyProxy {
  readonly port: number;
  /** Connections accepted so far, and those that are open now. */
  readonly accepted: number;
  readonly open: number;
  /** Replaces the handler of new connections. */
  setHandler(handler: ConnectionHandler): void;
  /** Resets the open connections. */
  cut(): void;
  /** Breaks them with a reset. */
  reset(): void;
  /** Accepts no more connections, and resets the open ones. */
  close(): void;
}

/** Starts one on a free port unless one is given. */
export async function openFaultyProxy(handler: ConnectionHandler, port = 0): Promise<FaultyProxy> {
  const sockets = new Set<Socket>();
  let accepted = 0;
  let target = handler;
  const server = createServer((near) => {
    accepted++;
    sockets.add(near);
    near.on('error', () => undefined);
    near.once('close', () => sockets.delete(near));
    target(near);
  });
  await once(server.listen(port, '127.0.0.1'), 'listening');
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('not listening on a port');
  const closeConnections = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: address.port,
    get accepted() {
      return accepted;
    },
    get open() {
      return sockets.size;
    },
    setHandler: (newHandler) => {
      target = newHandler;
    },
    cut: closeConnections,
    reset: () => {
      for (const socket of sockets) socket.resetAndDestroy();
    },
    close: () => {
      server.close();
      closeConnections();
    },
  };
}

/** Handler that forwards to this port. */
export function connectingTo(port: number): ConnectionHandler {
  return (near) => {
    const upstream = connect(port, '127.0.0.1');
    upstream.on('error', () => undefined);
    near.pipe(upstream).pipe(near);
    near.once('close', () => upstream.destroy());
    upstream.once('close', () => near.destroy());
  };
}

/** Handler that accepts connections and never responds. */
export const blackHole: ConnectionHandler = (near) => void near.resume();

/** Handler that sends this to every client and closes the connection. */
export function respondingWith(bytes: string | Uint8Array): ConnectionHandler {
  return (near) => {
    near.resume();
    near.end(bytes);
  };
}
