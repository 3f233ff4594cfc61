import { operations } from '@sluice/contract';
import type { FastifyInstance } from 'fastify';
import type { ServiceEntry } from '../registry/entries.ts';
import { findServices, registerService, removeServices } from '../registry/operations-topology.ts';
import { serviceBody } from '../registry/serialize.ts';
import { correlationOf } from '../telemetry/correlation.ts';
import { serviceRequestId } from '../upstreams/grpc/tools.ts';
import { route, routeWithBody, sendData, sendList } from './route.ts';
import type { ManagementContext } from './server.ts';

/** `/api/v1/services` (specification, "Endpoints"; decisions 2.8, 4.1, 4.2). */
export function serviceRoutes(
  app: FastifyInstance,
  { registry, serviceHealth, provisioning }: ManagementContext,
): void {
  const { list, create, get, remove, provision } = operations.services;
  const show = (entry: ServiceEntry) => serviceBody(entry, serviceHealth.of(entry));

  route(app, list, (_request, reply) =>
    sendList(reply, registry.current.services.all, (entry) => JSON.stringify(show(entry))),
  );

  routeWithBody(app, create, async ({ body }, reply) => {
    const { entry, created } = await registry.commit((draft) => registerService(draft, body));
    const json = JSON.stringify(show(entry));
    if (!created) return sendData(reply, json);
    const location = `${create.path}/${encodeURIComponent(entry.name)}?serviceType=${entry.serviceType}`;
    return sendData(reply.header('location', location), json, 201);
  });

  route(app, get, ({ name, query }, reply) => {
    const entries = findServices(registry.current, name, query('serviceType')).map(show);
    return sendData(reply, JSON.stringify(entries.length === 1 ? entries[0] : { ...entries[0], entries }));
  });

  route(app, remove, async ({ name, query }, reply) => {
    const count = await registry.commit((draft) => removeServices(draft, name, query('serviceType')));
    return sendData(reply, JSON.stringify({ removed: name, count }));
  });

  routeWithBody(app, provision, async ({ name, query, body }, reply) => {
    const [first] = findServices(registry.current, name, query('serviceType'));
    const answer = await provisioning.provision(
      first,
      body,
      serviceRequestId(correlationOf(reply.request.headers).requestId),
    );
    return sendData(reply, JSON.stringify(answer));
  });
}
