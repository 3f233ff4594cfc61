import { type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { ERROR_STATUS, operations } from '@sluice/contract';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import fastify from 'fastify';
import { UpstreamError } from '../http/client/errors.ts';
import type { Guard } from '../http/host-origin-guard.ts';
import { answeredStatus, BodyDeadlines, collectBody, drainRequestBody } from '../http/request-body.ts';
import { AmbiguousRequestGuard } from '../http/request-validation.ts';
import type { InteractionStore } from '../inference/interaction-store.ts';
import type { InferenceSettings } from '../inference/settings.ts';
import type { OpenStreams } from '../mcp/long-streams.ts';
import type { NamespaceBindings } from '../policy/bindings.ts';
import type { Evaluators } from '../policy/evaluator-set.ts';
import { EvaluatorsError } from '../policy/revisions.ts';
import { RegistryError } from '../registry/operations.ts';
import type { Registry } from '../registry/registry.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import type { MetricSource, ServiceMetrics } from '../telemetry/metrics/service-metrics.ts';
import {
  type ObserveRequest,
  observing,
  type RequestObservation,
  type RequestTelemetryParts,
} from '../telemetry/request-telemetry.ts';
import type { ToolCallEvents } from '../telemetry/tool-calls/events.ts';
import type { ServiceHealthMonitor } from '../upstreams/grpc/health.ts';
import { type Provisioning, ProvisioningError } from '../upstreams/grpc/provisioning.ts';
import type { Forwards } from '../upstreams/mcp/forwards.ts';
import { entryRoutes } from './entries.ts';
import { evaluatorRoutes } from './evaluators.ts';
import { forwardRoutes } from './forwards.ts';
import { inferenceConfigRoutes, interactionRoutes } from './interactions.ts';
import { isClassic, type LegacyBackendProxy } from './legacy-backend.ts';
import { bindingRoutes, namespaceRoutes, watchPublicNamespace } from './namespaces.ts';
import { healthRoutes, metricsRoutes, prometheusRoutes, referenceRoutes, statisticsRoutes } from './observability.ts';
import { errorEnvelope, RequestError, sendError } from './route.ts';
import { serviceRoutes } from './services.ts';
import { toolCallRoutes } from './tool-calls.ts';

/**
 * Watches the routes of an app and tells which methods a path has, in the order of registration, for the `Allow` of a
 * 405; undefined for a path that no route has (decisions 4.1). To be called before routes are added.
 */
export function watchRoutes(app: FastifyInstance): (path: string) => string[] | undefined {
  const routes = new Map<string, { segments: string[]; methods: Set<string> }>();
  app.addHook('onRoute', ({ url, method }) => {
    const route = routes.get(url) ?? { segments: segmentsOf(url), methods: new Set<string>() };
    routes.set(url, route);
    for (const each of [method].flat()) route.methods.add(each);
  });
  return (path) => {
    const segments = segmentsOf(path);
    for (const route of routes.values()) {
      if (fits(route.segments, segments)) return [...route.methods, 'OPTIONS'];
    }
    return undefined;
  };
}

function segmentsOf(path: string): string[] {
  const segments = path.split('/');
  if (segments.length > 2 && segments.at(-1) === '') segments.pop();
  return segments;
}

function fits(route: readonly string[], path: readonly string[]): boolean {
  if (route.at(-1) === '*')
    return path.length >= route.length && fits(route.slice(0, -1), path.slice(0, route.length - 1));
  return route.length === path.length && route.every((segment, at) => segment.startsWith(':') || segment === path[at]);
}

/**
 * CORS headers of every management answer (decisions 4.1). Without SERVICE_CORS_ORIGIN answers carry `*`; foreign
 * origins are refused all the same, by the listener's guard.
 */
export function corsHeaders(corsOrigin: string | undefined): Record<string, string> {
  if (corsOrigin === undefined || corsOrigin === '*') return { 'access-control-allow-origin': '*' };
  return { 'access-control-allow-origin': corsOrigin, vary: 'Origin' };
}

/** What the answer to OPTIONS says in addition (decisions 4.1). */
export const PREFLIGHT_HEADERS: Readonly<Record<string, string>> = {
  'access-control-allow-methods': 'GET, POST, PUT, DELETE, OPTIONS',
  'access-control-allow-headers': 'Content-Type, Accept, Authorization',
};

/** Asked for every few seconds by whatever keeps the service running. */
const PROBES: ReadonlySet<string> = new Set(['/healthz', '/health', '/readyz', '/metrics']);

/** What sees the requests of the management API: what an operator did, and who it was where a proxy says so. */
export function observingManagement(parts: RequestTelemetryParts): ObserveRequest {
  return observing('management', 'service::mgmt::access', parts, PROBES);
}

/** Observes a request to the end of its answer. */
export function observed(
  { raw }: FastifyRequest,
  response: ServerResponse,
  observe: ObserveRequest,
): RequestObservation {
  const { method = '', url: target = '/', headers, socket } = raw;
  const observation = observe({ method, target, headers, client: socket.remoteAddress, inBatch: false });
  response.on('close', () => {
    if (response.statusCode >= 400) observation.refused();
    observation.end(answeredStatus(response), response.writableFinished);
  });
  return observation;
}

/** How long a client may go on sending what was refused. */
const LINGER_MS = 2_000;

/** Answers what Node could not read as a request, or not in time, and ends the connection. */
export function refuseUnreadable(
  error: Error & { code?: string },
  socket: Duplex,
  cors: Readonly<Record<string, string>>,
): void {
  // Answered already: what its client goes on sending comes by here too, and is thrown away.
  if (socket.writableEnded && !socket.destroyed) return;
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  const status = error.code === 'HPE_HEADER_OVERFLOW' ? 431 : error.code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 408 : 400;
  endWith(socket, status, `the request could not be read: ${STATUS_CODES[status]}`, cors);
}

/** Answers a request for a tunnel, which Node leaves without one, and ends the connection. */
export function refuseTunnel(socket: Duplex, cors: Readonly<Record<string, string>>): void {
  socket.on('error', () => undefined).resume();
  endWith(socket, 400, 'the method CONNECT is for proxies; this is none', cors);
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
  // Closing on a client that is still sending would lose it the answer.
  const late = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once('close', () => clearTimeout(late));
}

/** What the management API is made of. */
export interface ManagementOptions extends ManagementContext {
  readonly log: TargetLogger;
  /** The checks of Host and Origin. */
  readonly guard: Guard;
  readonly observe: ObserveRequest;
  /** Answers what is the legacy backend's. */
  readonly classic: Pick<LegacyBackendProxy, 'serve' | 'server'>;
  /** SERVICE_CORS_ORIGIN: `*` or one origin. */
  readonly corsOrigin: string | undefined;
  /** Bytes of a request body (default 1 MiB, decisions 8). */
  readonly bodyLimit?: number;
  /** Milliseconds that a request body may take to come (default 300,000); bodies that are passed on have no such limit. */
  readonly bodyTimeoutMs?: number;
}

/** What the head of a request may take at most. */
const HEADERS_MS = 60_000;

/**
 * The management API (specification, "Endpoints"; decisions 4.1 to 4.4) as a Fastify app that does not listen yet.
 * Whoever starts it also closes it. Every answer has the envelope and CORS headers; failures of our own are answered
 * without internals and go to the log.
 */
export function createManagement(options: ManagementOptions): FastifyInstance {
  const {
    log,
    registry,
    guard,
    observe,
    classic,
    corsOrigin,
    bodyLimit = 1024 * 1024,
    bodyTimeoutMs = 300_000,
  } = options;
  const cors = corsHeaders(corsOrigin);
  /** The last request of each connection, by its answer. */
  const latest = new WeakMap<Socket, ServerResponse>();
  const unclear = new AmbiguousRequestGuard();

  const app = fastify({
    bodyLimit,
    // Bodies have `deadlines`: a limit of the server's would hold for those that are passed on too.
    requestTimeout: 0,
    // Without a host, Node would answer without the envelope; `admit` refuses it instead.
    http: { requireHostHeader: false, headersTimeout: HEADERS_MS },
    // Health is answered until the listener is gone.
    return503OnClosing: false,
    // A name of 256 characters takes up to 3 KiB in a URL; what limits it is the size of a head.
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 64 * 1024 },
    frameworkErrors: (_error, request, reply) => {
      const observation = observed(request, reply.raw, observe);
      if (!admit(request, reply) || passOn(request, reply, observation)) return;
      drainRequestBody(request.raw, reply.raw);
      sendError(reply, 'BAD_REQUEST', 'the path is not valid percent-encoded UTF-8');
    },
    clientErrorHandler: (error, socket) => {
      // Whoever is being answered would take a second answer for part of the first, or for that to another request.
      if (isBeingAnswered(latest.get(socket))) socket.destroySoon();
      else refuseUnreadable(error, socket, cors);
    },
  });
  // Node would answer an expectation that it does not know without the envelope; it may be ignored.
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response));
  app.server.on('connect', (_request, socket) => refuseTunnel(socket, cors));
  const deadlines = new BodyDeadlines(bodyTimeoutMs, ({ socket }, response) => {
    // Half an answer cannot be taken back.
    if (response.headersSent) socket.destroy();
    else refuseUnreadable(Object.assign(new Error('late'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' }), socket, cors);
  });
  // Before anything can lift the limit.
  app.server.prependListener('request', (request, response) => {
    deadlines.watch(request, response);
    latest.set(request.socket, response);
  });
  const methodsOf = watchRoutes(app);

  /** Sets CORS headers and checks what every request is checked for; false when the request has been answered. */
  function admit(request: FastifyRequest, reply: FastifyReply): boolean {
    reply.headers(cors);
    const reason = unclear.reasonFor(request.raw);
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

  /** Gives the legacy backend what is its to answer; false when it is ours. */
  function passOn({ raw }: FastifyRequest, reply: FastifyReply, observation: RequestObservation): boolean {
    // What a browser asks before it calls is ours to say, since CORS is.
    const preflight = raw.method === 'OPTIONS' && raw.headers['access-control-request-method'] !== undefined;
    if (preflight || !isClassic(raw.method ?? '', raw.url?.split('?', 1)[0] ?? '')) return false;
    deadlines.lift(raw);
    reply.hijack();
    if (classic.serve(raw, reply.raw, Object.entries(cors).flat())) observation.upstream = classic.server;
    return true;
  }

  app.addHook('onRequest', (request, reply, next) => {
    const observation = observed(request, reply.raw, observe);
    if (!admit(request, reply) || passOn(request, reply, observation)) return;
    if (request.method === 'OPTIONS') {
      reply.code(204).headers(PREFLIGHT_HEADERS).send();
      return;
    }
    // The content type is not checked (decisions 4.1), and Fastify would refuse one that it cannot read.
    request.raw.headers['content-type'] = 'application/octet-stream';
    next();
  });

  // Bodies stay bytes until a route says what they describe.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (_request, payload, done) => {
    collectBody(payload, bodyLimit, {
      onBody: (body) => done(null, body),
      onTooLarge: () => done(Object.assign(new Error('request body too large'), { statusCode: 413 })),
      // No failure of ours.
      onError: (error) => done(Object.assign(error, { statusCode: 400 })),
    });
  });

  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split('?', 1)[0] ?? '';
    const methods = methodsOf(path);
    // A route for files has the method, but perhaps not the file.
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
      // Of upstreams their forwards tell; of this nobody else does. It names service, address and status, no payload.
      if (error instanceof ProvisioningError) log.warn(`provisioning failed: ${error.message}`);
      return sendError(reply, 'BAD_GATEWAY', error.message);
    }
    const status = statusOf(error);
    if (status === ERROR_STATUS.PAYLOAD_TOO_LARGE) {
      // Fastify would close the connection, and a client that is still sending would lose the answer.
      reply.removeHeader('connection');
      drainRequestBody(request.raw, reply.raw);
      return sendError(reply, 'PAYLOAD_TOO_LARGE', `request body too large: the limit is ${bodyLimit} bytes`);
    }
    if (status >= 400 && status < 500) return sendError(reply, 'BAD_REQUEST', 'the request could not be read');
    const path = request.url.split('?', 1)[0];
    log.error('request failed', { method: request.method, path, error });
    return sendError(reply, 'INTERNAL', 'internal error; the log of the service says more');
  });

  const unwatch = watchPublicNamespace(registry, log);
  app.addHook('onClose', async () => unwatch());

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

