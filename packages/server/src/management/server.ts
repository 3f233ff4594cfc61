import { Readable } from 'node:stream';
import type { ErrorCode, Right } from '@sluice/contract';
import { MANAGEMENT_LISTENER, type RequestHead } from '../exchange/exchange.ts';
import type { AdmittedRequests } from '../http/admitted-requests.ts';
import { type BodyBudget, NO_MEMORY, RETRY_AFTER_SECONDS } from '../http/body-budget.ts';
import { UpstreamError } from '../http/client/errors.ts';
import { collectBody, drainRequestBody, hasBody, setBodyTimeout } from '../http/collect-body.ts';
import type { HeaderEdits } from '../http/exchange.ts';
import { editResponseHead } from '../http/filters/rewrite.ts';
import { createHostRule, type HostRule, type Rejection, refuseForwardedHost } from '../http/host-rule.ts';
import type { ListenerConnections } from '../http/listener-connections.ts';
import { withoutPrefix } from '../http/public-url.ts';
import { quotaOwner } from '../http/quota.ts';
import { createHostOriginGuard } from '../http/request-validation.ts';
import { sendBody } from '../http/response-body.ts';
import type { HttpServer } from '../http/server/http1-server.ts';
import { BLOCKED, createHttpServer, NO_CREDENTIAL, type ServeRequest } from '../http/server.ts';
import type { ListenerIdentity } from '../identity/identity.ts';
import type { Principal } from '../identity/principal.ts';
import { McpExchange } from '../mcp/exchange.ts';
import { OperationError } from '../registry/operation-error.ts';
import { UnavailableStoreError } from '../registry/store/store.ts';
import { RequestTelemetry, type RequestTelemetryParts } from '../telemetry/request-telemetry.ts';
import { ProvisioningError } from '../upstreams/grpc/provisioning.ts';
import { adminConsoleRoutes } from './admin-console.ts';
import { backupRoutes } from './backup.ts';
import { blockRoutes } from './blocks.ts';
import type { ManagementContext } from './context.ts';
import { diagnosticsRoutes } from './diagnostics.ts';
import { entryRoutes } from './entries.ts';
import { evaluatorRoutes } from './evaluators.ts';
import { eventRoutes } from './events.ts';
import { forwardRoutes } from './forwards.ts';
import { identityRoutes } from './identity/routes.ts';
import { inferenceRoutes } from './interactions.ts';
import { isLegacyPath, type LegacyBackendProxy } from './legacy-backend.ts';
import { logRoutes } from './logs.ts';
import { bindingRoutes, namespaceRoutes, warnPublicNamespace } from './namespaces.ts';
import { observabilityRoutes, prometheusRoutes } from './observability.ts';
import { PLUGIN_SERVICES, pluginRoutes, servePluginService } from './plugin-routes.ts';
import { referenceRoutes } from './reference.ts';
import { type ApiResponse, errorResponse, markStale, pathNotFound, withHeaders } from './responses.ts';
import { deniedResponse, missingRight, rejectedResponse } from './rights.ts';
import { parseLimit, type Route, Router } from './router.ts';
import { serviceRoutes } from './services.ts';
import { sessionRoutes } from './sign-in/session.ts';
import { stateRoutes } from './state.ts';
import { taskRoutes } from './tasks.ts';
import { timeSeriesRoutes } from './time-series.ts';
import { toolCallRoutes } from './tool-calls.ts';

/** Paths that monitoring requests every few seconds. */
const PROBES: ReadonlySet<string> = new Set(['/healthz', '/health', '/readyz', '/metrics']);

/** Paths of health checks, which any `Host` may request from other machines. */
const HEALTH_CHECKS: ReadonlySet<string> = new Set(['/healthz', '/health', '/readyz']);

/** Creates the telemetry of management requests. */
export function managementTelemetry(parts: RequestTelemetryParts): RequestTelemetry {
  return new RequestTelemetry(MANAGEMENT_LISTENER, 'service::mgmt::access', parts, PROBES);
}

/**
 * CORS headers of every management response. Without SERVICE_CORS_ORIGIN the origin is `*`; requests from foreign origins are
 * still rejected by the host and origin guard.
 */
