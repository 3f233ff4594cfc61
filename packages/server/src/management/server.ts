import { type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { ERROR_STATUS, operations } from '@sluice/contract';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import fastify from 'fastify';
import { UpstreamError } from '../http/client/errors.ts';
import type { HostOriginGuard } from '../http/host-origin-guard.ts';
import { BodyDeadlines, collectBody, drainRequestBody, loggedStatus } from '../http/request-body.ts';
import { AmbiguousRequestGuard } from '../http/request-validation.ts';
import { EvaluatorsError } from '../policy/revisions.ts';
import { RegistryError } from '../registry/operations.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import {
  type ObserveRequest,
  type RequestObservation,
  type RequestTelemetryParts,
  requestObserver,
} from '../telemetry/request-telemetry.ts';
import { ProvisioningError } from '../upstreams/grpc/provisioning.ts';
import type { ManagementContext } from './context.ts';
import { entryRoutes } from './entries.ts';
import { evaluatorRoutes } from './evaluators.ts';
import { forwardRoutes } from './forwards.ts';
import { inferenceConfigRoutes, interactionRoutes } from './interactions.ts';
import { isLegacyPath, type LegacyBackendProxy } from './legacy-backend.ts';
import { bindingRoutes, namespaceRoutes, warnOfPublicNamespace } from './namespaces.ts';
import { healthRoutes, metricsRoutes, prometheusRoutes, referenceRoutes, statisticsRoutes } from './observability.ts';
import { errorEnvelope, RequestError, sendError } from './route.ts';
import { serviceRoutes } from './services.ts';
import { toolCallRoutes } from './tool-calls.ts';

/**
 * Returns a function that looks up the methods of a path, in the order of registration, for the `Allow` header of a 405;
 * undefined for a path without routes (decisions 4.1). Must be called before routes are added.
 */
function trackMethods(app: FastifyInstance): (path: string) => string[] | undefined {
  const routes = new Map<string, { segments: string[]; methods: Set<string> }>();
  app.addHook('onRoute', ({ url, method }) => {
    const route = routes.get(url) ?? { segments: segmentsOf(url), methods: new Set<string>() };
    routes.set(url, route);
    for (const each of [method].flat()) route.methods.add(each);
  });
  return (path) => {
    const segments = segmentsOf(path);
    for (const route of routes.values()) {
      if (matches(route.segments, segments)) return [...route.methods, 'OPTIONS'];
    }
    return undefined;
  };
}

function segmentsOf(path: string): string[] {
  const segments = path.split('/');
  if (segments.length > 2 && segments.at(-1) === '') segments.pop();
  return segments;
}

function matches(route: readonly string[], path: readonly string[]): boolean {
  if (route.at(-1) === '*')
    return path.length >= route.length && matches(route.slice(0, -1), path.slice(0, route.length - 1));
  return route.length === path.length && route.every((segment, at) => segment.startsWith(':') || segment === path[at]);
}

/**
 * CORS headers of every management response (decisions 4.1). Without SERVICE_CORS_ORIGIN the origin is `*`; requests from
 * foreign origins are still rejected by the host and origin guard.
 */
function corsHeaders(corsOrigin: string | undefined): Record<string, string> {
  if (corsOrigin === undefined || corsOrigin === '*') return { 'access-control-allow-origin': '*' };
  return { 'access-control-allow-origin': corsOrigin, vary: 'Origin' };
}

/** Additional headers of the response to OPTIONS (decisions 4.1). */
const PREFLIGHT_HEADERS: Readonly<Record<string, string>> = {
  'access-control-allow-methods': 'GET, POST, PUT, DELETE, OPTIONS',
  'access-control-allow-headers': 'Content-Type, Accept, Authorization',
};

/** Paths that monitoring requests every few seconds. */
const PROBES: ReadonlySet<string> = new Set(['/healthz', '/health', '/readyz', '/metrics']);

/** Creates the observer of management requests. */
export function managementObserver(parts: RequestTelemetryParts): ObserveRequest {
  return requestObserver('management', 'service::mgmt::access', parts, PROBES);
}

/** Starts observing a request, until its response ends. */
function observed({ raw }: FastifyRequest, response: ServerResponse, observe: ObserveRequest): RequestObservation {
  const { method = '', url: target = '/', headers, socket } = raw;
  const observation = observe({ method, target, headers, client: socket.remoteAddress, inBatch: false });
  response.on('close', () => {
    if (response.statusCode >= 400) observation.rejected = true;
    observation.end(loggedStatus(response), response.writableFinished);
  });
  return observation;
}

/** Time in which a client can read the response before its connection is closed. */
const LINGER_MS = 2_000;

