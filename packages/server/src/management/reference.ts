import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import { operations } from '@sluice/contract';
import { openApiDocument } from '@sluice/contract/openapi';
import type { FastifyInstance } from 'fastify';
import { VERSION } from '../config/version.ts';
import { route } from './route.ts';

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