function corsHeaders(corsOrigin: string | undefined): Record<string, string> {
  if (corsOrigin === undefined || corsOrigin === '*') return { 'access-control-allow-origin': '*' };
  return { 'access-control-allow-origin': corsOrigin, vary: 'Origin' };
}

/** Response to OPTIONS. */
const PREFLIGHT: ApiResponse = {
  status: 204,
  headers: {
    'access-control-allow-methods': 'GET, POST, PUT, PATCH, DELETE, OPTIONS',
    'access-control-allow-headers': 'Content-Type, Accept, Authorization',
  },
  body: '',
};

/** Functions that add the routes of a part of the API. */
const ROUTES: readonly ((router: Router, context: ManagementContext) => void)[] = [
  observabilityRoutes,
  namespaceRoutes,
  forwardRoutes,
  entryRoutes,
  serviceRoutes,
  evaluatorRoutes,
  bindingRoutes,
  identityRoutes,
  stateRoutes,
  pluginRoutes,
  prometheusRoutes,
  toolCallRoutes,
  taskRoutes,
  eventRoutes,
  logRoutes,
  timeSeriesRoutes,
  inferenceRoutes,
  referenceRoutes,
  backupRoutes,
  diagnosticsRoutes,
  blockRoutes,
  sessionRoutes,
  adminConsoleRoutes,
];

/** Options of {@link Management}. */
export interface ManagementOptions extends ManagementContext {
  /** Connections of all listeners. */
  readonly connections?: ListenerConnections | undefined;
  readonly admitted?: AdmittedRequests | undefined;
  /** Memory for request bodies. */
  readonly bodies: BodyBudget;
  readonly telemetry: RequestTelemetry;
  /** Decides who makes a request. */
  readonly identity: Pick<ListenerIdentity, 'authenticate'> & Partial<ListenerIdentity>;
  /** Serves the paths of the legacy backend. */
  readonly legacyBackend: Pick<LegacyBackendProxy, 'serve' | 'server'>;
  /** Serves the MCP endpoints of this listener; undefined if the pipeline does not serve MCP. */
  readonly serveMcp?: ServeRequest<McpExchange> | undefined;
  /** Milliseconds to receive a request body (default 300,000); proxied bodies have no such limit. */
  readonly bodyTimeoutMs?: number;
}

/** What decides which part of the API serves a request. */
type RoutedHead = Pick<RequestHead, 'method' | 'headers'>;

/** Paths that are served before their body is read, in place of a route. */
interface UnreadPaths {
  readonly right: Right;
  matches(head: RoutedHead, path: string): boolean;
  serve(exchange: McpExchange): void;
}

/** What serves a request: neither of both for an unknown path or method. */
interface Target {
  readonly right: Right;
  readonly unread: UnreadPaths | undefined;
  readonly route: Route | undefined;
}

/** What a person may read must not be in the cache of a browser or proxy when somebody else uses that. */
const NO_STORE = { 'cache-control': 'no-store' };
/** Methods whose bodies are read; those of others are discarded. */
const METHODS_WITH_BODY: ReadonlySet<string | undefined> = new Set(['POST', 'PUT', 'PATCH', 'DELETE', 'QUERY']);
const MAX_BODY_BYTES = 1024 * 1024;
const EMPTY = Buffer.alloc(0);

/**
 * The management API. Every response has the envelope and CORS headers. Internal errors are logged and returned without details.
 */
export class Management {
  /** The HTTP server. The caller listens and closes. */
  readonly server: HttpServer;
  /** The routes of the API. */
  readonly router: Router = new Router();
  readonly #unread: readonly UnreadPaths[] = [
    { right: 'change_registry', matches: isProxied, serve: (exchange) => this.#proxy(exchange) },
    {
      right: 'change_registry',
      matches: ({ method }, path) => method !== 'OPTIONS' && PLUGIN_SERVICES.test(path),
      serve: (exchange) => this.#servePlugin(exchange),
    },
    {
      right: 'change_registry',
      matches: ({ method }, path) => method !== 'OPTIONS' && MCP_PATH.test(path),
      serve: (exchange) => this.#serveMcp(exchange),
    },
  ];
  readonly #options: ManagementOptions;
  readonly #cors: Readonly<Record<string, string>>;
  /** Replaces the CORS headers of MCP responses. */
  readonly #corsEdits: HeaderEdits;
  readonly #bodyTimeoutMs: number;
  readonly #stopWarning: () => void;
  /** Checks `X-Forwarded-Host` of requests for the legacy backend, which gets it. */
  readonly #hostRule: HostRule;

