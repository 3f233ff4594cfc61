import type { IncomingHttpHeaders } from 'node:http';
import type { Server as NetServer } from 'node:net';
import type { RequestHead } from '../exchange/head.ts';
import type { Authenticate, Rejected, Requirement } from '../identity/authenticator.ts';
import type { Principal } from '../identity/principal.ts';
import { CLIENT_CLOSED_REQUEST } from '../telemetry/metrics/request-metrics.ts';
import type { ObserveRequest, RequestObservation } from '../telemetry/request-telemetry.ts';
import { formatAddress, type ListenAddress } from './address.ts';
import type { Rejection } from './host-rule.ts';
import { ListenerConnections } from './listener-connections.ts';
import { drainRequestBody } from './request-body.ts';
import type { HostOriginGuard } from './request-validation.ts';
import { createHttp1Server, type Http1ServerOptions, type HttpServer } from './server/http1-server.ts';
import type { ServerRequest } from './server/request.ts';
import type { ServerResponse } from './server/response.ts';

/** Options of {@link createHttpServer}. */
export interface HttpServerOptions
  extends Pick<Http1ServerOptions, 'tls' | 'errorResponse' | 'passesOn' | 'isForReplicas'> {
  /** Milliseconds in which a client must send a whole request; 0 for no limit. */
  readonly readTimeoutMs: number;
  /** Checks Host and Origin. */
  readonly guard: HostOriginGuard;
  /** Starts the observation of a request, which ends with its response. */
  readonly observe: ObserveRequest;
  /** Decides who makes a request that has passed the checks. */
  readonly authenticate: Authenticate;
  /** Decides by its head whether a request is authenticated; `optional` by default. */
  readonly requires?: (head: RequestHead) => Requirement;
  /** Paths of health checks, which any `Host` may request from other machines. */
  readonly probes?: ReadonlySet<string>;
  /** Connections of all listeners; by default they are not limited together. */
  readonly connections?: ListenerConnections | undefined;
  /** Requests on further connections are rejected with 503. Undefined for the limit of all listeners. */
  readonly maxConnections: number | undefined;
  /** Rejects requests by their head: method, target, headers. */
  readonly restrict?: (method: string, target: string, headers: IncomingHttpHeaders) => Rejection | undefined;
}

/** Longer than the idle timeout of proxies and load balancers, so that the service never closes a connection in use. */
const KEEP_ALIVE_MS = 75_000;
/** Limit for the head of a request. */
const HEADERS_MS = 60_000;

const TOO_MANY_CONNECTIONS: Rejection = { status: 503, reason: 'too many connections: try again later' };

/** The credential cannot be verified. */
const UNAVAILABLE: Rejected = {
  kind: 'rejected',
  status: 503,
  reason: 'authentication is not available: try again later',
  headers: ['Retry-After', '1'],
};
const UNAUTHENTICATED: Rejection = {
  status: 401,
  reason: 'authentication required',
  headers: ['WWW-Authenticate', 'Bearer'],
};

/** Responds to a request. With a `rejection`, the rest of the request body is already being drained. */
export type ServeRequest = (
  request: ServerRequest,
  response: ServerResponse,
  observation: RequestObservation,
  rejection: Rejection | undefined,
) => void;

/**
 * Creates the server of a listener. It observes all requests, checks them, authenticates those that pass the checks, and passes
 * them to `serve`. The caller listens and closes. Part of the hot path.
 */
