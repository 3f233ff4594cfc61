import { namespaceName, operations } from '@sluice/contract';
import type { FastifyInstance } from 'fastify';
import type { Labels } from '../registry/entries.ts';
import { createNamespace, labelNamespace, removeNamespace } from '../registry/operations-topology.ts';
import type { Registry } from '../registry/registry.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import { RequestError, route, routeWithBody, sendData, sendList } from './route.ts';
import type { ManagementContext } from './server.ts';

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

/**
 * Warns whenever a namespace `public` exists that did not before, whoever made it: the proxies let its path pass
 * without authentication (decisions 5.2). Returns how to stop.
 */
export function watchPublicNamespace(registry: Registry, log: TargetLogger): () => void {
  let known = false;
  const check = (): void => {
    const exists = registry.current.namespace('public') !== undefined;
    if (exists && !known) {
      log.warn(
        'namespace public: authenticating proxies let /public/* pass, so it is open to everybody who reaches them',
      );
    }
    known = exists;
  };
  check();
  return registry.onChange(check);
}

/** `/api/v1/evaluators/namespaces`: which conversation a namespace's requests belong to (decisions 2.10, 4.5). */
export function bindingRoutes(app: FastifyInstance, { bindings: kept }: ManagementContext): void {
  const { bindings, bind, unbind } = operations.evaluators;

  route(app, bindings, (_request, reply) => sendData(reply, JSON.stringify(kept.list())));

  routeWithBody(app, bind, async ({ name, body }, reply) => {
    const { conversation_id } = body;
    const namespace = bindable(name);
    kept.set(namespace, conversation_id);
    return sendData(reply, JSON.stringify({ namespace, conversation_id }));
  });

  route(app, unbind, ({ name }, reply) => {
    kept.delete(name);
    return sendData(reply, JSON.stringify({ unbound: name }));
  });
}

/** The namespace need not exist, but it must be one that can. */
function bindable(name: string): string {
  // As it is in a path everywhere: blanks around it are part of it.
  const problem =
    name.trim() === name ? namespaceName.safeParse(name).error?.issues[0]?.message : 'must not have blanks';
  if (problem === undefined) return name;
  throw new RequestError('BAD_REQUEST', `invalid binding: namespace ${problem}`, [
    { path: 'namespace', message: problem },
  ]);
}
