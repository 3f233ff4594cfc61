import type { IncomingHttpHeaders } from 'node:http';
import type { RequestHead } from '../exchange/exchange.ts';
import type { Authenticate, Authenticated, Rejected, Requirement } from '../identity/authenticator.ts';
import type { Blocks } from '../identity/blocks.ts';
import type { ListenerIdentity } from '../identity/identity.ts';
import type { RequestTelemetry } from '../telemetry/request-telemetry.ts';
import { formatAddress, type ListenAddress } from './address.ts';
import type { AdmittedRequests } from './admitted-requests.ts';
import { drainRequestBody } from './collect-body.ts';
import type { HttpExchange } from './exchange.ts';
import type { Rejection } from './host-rule.ts';
import { ListenerConnections } from './listener-connections.ts';
import type { HostOriginGuard } from './request-validation.ts';
import { createHttp1Server, type Http1ServerOptions, type HttpServer } from './server/http1-server.ts';
import type { ServerRequest } from './server/request.ts';
import type { ServerResponse } from './server/response.ts';

/** Options of {@link createHttpServer}. */
export interface HttpServerOptions<E extends HttpExchange>
  extends Pick<Http1ServerOptions, 'tls' | 'errorResponse' | 'passesOn' | 'isForReplicas'> {
  /** Milliseconds in which a client must send a whole request; 0 for no limit. */
  readonly readTimeoutMs: number;
  /** Checks Host and Origin. */
  readonly guard: HostOriginGuard;
  readonly telemetry: RequestTelemetry;
  /** Creates the exchange of a request when it arrives. */
  readonly createExchange: (head: RequestHead, request: ServerRequest, response: ServerResponse) => E;
  /** Decides who makes a request that has passed the checks. */
  readonly authenticate: Authenticate;
  /** Read for each request. By default nothing is taken out of its head, and the peer is the client. */
  readonly identity?: Partial<Omit<ListenerIdentity, 'authenticate' | 'requirement'>>;
  /** The blocked principals, whose requests are rejected. */
  readonly blocks?: Pick<Blocks, 'isBlocked'> | undefined;
  /** Gets the requests of this listener. */
  readonly admitted?: AdmittedRequests | undefined;
  /** Decides by its head whether a request is authenticated; `optional` by default. */
  readonly requires?: ((head: RequestHead) => Requirement | undefined) | undefined;
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
/** Why a request without a credential is rejected, for the log. */
export const NO_CREDENTIAL = 'there is no credential';
const UNAUTHENTICATED: Rejected = {
  kind: 'rejected',
  status: 401,
  reason: 'authentication required',
  headers: ['WWW-Authenticate', 'Bearer'],
  cause: NO_CREDENTIAL,
};

/** Rejects what a blocked principal requests. */
export const BLOCKED: Rejected & { readonly cause: string } = {
  kind: 'rejected',
  status: 401,
  reason: 'access is blocked',
  headers: ['WWW-Authenticate', 'Bearer error="invalid_token"'],
  cause: 'the principal is blocked',
};

/** Responds to a request. With a `rejection`, the rest of the request body is already being drained. */
export type ServeRequest<E extends HttpExchange> = (exchange: E, rejection: Rejection | undefined) => void;

/**
 * Creates the server of a listener. It creates the exchange of each request, checks the request, authenticates those that pass the
 * checks, and passes the exchange to `serve`. The caller listens and closes. Part of the hot path.
 */
export function createHttpServer<E extends HttpExchange>(
  options: HttpServerOptions<E>,
  serve: ServeRequest<E>,
): HttpServer {
  const { tls, readTimeoutMs, errorResponse, passesOn, isForReplicas, guard, telemetry, probes, restrict } = options;
  const { identity, authenticate, requires, createExchange, maxConnections } = options;
  const { blocks, connections = new ListenerConnections() } = options;
  const { listener } = telemetry;
  const scheme = tls === undefined ? 'http' : 'https';
  const receive = (request: ServerRequest, response: ServerResponse): void => {
    const { method, url: target, headers, socket } = request;
    const { ambiguity, credentials } = request.head;
    const peer = socket.remoteAddress;
    const addressOf = identity?.addressOf;
    const head = {
      method,
      target,
      headers,
      credentials,
      peer,
      address: addressOf ? addressOf(peer, headers['x-forwarded-for']?.toString()) : peer,
      listener,
      scheme,
      inBatch: false,
      startedAt: performance.now(),
    } as const;
    const exchange = createExchange(head, request, response);
    telemetry.begin(exchange);
    response.on('close', (end) => telemetry.end(exchange, end));
    const restricted = restrict?.(method, target, headers);
    if (ambiguity !== undefined) {
      // What follows on the connection cannot be interpreted.
      request.persistent = false;
      request.body.resume();
      return serve(exchange, restricted ?? unchecked(exchange, { status: 400, reason: ambiguity }));
    }
    const isExcessive = excess.size > 0 && excess.has(socket);
    const isProbe = probes?.has(target.split('?', 1)[0] ?? '');
    // A supervisor that restarts the service when it does not respond must not do so because it has many clients.
    const rejection =
      isExcessive && !isProbe
        ? unchecked(exchange, TOO_MANY_CONNECTIONS)
        : (guard(socket.localAddress, headers, isProbe) ?? restricted);
    if (isExcessive) request.persistent = false;
    if (rejection) return reject(exchange, rejection);
    check(exchange);
  };
  const check = (exchange: E): void => {
    const requirement = requires?.(exchange.head) ?? 'optional';
    if (requirement === 'open') return serve(exchange, undefined);
    const isRequired = requirement === 'required';
    const names = identity?.credentialHeaders;
    const authenticated = authenticate(exchange.head);
    if (!(authenticated instanceof Promise)) return admit(exchange, authenticated, isRequired);
    // Meanwhile the body stays unread.
    void authenticated
      .catch((error: unknown) => {
        exchange.facts.failure = error instanceof Error ? error.name : 'authentication_failed';
        return UNAVAILABLE;
      })
      .then((settled) => {
        if (exchange.response.destroyed) return;
        // Other names: the settings were replaced, and what was admitted before has been asked again.
        if (identity?.credentialHeaders === names) return admit(exchange, settled, isRequired);
        exchange.facts.failure = undefined;
        check(exchange);
      });
  };
  /** A rejection that precedes the check of the origin. */
  const unchecked = ({ request }: E, rejection: Rejection): Rejection => {
    const { socket, headers } = request;
    const isForeignOrigin = guard(socket.localAddress, headers)?.isForeignOrigin ?? false;
    return { ...rejection, isForeignOrigin };
  };
  const reject = (exchange: E, rejection: Rejection): void => {
    drainRequestBody(exchange.request);
    serve(exchange, rejection);
  };
  const admit = (exchange: E, authenticated: Authenticated | Rejected, isRequired: boolean): void => {
    const isMissing =
      isRequired && authenticated.kind === 'authenticated' && authenticated.principal.kind === 'anonymous';
    const isBlocked = authenticated.kind === 'authenticated' && blocks?.isBlocked(authenticated.principal);
    const settled = isBlocked ? BLOCKED : isMissing ? UNAUTHENTICATED : authenticated;
    if (settled.kind === 'rejected') {
      const { cause } = settled;
      if (cause !== undefined) exchange.facts.rejection = { evaluator: undefined, reason: cause };
      return reject(exchange, settled);
    }
    exchange.authenticated = settled;
    exchange.request.admitted = exchange;
    serve(exchange, undefined);
  };
  const server = createHttp1Server(
    {
      tls,
      errorResponse,
      passesOn,
      isForReplicas,
      get credentialHeaders() {
        return identity?.credentialHeaders;
      },
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
  const { served = 'mcp', namespaceOf = () => undefined } = identity ?? {};
  options.admitted?.add({
    revoke: (isRejected) =>
      server.revoke(({ authenticated, head }) => isRejected(authenticated, served, namespaceOf(head.target))),
  });
  return server;
}

/** A listening server. */
export interface Listener {
  /** The bound address, `host:port`. */
  readonly address: string;
  /**
   * Stops accepting connections, lets in-flight requests finish for at most `graceMs` milliseconds and then closes all
   * connections. `endRequests` is called before that; if it returns true, responses were written, and clients get a second to
   * read them. Resolves when no connection is open.
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

function boundAddress(server: HttpServer): string {
  const address = server.address();
  if (address === null || typeof address === 'string') return String(address);
  return formatAddress({ host: address.address, port: address.port });
}
