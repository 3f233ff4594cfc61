import { createServer, type IncomingMessage, type Server, type ServerOptions, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, Server as NetServer, type Socket } from 'node:net';
import type { ListenAddress } from './address.ts';
import { drainRequestBody } from './request-body.ts';
import { AmbiguousRequestGuard } from './request-validation.ts';

/** How the connections of one listener are kept. */
export interface ConnectionOptions {
  /** PEM texts; undefined for plain HTTP. */
  readonly tls: { readonly cert: string; readonly key: string } | undefined;
  /** How long a client may take to send its whole request, in milliseconds; 0 for as long as it goes on sending. */
  readonly readTimeoutMs: number;
  /** Those beyond it are answered 503. */
  readonly maxConnections: number | undefined;
}

/** Longer than proxies and load balancers keep their side, so that it is never we who close a connection in use. */
const KEEP_ALIVE_MS = 75_000;
/** What the head of a request may take at most. */
const HEADERS_MS = 60_000;

/** So many at a time are told that there are too many; others are let go without a word. */
const MAX_REJECTED = 100;

const TOO_MANY_CONNECTIONS: Refusal = { status: 503, reason: 'too many connections: try again later' };

/** Why a request is not served. */
export interface Refusal {
  readonly status: number;
  readonly reason: string;
}

/** Serves a request, or says why it is not served; then what is left of its body is no concern of it. */
export type ServeRequest = (request: IncomingMessage, response: ServerResponse, refusal: Refusal | undefined) => void;

/** A server of HTTP/1.1 that hands requests to `serve`. The caller listens and closes. */
export function createHttpServer(options: ConnectionOptions, serve: ServeRequest): Server {
  const { tls, readTimeoutMs, maxConnections } = options;
  const settings: ServerOptions = {
    keepAliveTimeout: KEEP_ALIVE_MS,
    noDelay: true,
    // Without a host, Node would answer without a reason and nobody would hear of it.
    requireHostHeader: false,
    requestTimeout: readTimeoutMs,
    headersTimeout: readTimeoutMs > 0 ? Math.min(readTimeoutMs, HEADERS_MS) : HEADERS_MS,
    // What is due is looked for as often, so that a short limit is kept.
    connectionsCheckingInterval: Math.max(100, Math.min(30_000, readTimeoutMs > 0 ? readTimeoutMs / 2 : 30_000)),
  };
  const server = tls ? createTlsServer({ ...settings, ...tls, ALPNProtocols: ['http/1.1'] }) : createServer(settings);
  const crowd = maxConnections === undefined ? undefined : limited(server, maxConnections, tls !== undefined);
  const unclear = new AmbiguousRequestGuard();
  server.on('request', (request, response) => {
    const reason = unclear.reasonFor(request);
    const refusal =
      reason !== undefined ? { status: 400, reason } : crowd?.has(request.socket) ? TOO_MANY_CONNECTIONS : undefined;
    if (refusal) {
      // Nothing that follows on the connection would be served either.
      response.shouldKeepAlive = false;
      // Where it is not clear what follows, it is not waited for.
      if (reason === undefined) drainRequestBody(request, response);
      else request.resume();
    }
    serve(request, response, refusal);
  });
  // Node would answer an expectation that it does not know by itself; it may be ignored.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response));
  // Node would end the connection without a word.
  server.on('connect', (_request, socket) => {
    socket.on('error', () => undefined).end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n');
  });
  return server;
}

/** The connections beyond the limit, which a server has to let in to say so. */
function limited(server: Server, most: number, secure: boolean): ReadonlySet<Socket> {
  const beyond = new Set<Socket>();
  let open = 0;
  server.on(secure ? 'secureConnection' : 'connection', (socket: Socket): unknown => {
    if (open >= most) {
      if (beyond.size >= MAX_REJECTED) return socket.destroy();
      beyond.add(socket);
      return socket.once('close', () => beyond.delete(socket));
    }
    open++;
    return socket.once('close', () => open--);
  });
  return beyond;
}

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
