import { operations } from '@sluice/contract';
import { correlationOf } from '../exchange/correlation.ts';
import type { Draft } from '../registry/draft.ts';
import type { ServiceEntry } from '../registry/entries.ts';
import { findServices, registerService, removeServices } from '../registry/operations-topology.ts';
import { serviceBody } from '../registry/serialize.ts';
import { serviceRequestId } from '../upstreams/grpc/tool-operation.ts';
import type { ManagementContext } from './context.ts';
import { dataResponse, listResponse } from './responses.ts';
import type { Router } from './router.ts';

/** `/api/v1/services`. */
export function serviceRoutes(router: Router, { registry, serviceHealth, provisionTool }: ManagementContext): void {
  const { list, create, get, remove, provision } = operations.services;
  const toBody = (entry: ServiceEntry) => serviceBody(entry, serviceHealth.get(entry));

  router.add(list, () => listResponse(registry.current.services.all, (entry) => JSON.stringify(toBody(entry))));

  router.addWithBody(create, async ({ body, origin }) => {
    const { value, unconfirmed } = await registry.commit((draft) => registerService(draft, body), origin);
    const { entry, created } = value;
    const json = JSON.stringify(toBody(entry));
    if (!created) return dataResponse(json, { unconfirmed });
    const location = `${create.path}/${encodeURIComponent(entry.name)}?serviceType=${entry.serviceType}`;
    return dataResponse(json, { status: 201, headers: { location }, unconfirmed });
  });

  router.add(get, ({ name, query }) => {
    const entries = findServices(registry.current, name, query('serviceType')).map(toBody);
    return dataResponse(JSON.stringify(entries.length === 1 ? entries[0] : { ...entries[0], entries }));
  });

  router.add(remove, async ({ name, query, origin }) => {
    const remove = (draft: Draft) => removeServices(draft, name, query('serviceType'));
    const { value: count, unconfirmed } = await registry.commit(remove, origin);
    return dataResponse(JSON.stringify({ removed: name, count }), { unconfirmed });
  });

  router.addWithBody(provision, async ({ http, name, query, body }) => {
    const [first] = findServices(registry.current, name, query('serviceType'));
    const result = await provisionTool(first, body, serviceRequestId(correlationOf(http.headers).requestId));
    return dataResponse(JSON.stringify(result));
  });
}