/** The status that Fastify gave an error of its own; 500 for all others. */
function statusOf(error: unknown): number {
  if (!(error instanceof Error) || !('statusCode' in error) || typeof error.statusCode !== 'number') return 500;
  return error.statusCode;
}

/** True for a request whose answer has begun, and either of which is not at its end. */
function isBeingAnswered(response: ServerResponse | undefined): boolean {
  return response?.headersSent === true && !(response.req.complete && response.writableFinished);
}

/** What the routes of the management API work on. */
export interface ManagementContext {
  readonly registry: Registry;
  readonly forwards: Pick<Forwards, 'add' | 'refresh' | 'remove' | 'removed' | 'status'>;
  readonly serviceHealth: Pick<ServiceHealthMonitor, 'of'>;
  readonly provisioning: Pick<Provisioning, 'provision'>;
  readonly evaluators: Pick<
    Evaluators,
    'activate' | 'activeRevision' | 'connections' | 'current' | 'replace' | 'revision' | 'revisions'
  >;
  readonly bindings: Pick<NamespaceBindings, 'delete' | 'list' | 'set'>;
  readonly metrics: Pick<ServiceMetrics, 'snapshot'>;
  /** All metrics, for collectors. */
  readonly metricSource: MetricSource;
  readonly toolCalls: Pick<ToolCallEvents, 'recent' | 'listen'>;
  readonly interactions: Pick<InteractionStore, 'list' | 'clear'>;
  readonly inference: InferenceSettings;
  readonly longStreams: Pick<OpenStreams, 'add'>;
  /** Whether the service takes work: loaded, listening and not shutting down. */
  readonly ready: () => boolean;
}
