import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

/** What becomes of a connection that was accepted. */
export type ConnectionHandler = (near: Socket) => void;

/** A port in front of a service, whose connections a test can break, as a service and its library would not. */
export interface FaultyProxy {
  readonly port: number;
  /** Connections accepted so far, and those that are open now. */
  readonly accepted: number;
  readonly open: number;
  /** What is behind it for connections from now on. */
  lead(behind: ConnectionHandler): void;
  /** Ends the connections that there are, without a word. */
  cut(): void;
  /** Breaks them with a reset. */
  reset(): void;
  /** Takes no more connections, and ends those that there are. */
  close(): void;
}

/** Opens one, on a port that the system chooses unless one is given. */
export async function openFaultyProxy(behind: ConnectionHandler, port = 0): Promise<FaultyProxy> {
  const sockets = new Set<Socket>();
  let accepted = 0;
  let leadsTo = behind;
  const server = createServer((near) => {
    accepted++;
    sockets.add(near);
    near.on('error', () => undefined);
    near.once('close', () => sockets.delete(near));
    leadsTo(near);
  });
  await once(server.listen(port, '127.0.0.1'), 'listening');
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('not listening on a port');
  const cut = (): void => {
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
    lead: (to) => {
      leadsTo = to;
    },
    cut,
    reset: () => {
      for (const socket of sockets) socket.resetAndDestroy();
    },
    close: () => {
      server.close();
      cut();
    },
  };
}

/** Behind the door is what listens on this port. */
export function connectingTo(port: number): ConnectionHandler {
  return (near) => {
    const far = connect(port, '127.0.0.1');
    far.on('error', () => undefined);
    near.pipe(far).pipe(near);
    near.once('close', () => far.destroy());
    far.once('close', () => near.destroy());
  };
}

/** Behind the door is nobody: connections are accepted, and nothing is ever said. */
export const refusing: ConnectionHandler = (near) => void near.resume();

/** Behind the door is something that says this to whoever comes, and then hangs up. */
export function respondingWith(bytes: string | Uint8Array): ConnectionHandler {
  return (near) => {
    near.resume();
    near.end(bytes);
  };
}
