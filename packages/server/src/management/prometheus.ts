import { Readable } from 'node:stream';
import type { FastifyInstance } from 'fastify';
import type { PrometheusText } from '../telemetry/metrics/prometheus.ts';
import type { ManagementContext } from './context.ts';

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
