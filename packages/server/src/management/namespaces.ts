import { namespaceInput, namespaceUpdate } from '@sluice/contract';
import type { FastifyInstance } from 'fastify';
import type { Labels } from '../registry/entries.ts';
import { createNamespace, labelNamespace, removeNamespace } from '../registry/operations/namespaces.ts';
import { RequestError, sendData, sendList } from './answer.ts';
import { readBody } from './body.ts';
import type { ManagementContext } from './context.ts';
import { queryOf } from './query.ts';

interface ByName {
  Params: { name: string };
}

/** `/api/v1/namespaces` (specification, "Endpoints"; decisions 2.3, 4.2). */
export function namespaceRoutes(app: FastifyInstance, { registry, forwards }: ManagementContext): void {
  const path = '/api/v1/namespaces';

  app.get(path, (_request, reply) => sendList(reply, [...registry.current.namespaces.values()], namespaceJson));

  app.post(path, async (request, reply) => {
    const { name, labels = {} } = readBody(request, 'namespace', namespaceInput);
    const created = await registry.commit((draft) => createNamespace(draft, name, labels));
    // Somebody may have deleted it in between; it is answered as it was made.
    const json = namespaceJson(registry.current.namespace(name) ?? { name, labels });
    if (!created) return sendData(reply, json);
    return sendData(reply.header('location', `${path}/${name}`), json, 201);
  });

  app.get<ByName>(`${path}/:name`, (request, reply) => {
    const { name } = request.params;
    const namespace = registry.current.namespace(name);
    if (!namespace) throw new RequestError('NOT_FOUND', `namespace not found: ${name}`);
    return sendData(reply, namespaceJson(namespace));
  });

  app.put<ByName>(`${path}/:name`, async (request, reply) => {
    const { labels = {} } = readBody(request, 'namespace', namespaceUpdate);
    const name = await registry.commit((draft) => labelNamespace(draft, request.params.name, labels));
    return sendData(reply, namespaceJson({ name, labels }));
  });

  app.delete<ByName>(`${path}/:name`, async (request, reply) => {
    const { name } = request.params;
    const cascade = queryOf(request).get('cascade') === 'true';
    const gone = await registry.commit((draft) => removeNamespace(draft, name, cascade));
    if (gone.length > 0) forwards.removed(gone);
    return sendData(reply, JSON.stringify({ removed: name }));
  });
}

function namespaceJson({ name, labels }: { name: string; labels: Labels }): string {
  return JSON.stringify({ name, labels });
}
