import { toolInput, toolUpdate } from '@sluice/contract';
import type { FastifyInstance } from 'fastify';
import type { ManagementContext } from './context.ts';
import { entryRoutes } from './entry-routes.ts';

/** `/api/v1/tools` (specification, "Endpoints"; decisions 2.5). */
export function toolRoutes(app: FastifyInstance, context: ManagementContext): void {
  entryRoutes(app, context, { kind: 'tool', path: '/api/v1/tools', input: toolInput, update: toolUpdate });
}
