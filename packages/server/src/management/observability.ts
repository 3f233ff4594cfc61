import { Readable } from 'node:stream';
import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import { operations, type Statistics } from '@sluice/contract';
import { openApiDocument } from '@sluice/contract/openapi';
import type { FastifyInstance } from 'fastify';
import type { Kind } from '../registry/entries.ts';
import type { Snapshot } from '../registry/snapshot.ts';
import type { PrometheusText } from '../telemetry/metrics/prometheus.ts';
import { VERSION } from '../telemetry/version.ts';
import type { ManagementContext } from './context.ts';
import { route, sendData, sendError } from './route.ts';

/** `/healthz` and `/health`: liveness, also during shutdown. `/readyz`: readiness (decisions 4.4). */
export function healthRoutes(app: FastifyInstance, { ready }: ManagementContext): void {
  const { health, healthAlias, readiness } = operations.observability;
  for (const operation of [health, healthAlias]) {
    route(app, operation, (_request, reply) => sendData(reply, '{"status":"ok"}'));
  }
  route(app, readiness, (_request, reply) =>
    ready()
      ? sendData(reply, '{"status":"ready"}')
      : sendError(reply, 'UNAVAILABLE', 'the service is starting or shutting down'),
  );
}

/** Number of served entries in all namespaces, without shadowed ones (decisions 4.4). */
export function statisticsRoutes(app: FastifyInstance, { registry }: ManagementContext): void {
  route(app, operations.observability.statistics, (_request, reply) => {
    const snapshot = registry.current;
    const statistics: Statistics = {
      toolsCount: count(snapshot, 'tool'),
      resourcesCount: count(snapshot, 'resource'),
      promptsCount: count(snapshot, 'prompt'),
      forwardsCount: snapshot.forwards.size,
      dataStoresCount: 0,
    };
    return sendData(reply, JSON.stringify(statistics));
  });
}

function count(snapshot: Snapshot, kind: Kind): number {
  let served = 0;
  for (const { indexes } of snapshot.namespaces.values()) served += indexes[kind].entries.length;
  return served;
}

/** `/api/v1/metrics`: counters since the start of the process (decisions 4.4). */
export function metricsRoutes(app: FastifyInstance, { metrics }: ManagementContext): void {
  route(app, operations.observability.metrics, (_request, reply) =>
    sendData(reply, JSON.stringify(metrics.snapshot())),
  );
}

/** Content type of the Prometheus text format. */
const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/**
 * `/metrics`: all metrics in the Prometheus text format, without an envelope. The OpenAPI document, which describes JSON,
 * does not contain it.
 */
export function prometheusRoutes(app: FastifyInstance, { metricSource }: ManagementContext): void {
  let prometheus: Promise<PrometheusText> | undefined;
  const load = async (): Promise<PrometheusText> => {
    const { PrometheusText } = await import('../telemetry/metrics/prometheus.ts');
    return new PrometheusText(metricSource);
  };
  app.get('/metrics', async (_request, reply) => {
    prometheus ??= load();
    return reply.type(CONTENT_TYPE).send(Readable.from(await (await prometheus).text()));
  });
}

/** The page loads only its own files and cannot be framed. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "object-src 'none'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** A sluice gate: two posts and the water that passes under the board. */
const ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path fill="#0f62fe" d="M1 1h2v14H1zM13 1h2v14h-2zM4 3h8v5H4zM4 11h8v1H4zM4 13h8v1H4z"/></svg>`;

/**
 * `/openapi.json`, the OpenAPI document of this API (specification, "Endpoints"; decisions 4.4), and `/api/docs`, a page
 * that shows it and lets operators try each operation.
 */
export function referenceRoutes(app: FastifyInstance): void {
  const text = JSON.stringify(openApiDocument(VERSION));
  const bytes = Buffer.from(text);
  route(app, operations.observability.document, (_request, reply) => reply.type('application/json').send(bytes));

  app.register(swagger, { mode: 'static', specification: { document: JSON.parse(text) } });
  app.register(swaggerUi, {
    routePrefix: '/api/docs',
    staticCSP: CONTENT_SECURITY_POLICY,
    theme: {
      title: 'Sluice management API',
      favicon: [{ filename: 'sluice.svg', rel: 'icon', type: 'image/svg+xml', sizes: 'any', content: ICON }],
    },
    // The layout without a top bar for other documents.
    uiConfig: { layout: 'BaseLayout', docExpansion: 'list', displayRequestDuration: true },
  });
}
