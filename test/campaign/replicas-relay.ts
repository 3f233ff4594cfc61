import { connect, type Socket } from 'node:net';
import { openFaultyProxy } from '../../packages/server/testing/faulty-proxy.ts';

/** The network between a replica and PostgreSQL. */
export interface DatabaseRelay {
  readonly port: number;
  /** Breaks all connections. */
  reset(): void;
  /** Delivers nothing, in either direction, until {@link heal}. */
  partition(): void;
  /** Delivers what was sent meanwhile, and everything again. */
  heal(): void;
  /** Breaks the connection of the next COMMIT when the response to it arrives. */
  loseCommit(): void;
  readonly lostCommits: number;
  close(): void;
}

/** Opens one to PostgreSQL at this port. */
export async function openDatabaseRelay(postgres: number): Promise<DatabaseRelay> {
  const sockets = new Set<Socket>();
  let isPartitioned = false;
  let losesCommit = false;
  let lostCommits = 0;
  const add = (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined).once('close', () => sockets.delete(socket));
  };
  const proxy = await openFaultyProxy((near) => {
    const far = connect(postgres, '127.0.0.1');
    add(near);
    add(far);
    let isLost = false;
    near.on('data', (bytes: Buffer) => {
      if (losesCommit && bytes.includes('COMMIT')) {
        losesCommit = false;
        isLost = true;
      }
      far.write(bytes);
    });
    far.on('data', (bytes: Buffer) => {
      if (!isLost) return void near.write(bytes);
      lostCommits++;
      near.resetAndDestroy();
    });
    near.once('close', () => far.destroy());
    far.once('close', () => near.destroy());
    if (isPartitioned) for (const socket of [near, far]) socket.pause();
  });
  return {
    port: proxy.port,
    reset: proxy.reset,
    partition: () => {
      isPartitioned = true;
      for (const socket of sockets) socket.pause();
    },
    heal: () => {
      isPartitioned = false;
      for (const socket of sockets) socket.resume();
    },
    loseCommit: () => {
      losesCommit = true;
    },
    get lostCommits() {
      return lostCommits;
    },
    close: proxy.close,
  };
}
