import { operations, type Statistics } from '@sluice/contract';
import type { FastifyInstance } from 'fastify';
import type { Kind } from '../registry/entries.ts';
import type { Snapshot } from '../registry/snapshot.ts';
import { sendData } from './answer.ts';
import type { ManagementContext } from './context.ts';
import { route } from './route.ts';

/** How much is served, over all namespaces and without shadowed entries (decisions 4.4). */
export function statisticsRoutes(app: FastifyInstance, { registry }: ManagementContext): void {
  route(app, operations.observability.statistics, (_request, reply) => {
    const snapshot = registry.current;
    const statistics: Statistics = {
      toolsCount: count(snapshot, 'tool'),
      resourcesCount: count(snapshot, 'resource'),
      promptsCount: count(snapshot, 'prompt'),
      forwardsCount: snapshot.forwards.size,
      dataStoresCount: 0,
    };
    return sendData(reply, JSON.stringify(statistics));
  });
}

function count(snapshot: Snapshot, kind: Kind): number {
  let served = 0;
  for (const { shelves } of snapshot.namespaces.values()) served += shelves[kind].entries.length;
  return served;
}
