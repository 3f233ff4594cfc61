import { resourceInput, resourceUpdate } from '@sluice/contract';
import type { FastifyInstance } from 'fastify';
import type { ManagementContext } from './context.ts';
import { entryRoutes } from './entry-routes.ts';

/** `/api/v1/resources` (specification, "Endpoints"; decisions 2.6, 4.2). */
export function resourceRoutes(app: FastifyInstance, context: ManagementContext): void {
  entryRoutes(app, context, {
    kind: 'resource',
    path: '/api/v1/resources',
    input: resourceInput,
    update: resourceUpdate,
  });
}
