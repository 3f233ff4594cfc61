import { createServer, type IncomingMessage, type Server, type ServerOptions, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { Server as NetServer, type Socket } from 'node:net';
import { formatAddress, type ListenAddress } from './address.ts';
import { drainRequestBody } from './request-body.ts';
import { AmbiguousRequestGuard } from './request-validation.ts';

/** Connection settings of a listener. */
export interface ConnectionOptions {
  /** PEM texts; undefined for plain HTTP. */
  readonly tls: { readonly cert: string; readonly key: string } | undefined;
  /** Milliseconds in which a client must send a whole request; 0 for no limit. */
  readonly readTimeoutMs: number;
  /** Requests on further connections are rejected with 503. */
  readonly maxConnections: number | undefined;
}

/** Longer than the idle timeout of proxies and load balancers, so that the service never closes a connection in use. */
const KEEP_ALIVE_MS = 75_000;
/** Limit for the head of a request. */
const HEADERS_MS = 60_000;

/** Connections beyond the limit that receive a response; further ones are closed at once. */
const MAX_REJECTED = 100;

const TOO_MANY_CONNECTIONS: Refusal = { status: 503, reason: 'too many connections: try again later' };

/** Reason why a request is rejected before it is served. */
export interface Refusal {
  readonly status: number;
  readonly reason: string;
}

/** Responds to a request. With a `refusal`, the rest of the request body is already taken care of. */
export type ServeRequest = (request: IncomingMessage, response: ServerResponse, refusal: Refusal | undefined) => void;

/** Creates an HTTP/1.1 server that passes requests to `serve`. The caller listens and closes. */
export function createHttpServer(options: ConnectionOptions, serve: ServeRequest): Server {
  const { tls, readTimeoutMs, maxConnections } = options;
  const settings: ServerOptions = {
    keepAliveTimeout: KEEP_ALIVE_MS,
    noDelay: true,
    // Node would reject a missing Host header itself, without a reason and unobserved.
    requireHostHeader: false,
    requestTimeout: readTimeoutMs,
    headersTimeout: readTimeoutMs > 0 ? Math.min(readTimeoutMs, HEADERS_MS) : HEADERS_MS,
    // Timeouts are checked at this interval: often enough for a short one.
    connectionsCheckingInterval: Math.max(100, Math.min(30_000, readTimeoutMs > 0 ? readTimeoutMs / 2 : 30_000)),
  };
  const server = tls ? createTlsServer({ ...settings, ...tls, ALPNProtocols: ['http/1.1'] }) : createServer(settings);
  const excess =
    maxConnections === undefined ? undefined : excessConnections(server, maxConnections, tls !== undefined);
  const guard = new AmbiguousRequestGuard();
  server.on('request', (request, response) => {
    const reason = guard.reasonFor(request);
    const refusal =
      reason !== undefined ? { status: 400, reason } : excess?.has(request.socket) ? TOO_MANY_CONNECTIONS : undefined;
    if (refusal) {
      // No further request on the connection would be served.
      response.shouldKeepAlive = false;
      // After an ambiguous request, what follows on the connection cannot be interpreted.
      if (reason === undefined) drainRequestBody(request, response);
      else request.resume();
    }
    serve(request, response, refusal);
  });
  // Node would reject unknown expectations itself; RFC 9110 allows to ignore them.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response));
  // Node would close the connection without a response.
  server.on('connect', (_request, socket) => {
    socket.on('error', () => undefined).end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n');
  });
  return server;
}

/** Returns the set of open connections beyond the limit: they are accepted in order to reject their requests. */
function excessConnections(server: Server, limit: number, secure: boolean): ReadonlySet<Socket> {
  const excess = new Set<Socket>();
  let open = 0;
  server.on(secure ? 'secureConnection' : 'connection', (socket: Socket): unknown => {
    if (open >= limit) {
      if (excess.size >= MAX_REJECTED) return socket.destroy();
      excess.add(socket);
      return socket.once('close', () => excess.delete(socket));
    }
    open++;
    return socket.once('close', () => open--);
  });
  return excess;
}

/** A listening server. */
export interface Listener {
  /** The bound address, `host:port`. */
  readonly address: string;
  /**
   * Stops accepting connections, lets in-flight requests finish for at most `graceMs` milliseconds and then closes all
   * connections (decisions 1.1). Resolves when no connection is open.
   */
  drain(graceMs: number): Promise<void>;
}

const SWEEP_MS = 50;

/** Binds a server. Rejects with the system error. */
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
      resolve({ address: boundAddress(server), drain: (graceMs) => drain(server, sockets, graceMs) });
    });
  });
}

async function drain(server: Server, sockets: ReadonlySet<Socket>, graceMs: number): Promise<void> {
  if (!server.listening) return;
  // A kept-alive connection becomes idle after its response and would keep the server open. `close` and
  // `closeIdleConnections` of node:http treat a connection as idle while a slow client still reads its response: idle
  // connections are closed only when no response is buffered; until then only the listening socket is closed.
  const closed = new Promise<void>((resolve) => NetServer.prototype.close.call(server, () => resolve()));
  const sweep = setInterval(() => {
    for (const { writableLength } of sockets) if (writableLength > 0) return;
    server.closeIdleConnections();
  }, SWEEP_MS);
  const deadline = setTimeout(() => server.closeAllConnections(), graceMs);
  await closed;
  clearInterval(sweep);
  clearTimeout(deadline);
  // Releases the timers of node:http.
  server.close();
}

function boundAddress(server: Server): string {
  const address = server.address();
  if (address === null || typeof address === 'string') return String(address);
  return formatAddress({ host: address.address, port: address.port });
}
