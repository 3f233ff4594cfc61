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
import { route, sendData, sendError } from './route.ts';
import type { ManagementContext } from './server.ts';

/** `/healthz` and `/health`: the process lives, also while it shuts down. `/readyz`: it takes work (decisions 4.4). */
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

/** How much is served, over all namespaces and without shadowed entries (decisions 4.4). */
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
  for (const { shelves } of snapshot.namespaces.values()) served += shelves[kind].entries.length;
  return served;
}

/** `/api/v1/metrics`: counters since the start (decisions 4.4). */
export function metricsRoutes(app: FastifyInstance, { metrics }: ManagementContext): void {
  route(app, operations.observability.metrics, (_request, reply) =>
    sendData(reply, JSON.stringify(metrics.snapshot())),
  );
}

/** Of Prometheus' text format. */
const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/**
 * `/metrics`: what the service counts, as Prometheus reads it. Text, and made for that reader alone: it has no envelope,
 * and the API's document, which describes JSON, does not name it.
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

/** The page loads nothing from elsewhere, runs no script but its own files, and cannot be framed. */
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
 * `/openapi.json`, the description of this API made of its operations (specification, "Endpoints"; decisions 4.4), and
 * at `/api/docs` a page that shows it and lets operators try each operation.
 */
export function referenceRoutes(app: FastifyInstance): void {
  // It stays the same as long as the process runs.
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
    // The layout without a bar for other documents on top.
    uiConfig: { layout: 'BaseLayout', docExpansion: 'list', displayRequestDuration: true },
  });
}