  constructor(options: ManagementOptions) {
    const { allowedHosts, corsOrigin, consoleUrl: publicUrl } = options.config;
    this.#options = options;
    this.#hostRule = createHostRule({ allowedHosts, publicUrl });
    this.#cors = corsHeaders(corsOrigin);
    this.#corsEdits = { remove: new Set(Object.keys(this.#cors)), set: Object.entries(this.#cors).flat(), add: [] };
    this.#bodyTimeoutMs = options.bodyTimeoutMs ?? 300_000;
    this.#stopWarning = warnPublicNamespace(options.registry, options.log);
    for (const addRoutes of ROUTES) addRoutes(this.router, options);
    this.server = createHttpServer(
      {
        // `setBodyTimeout` limits bodies: the server's own limit would apply to proxied bodies too.
        readTimeoutMs: 0,
        tls: undefined,
        // To the legacy backend.
        passesOn: true,
        maxConnections: undefined,
        guard: createHostOriginGuard({ allowedHosts, corsOrigin, publicUrl }),
        connections: options.connections,
        probes: HEALTH_CHECKS,
        telemetry: options.telemetry,
        createExchange: (head, request, response) => new McpExchange(head, request, response),
        authenticate: options.identity.authenticate,
        identity: options.identity,
        blocks: options.storedBlocks.blocks,
        admitted: options.admitted,
        // The page that signs in must be shown in place of a credential that has expired. `#serve` checks the right again.
        requires: (head) => (options.may && this.#isOpen(head) ? 'open' : 'optional'),
        errorResponse: (message, { status }) => {
          const { headers, body } = errorResponse(CODES[status] ?? 'BAD_REQUEST', message);
          return { headers: Object.entries({ ...this.#cors, ...headers }).flat(), body };
        },
      },
      (exchange, rejection) => this.#serve(exchange, rejection),
    );
  }

  /** Stops everything but the server. */
  close(): void {
    this.#stopWarning();
  }

  #may(principal: Principal, right: Right): boolean {
    const { may } = this.#options;
    return may === undefined || may(principal, right);
  }

  #requireStill({ authenticated, head }: McpExchange, right: Right): void {
    const { identity, storedBlocks } = this.#options;
    const by = identity.reassess ? identity.reassess(authenticated, head.target) : authenticated;
    if (by && !storedBlocks.blocks.isBlocked(by.principal) && this.#may(by.principal, right)) return;
    throw new OperationError('FORBIDDEN', `${missingRight(right)} any more`);
  }

  #withoutPrefix(target: string): string {
    const { consoleUrl } = this.#options.config;
    return consoleUrl ? withoutPrefix(target, consoleUrl) : target;
  }

  #isOpen(head: RequestHead): boolean {
    const [path = ''] = this.#withoutPrefix(head.target).split('?', 1);
    return this.#find(head, path).right === 'open';
  }

  #find(head: RoutedHead, path: string): Target {
    const unread = this.#unread.find(({ matches }) => matches(head, path));
    const route = unread || !isDecodable(path) ? undefined : this.router.find(head.method, path);
    // An unknown path is not found only for those who may read, also with other methods than GET.
    const right = (unread ?? route)?.right ?? (head.method === 'OPTIONS' ? 'open' : 'read');
    return { right, unread, route };
  }

  #serve(exchange: McpExchange, rejection: Rejection | undefined): void {
    const { request, response, principal } = exchange;
    request.url = this.#withoutPrefix(request.url);
    const { method, url, socket } = request;
    const [path = ''] = url.split('?', 1);
    const send = (sent: ApiResponse): void => this.#send(exchange, sent);