/** Responds to bytes that are not a valid request, or to a timeout, and closes the connection. */
function rejectUnreadable(
  error: Error & { code?: string },
  socket: Duplex,
  cors: Readonly<Record<string, string>>,
): void {
  // Already answered: the rest of the client's data causes errors too.
  if (socket.writableEnded && !socket.destroyed) return;
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  const status = error.code === 'HPE_HEADER_OVERFLOW' ? 431 : error.code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 408 : 400;
  endWith(socket, status, `malformed request: ${STATUS_CODES[status]}`, cors);
}

/** Rejects a CONNECT request, which Node.js leaves unanswered, and closes the connection. */
function rejectTunnel(socket: Duplex, cors: Readonly<Record<string, string>>): void {
  socket.on('error', () => undefined).resume();
  endWith(socket, 400, 'method CONNECT is not supported', cors);
}

function endWith(socket: Duplex, status: number, message: string, cors: Readonly<Record<string, string>>): void {
  const body = errorEnvelope('BAD_REQUEST', message);
  const headers = Object.entries({
    ...cors,
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close',
  });
  const head = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${head}\r\n${body}`);
  // Closing the connection while the client is still sending would discard the response.
  const late = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once('close', () => clearTimeout(late));
}

/** Options of {@link createManagement}. */
export interface ManagementOptions extends ManagementContext {
  readonly log: TargetLogger;
  /** Checks Host and Origin. */
  readonly guard: HostOriginGuard;
  readonly observe: ObserveRequest;
  /** Serves the paths of the legacy backend. */
  readonly legacyBackend: Pick<LegacyBackendProxy, 'serve' | 'server'>;
  /** SERVICE_CORS_ORIGIN: `*` or one origin. */
  readonly corsOrigin: string | undefined;
  /** Largest request body in bytes (default 1 MiB, decisions 8). */
  readonly bodyLimit?: number;
  /** Milliseconds to receive a request body (default 300,000); proxied bodies have no such limit. */
  readonly bodyTimeoutMs?: number;
}

/** Time to receive the head of a request. */
const HEADERS_MS = 60_000;

/**
 * Creates the management API (specification, "Endpoints"; decisions 4.1 to 4.4) as a Fastify app that does not listen yet;
 * the caller closes it. Every response has the envelope and CORS headers. Internal errors are logged and returned without
 * details.
 */
export function createManagement(options: ManagementOptions): FastifyInstance {
  const {
    log,
    registry,
    guard,
    observe,
    legacyBackend,
    corsOrigin,
    bodyLimit = 1024 * 1024,
    bodyTimeoutMs = 300_000,
  } = options;
  const cors = corsHeaders(corsOrigin);
  /** The latest response of each connection. */
  const latest = new WeakMap<Socket, ServerResponse>();
  const ambiguous = new AmbiguousRequestGuard();

  const app = fastify({
    bodyLimit,
    // `deadlines` limits bodies: the server's own limit would apply to proxied bodies too.
    requestTimeout: 0,
    // Node.js would respond without the envelope; `admit` rejects a missing host instead.
    http: { requireHostHeader: false, headersTimeout: HEADERS_MS },
    // Health checks work until the listener is closed.
    return503OnClosing: false,
    // A name of 256 characters takes up to 3 KiB in a URL; the size of the head is the limit.
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 64 * 1024 },
    frameworkErrors: (_error, request, reply) => {
      const observation = observed(request, reply.raw, observe);
      if (!admit(request, reply) || proxied(request, reply, observation)) return;
      drainRequestBody(request.raw, reply.raw);
      sendError(reply, 'BAD_REQUEST', 'invalid path: expected percent-encoded UTF-8');
    },
    clientErrorHandler: (error, socket) => {
      // During a response the client would take a second one as part of it, or as the response to another request.
      if (isResponding(latest.get(socket))) socket.destroySoon();
      else rejectUnreadable(error, socket, cors);
    },
  });
  // Node.js would reject an unknown expectation without the envelope; it may be ignored.
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response));
  app.server.on('connect', (_request, socket) => rejectTunnel(socket, cors));
  const deadlines = new BodyDeadlines(bodyTimeoutMs, ({ socket }, response) => {
    // A started response cannot be replaced.
    if (response.headersSent) socket.destroy();
    else rejectUnreadable(Object.assign(new Error('late'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' }), socket, cors);
  });
  // Before any handler that can lift the limit.
  app.server.prependListener('request', (request, response) => {
    deadlines.watch(request, response);
    latest.set(request.socket, response);
  });
  const methodsOf = trackMethods(app);

  /** Sets CORS headers and applies the checks of every request; false when it was rejected. */
  function admit(request: FastifyRequest, reply: FastifyReply): boolean {
    reply.headers(cors);
    const reason = ambiguous.reasonFor(request.raw);
    if (reason !== undefined) {
      reply.header('connection', 'close');
      sendError(reply, 'BAD_REQUEST', reason);
      return false;
    }
    const refusal = guard(request.raw.socket.localAddress, request.headers.host, request.headers.origin);
    if (!refusal) return true;
    drainRequestBody(request.raw, reply.raw);
    sendError(reply, 'FORBIDDEN', refusal.reason);
    return false;
  }

  /** Proxies requests for the legacy backend; false for all others. */
  function proxied({ raw }: FastifyRequest, reply: FastifyReply, observation: RequestObservation): boolean {
    // CORS preflights are answered here.
    const preflight = raw.method === 'OPTIONS' && raw.headers['access-control-request-method'] !== undefined;
    if (preflight || !isLegacyPath(raw.method ?? '', raw.url?.split('?', 1)[0] ?? '')) return false;
    deadlines.lift(raw);
    reply.hijack();
    if (legacyBackend.serve(raw, reply.raw, Object.entries(cors).flat())) observation.upstream = legacyBackend.server;
    return true;
  }

  app.addHook('onRequest', (request, reply, next) => {
    const observation = observed(request, reply.raw, observe);
    if (!admit(request, reply) || proxied(request, reply, observation)) return;
    if (request.method === 'OPTIONS') {
      reply.code(204).headers(PREFLIGHT_HEADERS).send();
      return;
    }
    // The content type is not checked (decisions 4.1), and Fastify would reject one without a parser.
    request.raw.headers['content-type'] = 'application/octet-stream';
    next();
  });

  // Bodies stay bytes until a route parses them with its schema.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (_request, payload, done) => {
    collectBody(payload, bodyLimit, {
      onBody: (body) => done(null, body),
      onTooLarge: () => done(Object.assign(new Error('request body too large'), { statusCode: 413 })),
      onError: (error) => done(Object.assign(error, { statusCode: 400 })),
    });
  });

  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split('?', 1)[0] ?? '';
    const methods = methodsOf(path);
    // A route for files may have the method but not the file.
    if (!methods || methods.includes(request.method)) return sendError(reply, 'NOT_FOUND', `path not found: ${path}`);
    const allow = methods.join(', ');
    reply.header('allow', allow);
    return sendError(reply, 'METHOD_NOT_ALLOWED', `method ${request.method} not allowed on ${path}; allowed: ${allow}`);
  });

  app.setErrorHandler((error, request, reply) => {
    if (error instanceof RegistryError || error instanceof EvaluatorsError || error instanceof RequestError) {
      return sendError(reply, error.code, error.message, error.details);
    }
    if (error instanceof UpstreamError || error instanceof ProvisioningError) {
      // Forwards log their own failures. The message has the service, address and status, no payload.
      if (error instanceof ProvisioningError) log.warn(`provisioning failed: ${error.message}`);
      return sendError(reply, 'BAD_GATEWAY', error.message);
    }
    const status = statusOf(error);
    if (status === ERROR_STATUS.PAYLOAD_TOO_LARGE) {
      // Fastify would close the connection, and a client that is still sending would lose the response.
      reply.removeHeader('connection');
      drainRequestBody(request.raw, reply.raw);
      return sendError(reply, 'PAYLOAD_TOO_LARGE', `request body too large: the limit is ${bodyLimit} bytes`);
    }
    if (status >= 400 && status < 500) return sendError(reply, 'BAD_REQUEST', 'malformed request');
    const path = request.url.split('?', 1)[0];
    log.error('request failed', { method: request.method, path, error });
    return sendError(reply, 'INTERNAL', 'internal error; see the service log');
  });

  const stopWarning = warnOfPublicNamespace(registry, log);
  app.addHook('onClose', async () => stopWarning());

  healthRoutes(app, options);
  namespaceRoutes(app, options);
  forwardRoutes(app, options);
  entryRoutes(app, options, 'tool', operations.tools);
  entryRoutes(app, options, 'resource', operations.resources);
  entryRoutes(app, options, 'prompt', operations.prompts);
  serviceRoutes(app, options);
  evaluatorRoutes(app, options);
  bindingRoutes(app, options);
  statisticsRoutes(app, options);
  metricsRoutes(app, options);
  prometheusRoutes(app, options);
  toolCallRoutes(app, options, log);
  interactionRoutes(app, options);
  inferenceConfigRoutes(app, options);
  referenceRoutes(app);
  return app;
}

/** The status of a Fastify error; 500 for all others. */
function statusOf(error: unknown): number {
  if (!(error instanceof Error) || !('statusCode' in error) || typeof error.statusCode !== 'number') return 500;
  return error.statusCode;
}

/** True while a response has started and either it or its request is incomplete. */
function isResponding(response: ServerResponse | undefined): boolean {
  return response?.headersSent === true && !(response.req.complete && response.writableFinished);
}
