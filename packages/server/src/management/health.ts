import { operations } from '@sluice/contract';
import type { FastifyInstance } from 'fastify';
import { sendData, sendError } from './answer.ts';
import type { ManagementContext } from './context.ts';
import { route } from './route.ts';

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