    if (rejection) return send(rejectedResponse(rejection));
    const { right, unread, route } = this.#find(request, path);
    if (!this.#may(principal, right)) {
      drainRequestBody(request);
      const reason = principal.kind === 'anonymous' ? NO_CREDENTIAL : missingRight(right);
      exchange.facts.rejection = { evaluator: undefined, reason };
      return send(deniedResponse(principal, right));
    }
    if (unread) return unread.serve(exchange);
    setBodyTimeout(request, this.#bodyTimeoutMs, () => {
      // A started response cannot be replaced.
      if (response.headersSent) return void socket.destroy();
      request.persistent = false;
      send({ ...errorResponse('BAD_REQUEST', 'malformed request: Request Timeout'), status: 408 });
    });
    if (!isDecodable(path)) {
      drainRequestBody(request);
      return send(errorResponse('BAD_REQUEST', 'invalid path: expected percent-encoded UTF-8'));
    }
    const found = { path, route };
    if (!METHODS_WITH_BODY.has(method) || !hasBody(request.head)) {
      request.body.resume();
      return method === 'OPTIONS' ? send(PREFLIGHT) : this.#handle(exchange, found, EMPTY);
    }
    const memory = {
      budget: this.#options.bodies,
      response,
      owner: () => quotaOwner('', principal, exchange.head.address),
    };
    const maxBytes = route?.maxBytes ?? MAX_BODY_BYTES;
    collectBody(request, maxBytes, memory, {
      onBody: (body) => this.#handle(exchange, found, body.concat()),
      onTooLarge: () => {
        const message = `request body too large: the limit is ${maxBytes} bytes, which is fixed`;
        send(errorResponse('PAYLOAD_TOO_LARGE', message));
      },
      onNoMemory: () => send(retryLater(errorResponse('UNAVAILABLE', NO_MEMORY))),
    });
  }

  /** Proxies to a service of a plugin, which the headless distribution does not. */
  #servePlugin(exchange: McpExchange): void {
    const { request, response } = exchange;
    const { plugins, config, log } = this.#options;
    const ownHeaders = Object.entries(this.#cors).flat();
    const served =
      config.uiPath === undefined
        ? pathNotFound(request.url.split('?', 1)[0] ?? '')
        : servePluginService(request, response, { plugins, ownHeaders, log });
    if (typeof served === 'string') exchange.facts.upstream = served;
    else {
      drainRequestBody(request);
      this.#send(exchange, served);
    }
  }

  /** Serves MCP: for the console, which the browser lets reach no other origin. */
  #serveMcp(exchange: McpExchange): void {
    const { serveMcp } = this.#options;
    if (serveMcp) {
      editResponseHead(exchange.response, [this.#corsEdits]);
      return serveMcp(exchange, undefined);
    }
    drainRequestBody(exchange.request);
    this.#send(exchange, errorResponse('UNAVAILABLE', 'no listener of the pipeline serves MCP'));
  }

  /** Proxies to the legacy backend. */
  #proxy(exchange: McpExchange): void {
    const { request, facts } = exchange;
    const { legacyBackend } = this.#options;
    const refusal = refuseForwardedHost(this.#hostRule, request.socket.localAddress, request.headers);
    if (refusal) {
      drainRequestBody(request);
      return this.#send(exchange, errorResponse('FORBIDDEN', refusal.reason));
    }
    const isSent = legacyBackend.serve(exchange, Object.entries(this.#cors).flat());
    if (isSent) facts.upstream = legacyBackend.server;
    else facts.rejected = true;
  }

  #handle(exchange: McpExchange, { path, route }: { path: string; route: Route | undefined }, body: Buffer): void {
    const { request: http, principal, head } = exchange;
    const { method, url } = http;
    const send = (sent: ApiResponse): void => this.#send(exchange, sent);
    if (!route) return send(notFound(method, path, this.router.methods(path)));
    const query = new URLSearchParams(url.slice(path.length));
    const request = {
      http,
      path,
      principal,
      caller: exchange,
      address: head.address,
      name: route.name,
      origin: { actor: principal, reason: route.operation },
      may: (right: Right) => this.#may(principal, right),
      requireStill: (right: Right) => this.#requireStill(exchange, right),
      query: (parameter: string) => query.get(parameter) ?? undefined,
    };
    const handle = () =>
      Promise.try(() => {
        if (this.#options.storedBlocks.blocks.isBlocked(principal)) return rejectedResponse(BLOCKED);
        // Also where it has no effect: its sender expects one.
        parseLimit(request.query('limit'));
        return route.handle(request, body);
      }).catch((error) => this.#errorResponse(error, method, path));
    const refreshed = path.startsWith(API) ? this.#options.registry.refresh() : undefined;
    if (!refreshed) return void handle().then(send);
    // Without the database, the last known state is served. It may be reached again by the time of a change.
    void refreshed.then(handle, () => handle().then(markStale)).then(send);
  }

  #errorResponse(error: unknown, method: string, path: string): ApiResponse {
    const { log } = this.#options;
    if (error instanceof OperationError) return errorResponse(error.code, error.message, error.details);
    if (error instanceof UpstreamError || error instanceof ProvisioningError) {
      // Forwards log their own failures. The message has the service, address and status, no payload.
      if (error instanceof ProvisioningError) log.warn(`provisioning failed: ${error.message}`);
      return errorResponse('BAD_GATEWAY', error.message);
    }
    if (error instanceof UnavailableStoreError) return unavailable(error);
    log.error('request failed', { method, path, error });
    return errorResponse('INTERNAL', 'internal error; see the service log');
  }

  #send({ head, facts, response }: McpExchange, { status, headers, cookies = [], body }: ApiResponse): void {
    facts.rejected = status >= 400;
    const isStream = body instanceof Readable;
    // The client disconnected while the response was made, or its body took too long.
    if (response.destroyed || response.headersSent) return void (isStream && body.destroy());
    const length = isStream || status === 204 ? undefined : { 'content-length': String(Buffer.byteLength(body)) };
    const lines = Object.entries({ ...this.#cors, ...(this.#options.may && NO_STORE), ...headers, ...length }).flat();
    response.writeHead(status, [...lines, ...cookies.flatMap((cookie) => ['set-cookie', cookie])]);
    if (!isStream) return void response.end(body);
    if (head.method === 'HEAD') {
      body.destroy();
      return void response.end();
    }
    sendBody(body, response).catch((error) => this.#options.log.error('response failed', { error }));
  }
}

/** Whether a request is proxied to the legacy backend. CORS preflights are answered here. */
function isProxied({ method, headers }: RoutedHead, path: string): boolean {
  const isPreflight = method === 'OPTIONS' && headers['access-control-request-method'] !== undefined;
  return !isPreflight && isLegacyPath(method, path);
}

/** Codes of requests that end before they are handled. */
const CODES: Readonly<Record<number, ErrorCode>> = { 401: 'UNAUTHORIZED', 431: 'PAYLOAD_TOO_LARGE' };

/** Prefix of the paths that show what replicas share. */
const API = '/api/v1/';

/** Response to a change that was not stored because the database cannot be reached, or of which that is not known. */
function unavailable({ message, unknownCommit }: UnavailableStoreError): ApiResponse {
  const details = unknownCommit === undefined ? undefined : { outcome: 'unknown', commit: unknownCommit };
  return retryLater(errorResponse('UNAVAILABLE', message, details));
}

function retryLater(response: ApiResponse): ApiResponse {
  return withHeaders(response, { 'retry-after': RETRY_AFTER_SECONDS });
}

const MCP_PATH = /^\/api\/v1\/namespaces\/([^/]+)\/mcp\/?$/;

/** Returns the namespace whose MCP endpoint on the management listener this path is, as written; undefined for other paths. */
export function managementMcpNamespace(path: string): string | undefined {
  return MCP_PATH.exec(path)?.[1];
}

/** Returns whether a path is percent-encoded UTF-8. */
function isDecodable(path: string): boolean {
  try {
    decodeURI(path);
    return true;
  } catch {
    return false;
  }
}

/** Returns the response to a request without a route; 405 if other methods have one. */
function notFound(method: string, path: string, methods: readonly string[]): ApiResponse {
  if (methods.length === 0) return pathNotFound(path);
  const allow = [...methods, 'OPTIONS'].join(', ');
  const message = `method ${method} not allowed on ${path}; allowed: ${allow}`;
  return withHeaders(errorResponse('METHOD_NOT_ALLOWED', message), { allow });
}
