import type { FastifyInstance } from 'fastify';
import { sendData, sendError } from './answer.ts';
import type { ManagementContext } from './context.ts';

/** `/healthz` and `/health`: the process lives, also while it shuts down. `/readyz`: it takes work (decisions 4.4). */
export function healthRoutes(app: FastifyInstance, { ready }: ManagementContext): void {
  for (const path of ['/healthz', '/health']) app.get(path, (_request, reply) => sendData(reply, '{"status":"ok"}'));
  app.get('/readyz', (_request, reply) =>
    ready()
      ? sendData(reply, '{"status":"ready"}')
      : sendError(reply, 'UNAVAILABLE', 'the service is starting or shutting down'),
  );
}
