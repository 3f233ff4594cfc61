import { operations } from '@sluice/contract';
import type { FastifyInstance } from 'fastify';
import { sendData } from './answer.ts';
import type { ManagementContext } from './context.ts';
import { route } from './route.ts';

/** `/api/v1/metrics`: counters since the start (decisions 4.4). */
export function metricsRoutes(app: FastifyInstance, { metrics }: ManagementContext): void {
  route(app, operations.observability.metrics, (_request, reply) => sendData(reply, JSON.stringify(metrics.snapshot())));
}
