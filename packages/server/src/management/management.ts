import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { ERROR_STATUS, operations } from '@sluice/contract';
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { ProvisioningError } from '../bridge/provisioning.ts';
import { type ClassicProxy, isClassic } from '../classic/classic-proxy.ts';
import { EvaluatorsError } from '../evaluators/evaluators-error.ts';
import { BodyDeadlines } from '../incoming/body-deadlines.ts';
import { collectBody } from '../incoming/collected-body.ts';
import { readAway } from '../incoming/late-body.ts';
import { UnclearHeads } from '../incoming/unclear-head.ts';
import type { Guard } from '../listeners/origin.ts';
import { RegistryError } from '../registry/operations/error.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import type { RequestObservation } from '../telemetry/requests/request-observation.ts';
import type { ObserveRequest } from '../telemetry/requests/request-telemetry.ts';
import { UpstreamError } from '../transport/upstream-error.ts';
import { watchRoutes } from './allowed-methods.ts';
import { RequestError, sendError } from './answer.ts';
import { bindingRoutes } from './bindings.ts';
import type { ManagementContext } from './context.ts';
import { corsHeaders, PREFLIGHT_HEADERS } from './cors.ts';
import { entryRoutes } from './entry-routes.ts';
import { evaluatorRoutes } from './evaluators.ts';
import { forwardRoutes } from './forwards.ts';
import { healthRoutes } from './health.ts';
import { inferenceConfigRoutes } from './inference-config.ts';
import { interactionRoutes } from './interactions.ts';
import { metricsRoutes } from './metrics.ts';
import { namespaceRoutes } from './namespaces.ts';
import { observed } from './observed.ts';
import { prometheusRoutes } from './prometheus.ts';
import { watchPublicNamespace } from './public-namespace.ts';
import { referenceRoutes } from './reference.ts';
import { serviceRoutes } from './services.ts';
import { statisticsRoutes } from './statistics.ts';
import { toolCallRoutes } from './tool-calls.ts';
import { refuseTunnel, refuseUnreadable } from './unreadable.ts';

/** What the management API is made of. */
export interface ManagementOptions extends ManagementContext {
  readonly log: TargetLogger;
  /** The checks of Host and Origin. */
  readonly guard: Guard;
  readonly observe: ObserveRequest;
  /** Answers what is the legacy backend's. */
  readonly classic: Pick<ClassicProxy, 'serve' | 'server'>;
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
  const unclear = new UnclearHeads();

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
      readAway(request.raw, reply.raw);
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
    readAway(request.raw, reply.raw);
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
      readAway(request.raw, reply.raw);
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
