import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Server as TcpServer } from 'node:net';
import { onTestFinished } from 'vitest';
import { incomingBody } from './incoming-body.ts';
import { createTransport, type TransportOptions } from './transport.ts';
import type { UpstreamError } from './upstream-error.ts';

/** What a proxy leaves out because it is about the connection. */
const HOP_BY_HOP: ReadonlySet<string> = new Set(['host', 'connection', 'keep-alive', 'transfer-encoding', 'expect']);

const NOTHING = Buffer.alloc(0);

/** Listens on a free port of loopback until the test is over. */
export async function listen(server: Server | TcpServer): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.close();
    if ('closeAllConnections' in server) server.closeAllConnections();
  });
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('not a TCP address');
  return address.port;
}

/** A proxy in front of one upstream. */
export interface Proxy {
  readonly port: number;
  /** What failed, in order. */
  readonly errors: UpstreamError[];
}

/** Starts the plainest proxy that can be made of a transport: all that is here is what any of them must do. */
export async function startProxy(upstream: string, options: TransportOptions = {}): Promise<Proxy> {
  const to = createTransport(upstream, { redirects: 'pass', ...options });
  const errors: UpstreamError[] = [];
  onTestFinished(() => to.destroy());
  const port = await listen(
    createServer((request: IncomingMessage, response: ServerResponse) => {
      response.sendDate = false;
      const { method = '', url: path = '', rawHeaders } = request;
      const headers = endToEnd(rawHeaders, 'content-length');
      const call = to.dispatch(
        { method, path, headers, body: incomingBody(request) },
        {
          onHead(status, _headers, raw, reason) {
            response.writeHead(status, reason, endToEnd(raw));
            // Sends the head now. `flushHeaders` would send it as UTF-8.
            response.write(NOTHING);
          },
          onData: (piece) => response.write(piece),
          onEnd: () => void response.end(),
          onError(error) {
            errors.push(error);
            if (response.headersSent) response.destroy();
            else response.writeHead(502).end();
          },
        },
      );
      response.on('drain', () => call.resume());
      response.on('close', () => call.abort());
    }),
  );
  return { port, errors };
}

function endToEnd(raw: readonly string[], besides = ''): string[] {
  return raw.filter((_, index) => {
    const name = (raw[index - (index % 2)] ?? '').toLowerCase();
    return !HOP_BY_HOP.has(name) && name !== besides;
  });
}