export function createHttpServer(options: HttpServerOptions, serve: ServeRequest): HttpServer {
  const { tls, readTimeoutMs, errorResponse, passesOn, isForReplicas, guard, observe, probes, restrict } = options;
  const { authenticate, requires, connections = unlimitedConnections(), maxConnections } = options;
  const receive = (request: ServerRequest, response: ServerResponse): void => {
    const { method, url: target, headers, socket } = request;
    const { ambiguity } = request.head;
    const observation = observe({ method, target, headers, address: socket.remoteAddress, inBatch: false });
    response.on('close', () => {
      observation.end(response.headersSent ? response.statusCode : CLIENT_CLOSED_REQUEST, response.writableFinished);
    });
    const restricted = restrict?.(method, target, headers);
    const unchecked = (rejection: Rejection): Rejection => ({
      ...rejection,
      isForeignOrigin: guard(socket.localAddress, headers.host, headers.origin)?.isForeignOrigin ?? false,
    });
    if (ambiguity !== undefined) {
      // What follows on the connection cannot be interpreted.
      response.shouldKeepAlive = false;
      request.resume();
      return serve(request, response, observation, restricted ?? unchecked({ status: 400, reason: ambiguity }));
    }
    const isExcessive = excess.size > 0 && excess.has(socket);
    const isProbe = probes?.has(target.split('?', 1)[0] ?? '');
    // Whoever restarts the service when it does not respond must not do so because it has many clients.
    const rejection =
      isExcessive && !isProbe
        ? unchecked(TOO_MANY_CONNECTIONS)
        : (guard(socket.localAddress, headers.host, headers.origin, isProbe) ?? restricted);
    if (isExcessive) response.shouldKeepAlive = false;
    if (rejection) return reject(request, response, observation, rejection);
    const requirement = requires?.(observation.head) ?? 'optional';
    if (requirement === 'open') return serve(request, response, observation, undefined);
    const isRequired = requirement === 'required';
    const authenticated = authenticate(observation.head);
    if (!(authenticated instanceof Promise)) return admit(request, response, observation, authenticated, isRequired);
    // Meanwhile the body stays unread.
    void authenticated
      .catch((error: unknown) => {
        observation.failure = error instanceof Error ? error.name : 'authentication_failed';
        return UNAVAILABLE;
      })
      .then((settled) => {
        if (!response.destroyed) admit(request, response, observation, settled, isRequired);
      });
  };
  const reject = (
    request: ServerRequest,
    response: ServerResponse,
    observation: RequestObservation,
    rejection: Rejection,
  ): void => {
    drainRequestBody(request);
    serve(request, response, observation, rejection);
  };
  const admit = (
    request: ServerRequest,
    response: ServerResponse,
    observation: RequestObservation,
    authenticated: Principal | Rejected,
    isRequired: boolean,
  ): void => {
    if (authenticated.kind === 'rejected') return reject(request, response, observation, authenticated);
    if (authenticated.kind === 'anonymous' && isRequired)
      return reject(request, response, observation, UNAUTHENTICATED);
    observation.principal = authenticated;
    serve(request, response, observation, undefined);
  };
  const server = createHttp1Server(
    {
      tls,
      errorResponse,
      passesOn,
      isForReplicas,
      connectStatus: restrict ? 403 : 400,
      keepAliveMs: KEEP_ALIVE_MS,
      headMs: readTimeoutMs > 0 ? Math.min(readTimeoutMs, HEADERS_MS) : HEADERS_MS,
      requestMs: readTimeoutMs,
      // Often enough for a short timeout.
      checkMs: Math.max(100, Math.min(30_000, readTimeoutMs > 0 ? readTimeoutMs / 2 : 30_000)),
    },
    receive,
  );
  const excess = connections.watch(server, tls !== undefined, maxConnections);
  return server;
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
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host, port, ...(reusePort && { reusePort }) }, () => {
      server.off('error', reject);
      // A connection that cannot be accepted, for lack of open files: the others continue.
      server.on('error', () => undefined);
      resolve({
        address: boundAddress(server),
        drain: (graceMs, endRequests) => drain(server, graceMs, endRequests),
      });
    });
  });
}

async function drain(server: HttpServer, graceMs: number, endRequests: () => boolean = () => false): Promise<void> {
  if (!server.listening) return;
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  // A kept-alive connection becomes idle after its response and would keep the server open.
  const sweep = setInterval(() => server.closeIdleConnections(), SWEEP_MS);
  let deadline = setTimeout(() => {
    if (!endRequests()) return server.closeAllConnections();
    deadline = setTimeout(() => server.closeAllConnections(), LAST_RESPONSES_MS);
  }, graceMs);
  await closed;
  clearInterval(sweep);
  clearTimeout(deadline);
}

function boundAddress(server: NetServer): string {
  const address = server.address();
  if (address === null || typeof address === 'string') return String(address);
  return formatAddress({ host: address.address, port: address.port });
}
