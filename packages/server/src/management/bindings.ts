import { namespaceName, operations } from '@sluice/contract';
import type { FastifyInstance } from 'fastify';
import { RequestError, sendData } from './answer.ts';
import type { ManagementContext } from './context.ts';
import { route, routeWithBody } from './route.ts';

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
