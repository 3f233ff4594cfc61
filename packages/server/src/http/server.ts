import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http';
import { Server as NetServer, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { ObserveRequest, RequestObservation } from '../telemetry/request-telemetry.ts';
import { formatAddress, type ListenAddress } from './address.ts';
import type { RequestLike, ResponseLike } from './context.ts';
import type { Rejection } from './host-rule.ts';
import { ListenerConnections } from './listener-connections.ts';
import { MAX_HEAD_BYTES } from './message-parser.ts';
import { drainRequestBody } from './request-body.ts';
import { AmbiguousRequestGuard, type HostOriginGuard } from './request-validation.ts';
import { createHttp1Server, type HttpServer, type ServerTls } from './server/http1-server.ts';

/** Options of all servers. */
interface ServerOptions {
  /** Milliseconds in which a client must send a whole request; 0 for no limit. */
  readonly readTimeoutMs: number;
  /** Checks Host and Origin. */
  readonly guard: HostOriginGuard;
  /** Starts the observation of a request, which ends with its response. */
  readonly observe: ObserveRequest;
  /** Paths of health checks, which any `Host` may request from other machines. */
  readonly probes?: ReadonlySet<string>;
  /** Connections of all listeners; by default they are not limited together. */
  readonly connections?: ListenerConnections | undefined;
  /** Rejects requests by their head: method, target, headers. */
  readonly restrict?: (method: string, target: string, headers: IncomingHttpHeaders) => Rejection | undefined;
}

/** Options of {@link createPipelineServer}. */
export interface PipelineServerOptions extends ServerOptions {
  readonly tls: ServerTls | undefined;
  /** Requests on further connections are rejected with 503. Undefined for the limit of all listeners. */
  readonly maxConnections: number | undefined;
}

/** Options of {@link createHttpServer}. */
export interface HttpServerOptions extends ServerOptions {
  /** Responses to data that is not a request. */
  readonly errorResponse: ErrorResponse;
}

/** Creates headers and body of an error response. */
export type ErrorResponse = (message: string) => {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
};

/** Longer than the idle timeout of proxies and load balancers, so that the service never closes a connection in use. */
const KEEP_ALIVE_MS = 75_000;
/** Limit for the head of a request. */
const HEADERS_MS = 60_000;

const TOO_MANY_CONNECTIONS: Rejection = { status: 503, reason: 'too many connections: try again later' };

/** Logged status of a request whose client disconnected before the response began. */
const CLIENT_CLOSED_REQUEST = 499;

/** Responds to a request. With a `rejection`, the rest of the request body is already being drained. */
export type ServeRequest<Request = RequestLike, Response = ResponseLike> = (
  request: Request,
  response: Response,
  observation: RequestObservation,
  rejection: Rejection | undefined,
) => void;

/** A response whose result is observed. */
interface ObservableResponse extends ResponseLike {
  readonly statusCode: number;
  /** The whole response was passed to the operating system. */
  readonly writableFinished: boolean;
}

/** Observes and checks a request, and passes it on. `excessive`: its connection is one too many. */
type ReceiveRequest<Request, Response> = (
  request: Request,
  response: Response,
  ambiguity: string | undefined,
  excessive: boolean,
) => void;

function requestReceiver<Request extends RequestLike, Response extends ObservableResponse>(
  { guard, probes, restrict, observe }: ServerOptions,
  serve: ServeRequest<Request, Response>,
): ReceiveRequest<Request, Response> {
  return (request, response, ambiguity, excessive) => {
    const { method = '', url: target = '/', headers, socket } = request;
    const observation = observe({ method, target, headers, client: socket.remoteAddress, inBatch: false });
    response.on('close', () => {
      observation.end(response.headersSent ? response.statusCode : CLIENT_CLOSED_REQUEST, response.writableFinished);
    });
    const restricted = restrict?.(method, target, headers);
    if (ambiguity !== undefined) {
      // What follows on the connection cannot be interpreted.
      response.shouldKeepAlive = false;
      request.resume();
      return serve(request, response, observation, restricted ?? { status: 400, reason: ambiguity });
    }
    const isProbe = probes?.has(target.split('?', 1)[0] ?? '');
    // Whoever restarts the service when it does not respond must not do so because it has many clients.
    const rejection =
      excessive && !isProbe
        ? TOO_MANY_CONNECTIONS
        : (guard(socket.localAddress, headers.host, headers.origin, isProbe) ?? restricted);
    if (excessive) response.shouldKeepAlive = false;
    if (rejection) drainRequestBody(request, response);
    serve(request, response, observation, rejection);
  };
}

/** Times of a server, in milliseconds. */
function timeouts(readTimeoutMs: number) {
  return {
    headMs: readTimeoutMs > 0 ? Math.min(readTimeoutMs, HEADERS_MS) : HEADERS_MS,
    // Timeouts are checked at this interval: often enough for a short one.
    checkMs: Math.max(100, Math.min(30_000, readTimeoutMs > 0 ? readTimeoutMs / 2 : 30_000)),
  };
}

/**
 * Creates the server of a pipeline listener. It observes all requests, checks them and passes them to `serve`. The caller
 * listens and closes. Part of the hot path.
 */
export function createPipelineServer(options: PipelineServerOptions, serve: ServeRequest): HttpServer {
  const { tls, readTimeoutMs, maxConnections, restrict, connections = unlimitedConnections() } = options;
  const { headMs, checkMs } = timeouts(readTimeoutMs);
  const connectStatus = restrict ? 403 : 400;
  const times = { keepAliveMs: KEEP_ALIVE_MS, headMs, requestMs: readTimeoutMs, checkMs };
  const receive = requestReceiver(options, serve);
  const server = createHttp1Server({ tls, connectStatus, ...times }, (request, response) =>
    receive(request, response, request.head.ambiguity, excess.size > 0 && excess.has(request.socket)),
  );
  const excess = connections.watch(server, tls !== undefined, maxConnections);
  return server;
}

/**
 * Creates a server with node:http, for requests that need all of its features. It observes all requests, checks them and
 * passes them to `serve`. The caller listens and closes.
 */
export function createHttpServer(
  options: HttpServerOptions,
  serve: ServeRequest<IncomingMessage, ServerResponse>,
): Server {
  const { readTimeoutMs, errorResponse, connections = unlimitedConnections() } = options;
  const { headMs, checkMs } = timeouts(readTimeoutMs);
  const server = createServer({
    keepAliveTimeout: KEEP_ALIVE_MS,
    noDelay: true,
    maxHeaderSize: MAX_HEAD_BYTES,
    // Node would reject a missing Host header itself, without a reason and unobserved.
    requireHostHeader: false,
    requestTimeout: readTimeoutMs,
    headersTimeout: headMs,
    connectionsCheckingInterval: checkMs,
  });
  const ambiguous = new AmbiguousRequestGuard();
  const receive = requestReceiver(options, serve);
  const excess = connections.watch(server, false);
  server.on('request', (request, response) =>
    receive(request, response, ambiguous.rejectionReason(request), excess.has(request.socket)),
  );
  // Node would reject unknown expectations itself; RFC 9110 allows to ignore them.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response));
  // Node would close the connection without a response.
  server.on('connect', (_request, socket) => {
    socket.on('error', () => undefined);
    respondAndClose(socket.resume(), 400, errorResponse('method CONNECT is not supported'));
  });
  rejectMalformedRequests(server, errorResponse);
  return server;
}

/** Responds to data that is not a request, unless the client would interpret the response as another one. */
function rejectMalformedRequests(server: Server, errorResponse: ErrorResponse): void {
  /** The latest response of each connection. */
  const latest = new WeakMap<Duplex, ServerResponse>();
  server.prependListener('request', (request, response) => latest.set(request.socket, response));
  server.on('clientError', (error: Error & { code?: string }, socket) => {
    // The client would interpret a second response as part of the first, or as the response to another request.
    if (isResponding(latest.get(socket)) && socket instanceof Socket) return socket.destroySoon();
    if (error.code === 'ECONNRESET') return socket.destroy();
    const timedOut = error.code === 'ERR_HTTP_REQUEST_TIMEOUT';
    rejectMalformed(socket, timedOut ? 408 : error.code === 'HPE_HEADER_OVERFLOW' ? 431 : 400, errorResponse);
  });
}

/** True while a response has started and either it or its request is incomplete. */
function isResponding(response: ServerResponse | undefined): boolean {
  return response?.headersSent === true && !(response.req.complete && response.writableFinished);
}

/** Rejects data that is not a request, or a request that is incomplete, and closes the connection. */
export function rejectMalformed(socket: Duplex, status: 400 | 408 | 431, errorResponse: ErrorResponse): void {
  // Already answered: the rest of the client's data causes errors too.
  if (socket.writableEnded && !socket.destroyed) return;
  const reason =
    status === 431
      ? `request headers too large: the limit is ${MAX_HEAD_BYTES} bytes, which is fixed`
      : STATUS_CODES[status];
  if (socket.writable) respondAndClose(socket, status, errorResponse(`malformed request: ${reason}`));
  else socket.destroy();
}

/** Time in which a client can read the response before its connection is closed. */
const LINGER_MS = 2_000;

function respondAndClose(socket: Duplex, status: number, { headers, body }: ReturnType<ErrorResponse>): void {
  const fields = { ...headers, 'content-length': String(Buffer.byteLength(body)), connection: 'close' };
  const head = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${head.join('')}\r\n${body}`);
  // Closing the connection while the client is still sending would discard the response.
  const lingerTimer = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once('close', () => clearTimeout(lingerTimer));
}

function unlimitedConnections(): ListenerConnections {
  return new ListenerConnections({ listeners: undefined, rejected: undefined });
}

/** A listening server. */
export interface Listener {
  /** The bound address, `host:port`. */
  readonly address: string;
  /**
   * Stops accepting connections, lets in-flight requests finish for at most `graceMs` milliseconds and then closes all
   * connections (decisions 1.1). `endRequests` is called before that; if it returns true, responses were written, and
   * clients get a second to read them. Resolves when no connection is open.
   */
  drain(graceMs: number, endRequests?: () => boolean): Promise<void>;
}

const SWEEP_MS = 50;

/** Time in which clients can read the responses of requests that were ended. */
const LAST_RESPONSES_MS = 1_000;

/** Binds a server. Rejects with the system error. `reusePort`: other processes listen on the same port. */
export function listen(server: HttpServer, { host, port }: ListenAddress, reusePort = false): Promise<Listener> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host, port, ...(reusePort && { reusePort }) }, () => {
      server.off('error', reject);
      // A connection that cannot be accepted, for lack of open files: the others continue.
      server.on('error', () => undefined);
      resolve({
        address: boundAddress(server),
        drain: (graceMs, endRequests) => drain(server, sockets, graceMs, endRequests),
      });
    });
  });
}

async function drain(
  server: HttpServer,
  sockets: ReadonlySet<Socket>,
  graceMs: number,
  endRequests: () => boolean = () => false,
): Promise<void> {
  if (!server.listening) return;
  // A kept-alive connection becomes idle after its response and would keep the server open. `close` and
  // `closeIdleConnections` of node:http treat a connection as idle while a slow client still reads its response: idle
  // connections are closed only when no response is buffered; until then only the listening socket is closed.
  const closed = new Promise<void>((resolve) => NetServer.prototype.close.call(server, () => resolve()));
  const sweep = setInterval(() => {
    for (const { writableLength } of sockets) if (writableLength > 0) return;
    server.closeIdleConnections();
  }, SWEEP_MS);
  let deadline = setTimeout(() => {
    if (!endRequests()) return server.closeAllConnections();
    deadline = setTimeout(() => server.closeAllConnections(), LAST_RESPONSES_MS);
  }, graceMs);
  await closed;
  clearInterval(sweep);
  clearTimeout(deadline);
  // Releases the timers of node:http.
  server.close();
}

function boundAddress(server: NetServer): string {
  const address = server.address();
  if (address === null || typeof address === 'string') return String(address);
  return formatAddress({ host: address.address, port: address.port });
}
