import { operations, type ServiceHealth } from '@sluice/contract';
import type { FastifyInstance } from 'fastify';
import { findServices, registerService, removeServices } from '../registry/operations/services.ts';
import { serviceBody } from '../registry/service-body.ts';
import { sendData, sendList } from './answer.ts';
import type { ManagementContext } from './context.ts';
import { route, routeWithBody } from './route.ts';

/** No service has been probed yet (decisions 3). */
const HEALTH: ServiceHealth = 'pending';

/** `/api/v1/services` (specification, "Endpoints"; decisions 2.8, 4.1, 4.2). */
export function serviceRoutes(app: FastifyInstance, { registry }: ManagementContext): void {
  const { list, create, get, remove } = operations.services;

  route(app, list, (_request, reply) =>
    sendList(reply, registry.current.services.all, (entry) => JSON.stringify(serviceBody(entry, HEALTH))),
  );

  routeWithBody(app, create, async ({ body }, reply) => {
    const { entry, created } = await registry.commit((draft) => registerService(draft, body));
    const json = JSON.stringify(serviceBody(entry, HEALTH));
    if (!created) return sendData(reply, json);
    const location = `${create.path}/${encodeURIComponent(entry.name)}?serviceType=${entry.serviceType}`;
    return sendData(reply.header('location', location), json, 201);
  });

  route(app, get, ({ name, query }, reply) => {
    const entries = findServices(registry.current, name, query('serviceType')).map((entry) =>
      serviceBody(entry, HEALTH),
    );
    return sendData(reply, JSON.stringify(entries.length === 1 ? entries[0] : { ...entries[0], entries }));
  });

  route(app, remove, async ({ name, query }, reply) => {
    const count = await registry.commit((draft) => removeServices(draft, name, query('serviceType')));
    return sendData(reply, JSON.stringify({ removed: name, count }));
  });
}
