import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { ERROR_STATUS, type ErrorCode, operations } from '@sluice/contract';
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { ProvisioningError } from '../bridge/provisioning.ts';
import { type ClassicProxy, isClassic } from '../classic/classic-proxy.ts';
import type { Guard } from '../listeners/origin.ts';
import { RegistryError } from '../registry/operations/error.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import { UpstreamError } from '../transport/upstream-error.ts';
import { watchRoutes } from './allowed-methods.ts';
import { errorEnvelope, RequestError, sendError } from './answer.ts';
import { collectBody } from './body.ts';
import type { ManagementContext } from './context.ts';
import { corsHeaders, PREFLIGHT_HEADERS } from './cors.ts';
import { entryRoutes } from './entry-routes.ts';
import { forwardRoutes } from './forwards.ts';
import { healthRoutes } from './health.ts';
import { inferenceConfigRoutes } from './inference-config.ts';
import { interactionRoutes } from './interactions.ts';
import { metricsRoutes } from './metrics.ts';
import { namespaceRoutes } from './namespaces.ts';
import { watchPublicNamespace } from './public-namespace.ts';
import { referenceRoutes } from './reference.ts';
import { serviceRoutes } from './services.ts';
import { statisticsRoutes } from './statistics.ts';
import { toolCallRoutes } from './tool-calls.ts';

/** What the management API is made of. */
export interface ManagementOptions extends ManagementContext {
  readonly log: TargetLogger;
  /** The checks of Host and Origin. */
  readonly guard: Guard;
  /** Answers what is the legacy backend's. */
  readonly classic: Pick<ClassicProxy, 'serve'>;
  /** SERVICE_CORS_ORIGIN: `*` or one origin. */
  readonly corsOrigin: string | undefined;
  /** Bytes of a request body (default 1 MiB, decisions 8). */
  readonly bodyLimit?: number;
}

/**
 * The management API (specification, "Endpoints"; decisions 4.1 to 4.4) as a Fastify app that does not listen yet.
 * Whoever starts it also closes it. Every answer has the envelope and CORS headers; failures of our own are answered
 * without internals and go to the log.
 */
export function createManagement(options: ManagementOptions): FastifyInstance {
  const { log, registry, guard, classic, corsOrigin, bodyLimit = 1024 * 1024 } = options;
  const cors = corsHeaders(corsOrigin);

  const app = fastify({
    bodyLimit,
    // Fastify's default is to wait for a request's end for ever.
    requestTimeout: 300_000,
    // Node would answer without the envelope; `admit` refuses it instead.
    http: { requireHostHeader: false },
    // Health is answered until the listener is gone.
    return503OnClosing: false,
    // A name of 256 characters takes up to 3 KiB in a URL; what limits it is the size of a head.
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 64 * 1024 },
    frameworkErrors: (_error, request, reply) => {
      if (admit(request, reply)) sendError(reply, 'BAD_REQUEST', 'the path is not valid percent-encoded UTF-8');
    },
    clientErrorHandler: (error, socket) => refuseUnreadable(error, socket, cors),
  });
  // Node would answer an expectation that it does not know without the envelope; it may be ignored.
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response));
  const methodsOf = watchRoutes(app);

  /** Sets CORS headers and checks Host and Origin; false when the request has been answered. */
  function admit(request: FastifyRequest, reply: FastifyReply): boolean {
    reply.headers(cors);
    if (request.headers.host === undefined && request.raw.httpVersion === '1.1') {
      sendError(reply, 'BAD_REQUEST', 'a Host header is required');
      return false;
    }
    const refusal = guard(request.raw.socket.localAddress, request.headers.host, request.headers.origin);
    if (!refusal) return true;
    sendError(reply, 'FORBIDDEN', refusal.reason);
    return false;
  }

  app.addHook('onRequest', (request, reply, next) => {
    if (!admit(request, reply)) return;
    if (request.method === 'OPTIONS') {
      reply.code(204).headers(PREFLIGHT_HEADERS).send();
      return;
    }
    const { method, url = '/' } = request.raw;
    if (isClassic(method ?? '', url.split('?', 1)[0] ?? '')) {
      reply.hijack();
      classic.serve(request.raw, reply.raw, Object.entries(cors).flat());
      return;
    }
    // The content type is not checked (decisions 4.1), and Fastify would refuse one that it cannot read.
    request.raw.headers['content-type'] = 'application/octet-stream';
    next();
  });

  // Bodies stay bytes until a route says what they describe.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (_request, payload, done) => collectBody(payload, bodyLimit, done));

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
    if (error instanceof RegistryError || error instanceof RequestError) {
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
      return sendError(reply, 'PAYLOAD_TOO_LARGE', `request body too large: the limit is ${bodyLimit} bytes`);
    }
    if (status >= 400 && status < 500) return sendError(reply, 'BAD_REQUEST', 'the request could not be read');
    const path = request.url.split('?', 1)[0];
    log.error('request failed', { method: request.method, path, error });
    return sendError(reply, 'INTERNAL', 'internal error; the log of the service says more');
  });

  // What an operator changed, and who it was where a proxy says so; never what with.
  app.addHook('onResponse', (request, reply, next) => {
    const reading = request.method === 'GET' || request.method === 'HEAD' || request.method === 'OPTIONS';
    if (!reading && reply.statusCode < 300) {
      const actor = request.headers['x-forwarded-user'] ?? request.headers['x-auth-request-user'];
      log.info('changed', { method: request.method, path: request.url.split('?', 1)[0], actor });
    }
    next();
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
  statisticsRoutes(app, options);
  metricsRoutes(app, options);
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

/** How long a client may go on sending what was refused. */
const LINGER_MS = 2_000;

/** Answers what Node could not read as a request, and ends the connection. */
function refuseUnreadable(error: Error & { code?: string }, socket: Socket, cors: Record<string, string>): void {
  // Answered already: what its client goes on sending comes by here too, and is thrown away.
  if (socket.writableEnded && !socket.destroyed) return;
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  const status = error.code === 'HPE_HEADER_OVERFLOW' ? 431 : error.code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 408 : 400;
  const code: ErrorCode = 'BAD_REQUEST';
  const body = errorEnvelope(code, `the request could not be read: ${STATUS_CODES[status]}`);
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
