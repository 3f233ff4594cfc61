import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

/** The environment variable that tells a process where it asks for its turn. */
export const TURNS_PORT = 'CONFORMANCE_TURNS_PORT';

/** Gives turns to processes, one after the other. */
export interface Turns {
  readonly port: number;
  readonly close: () => Promise<void>;
}

/**
 * Lets processes that were all started at once work one after the other: some scenarios measure time, and a machine with
 * few cores would not keep it. A process that has connected waits for a byte, and has its turn until the connection
 * ends, however it ends.
 */
export async function startTurns(): Promise<Turns> {
  const waiting: Socket[] = [];
  const next = () => waiting[0]?.write('.');
  const server = createServer((socket) => {
    waiting.push(socket);
    if (waiting.length === 1) next();
    socket.on('error', () => undefined).resume();
    socket.once('close', () => {
      const had = waiting[0] === socket;
      waiting.splice(waiting.indexOf(socket), 1);
      if (had) next();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the server has no TCP address');
  return {
    port: address.port,
    close: async () => {
      for (const socket of waiting) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Waits for this process's turn and returns what ends it. Without `port` there is nobody to wait for. */
export async function takeTurn(port: string | undefined): Promise<() => void> {
  if (port === undefined) return () => undefined;
  const socket = connect(Number(port), '127.0.0.1');
  await once(socket, 'data');
  return () => socket.destroy();
}
