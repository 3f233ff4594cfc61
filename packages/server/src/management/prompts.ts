import { promptInput, promptUpdate } from '@sluice/contract';
import type { FastifyInstance } from 'fastify';
import type { ManagementContext } from './context.ts';
import { entryRoutes } from './entry-routes.ts';

/** `/api/v1/prompts` (specification, "Endpoints"; decisions 2.7, 4.2). */
export function promptRoutes(app: FastifyInstance, context: ManagementContext): void {
  entryRoutes(app, context, { kind: 'prompt', path: '/api/v1/prompts', input: promptInput, update: promptUpdate });
}
