import { once } from 'node:events';
import { createServer, type IncomingMessage, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { listen } from '../../../test/fixtures/http-server.ts';

/** A forward proxy as in company networks: it passes requests with whole URLs on, and opens tunnels for CONNECT. */
export interface TestProxy {
  readonly url: string;
  readonly port: number;
  /** First lines of the requests to it, without the version: `CONNECT crm.test:443`, `POST http://crm.test/mcp`. */
  readonly requests: readonly string[];
  /** Credentials of the last request. */
  readonly authorization: string | undefined;
  close(): Promise<void>;
}

/** Options of {@link startProxy}. */
export interface TestProxyOptions {
  /** Ports of loopback by host name; other hosts are connected as they are. */
  readonly hosts?: Readonly<Record<string, number>>;
  /** Expected `Proxy-Authorization`; others get 407. */
  readonly credentials?: string;
}

/** Starts it on the loopback interface. */
export async function startProxy({ hosts = {}, credentials }: TestProxyOptions = {}): Promise<TestProxy> {
  const requests: string[] = [];
  const sockets = new Set<Socket>();
  let authorization: string | undefined;
  const accepts = ({ method, url, headers }: IncomingMessage): boolean => {
    requests.push(`${method} ${url}`);
    authorization = headers['proxy-authorization'];
    return credentials === undefined || authorization === credentials;
  };
  const targetOf = (url: URL) => ({
    host: url.hostname in hosts ? '127.0.0.1' : url.hostname,
    port: hosts[url.hostname] ?? Number(url.port || 80),
  });
  const server = createServer((incoming, outgoing) => {
    if (!accepts(incoming)) return outgoing.writeHead(407, { 'proxy-authenticate': 'Basic' }).end();
    const url = new URL(incoming.url ?? '');
    const { 'proxy-authorization': _credentials, ...headers } = incoming.headers;
    const options = {
      ...targetOf(url),
      path: url.pathname + url.search,
      method: incoming.method,
      headers,
      agent: false,
    };
    const forwarded = request(options, (response) => {
      outgoing.writeHead(response.statusCode ?? 0, response.headers).flushHeaders();
      response.pipe(outgoing);
    });
    forwarded.on('error', () => outgoing.destroy());
    outgoing.on('close', () => forwarded.destroy());
    return incoming.pipe(forwarded);
  });
  server.on('connection', (socket) => sockets.add(socket));
  server.on('connect', (incoming, near: Socket) => {
    near.on('error', () => undefined);
    if (!accepts(incoming)) return near.end('HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n');
    const { host, port } = targetOf(new URL(`http://${incoming.url}`));
    const far = connect({ host, port }, () => {
      near.write('HTTP/1.1 200 Connection Established\r\n\r\n');
      near.pipe(far).pipe(near);
    });
    far.on('error', () => near.end('HTTP/1.1 502 Bad Gateway\r\n\r\n'));
    near.on('close', () => far.destroy());
    return far;
  });
  const port = await listen(server, 0);
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    requests,
    get authorization() {
      return authorization;
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
