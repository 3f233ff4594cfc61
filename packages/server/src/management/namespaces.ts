import { operations } from '@sluice/contract';
import type { FastifyInstance } from 'fastify';
import type { Labels } from '../registry/entries.ts';
import { createNamespace, labelNamespace, removeNamespace } from '../registry/operations/namespaces.ts';
import { RequestError, sendData, sendList } from './answer.ts';
import type { ManagementContext } from './context.ts';
import { route, routeWithBody } from './route.ts';

/** `/api/v1/namespaces` (specification, "Endpoints"; decisions 2.3, 4.2). */
export function namespaceRoutes(app: FastifyInstance, { registry, forwards }: ManagementContext): void {
  const { list, create, get, update, remove } = operations.namespaces;

  route(app, list, (_request, reply) => sendList(reply, [...registry.current.namespaces.values()], namespaceJson));

  routeWithBody(app, create, async ({ body: { name, labels = {} } }, reply) => {
    const { namespace, created } = await registry.commit((draft) => createNamespace(draft, name, labels));
    const json = namespaceJson(namespace);
    if (!created) return sendData(reply, json);
    return sendData(reply.header('location', `${create.path}/${namespace.name}`), json, 201);
  });

  route(app, get, ({ name }, reply) => {
    const namespace = registry.current.namespace(name);
    if (!namespace) throw new RequestError('NOT_FOUND', `namespace not found: ${name}`);
    return sendData(reply, namespaceJson(namespace));
  });

  routeWithBody(app, update, async ({ name, body: { labels = {} } }, reply) => {
    return sendData(reply, namespaceJson(await registry.commit((draft) => labelNamespace(draft, name, labels))));
  });

  route(app, remove, async ({ name, query }, reply) => {
    const cascade = query('cascade') === 'true';
    const gone = await registry.commit((draft) => removeNamespace(draft, name, cascade));
    if (gone.length > 0) forwards.removed(gone);
    return sendData(reply, JSON.stringify({ removed: name }));
  });
}

function namespaceJson({ name, labels }: { name: string; labels: Labels }): string {
  return JSON.stringify({ name, labels });
}
