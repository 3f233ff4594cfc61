import { connect, createServer, type Socket } from 'node:net';
import { listen } from '../../fixtures/http-server.ts';

/** A TCP relay that records the bytes of both directions. */
export interface Tap extends AsyncDisposable {
  /** Address of the relay. */
  readonly url: string;
  /** The bytes so far, in order, with a line before each change of connection or direction. */
  readonly recorded: () => string;
}

/** Starts a relay before the server at this address. */
export async function startTap(address: string): Promise<Tap> {
  const { hostname, port, pathname } = new URL(address);
  const chunks: string[] = [];
  const sockets = new Set<Socket>();
  let connections = 0;
  let last = '';
  const record = (label: string, chunk: Buffer) => {
    if (label !== last) chunks.push(`\n${label}\n`);
    last = label;
    chunks.push(chunk.toString('utf8'));
  };
  const server = createServer({ allowHalfOpen: true }, (client) => {
    const connection = ++connections;
    const upstream = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
    for (const [from, to, arrow] of [
      [client, upstream, '>>>'],
      [upstream, client, '<<<'],
    ] as const) {
      sockets.add(from);
      from.setNoDelay(true);
      from.on('data', (chunk: Buffer) => record(`${arrow} connection ${connection}`, chunk));
      from.on('error', () => to.resetAndDestroy());
      from.on('close', () => {
        sockets.delete(from);
        to.destroy();
      });
      from.pipe(to);
    }
  });
  const local = await listen(server, 0);
  return {
    url: `http://127.0.0.1:${local}${pathname}`,
    recorded: () => chunks.join(''),
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
