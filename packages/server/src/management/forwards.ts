import { type Forward as ForwardBody, operations, type RefreshResult } from '@sluice/contract';
import type { FastifyInstance } from 'fastify';
import { DEFAULT_NAMESPACE, type Entry, type Forward } from '../registry/entries.ts';
import { namespaceOf } from '../registry/operations.ts';
import { Snapshot } from '../registry/snapshot.ts';
import type { ForwardStatus } from '../upstreams/mcp/forwards.ts';
import { RequestError, route, routeWithBody, sendData, sendList } from './route.ts';
import type { ManagementContext } from './server.ts';

/** Of a forward that was removed before it could be shown. */
const REMOVED: ForwardStatus = { available: false, statusMessage: 'removed' };

/** `/api/v1/forwards` with refreshes (specification, "Endpoints"; decisions 2.4, 4.3). */
export function forwardRoutes(app: FastifyInstance, { registry, forwards }: ManagementContext): void {
  const { list, create, get, remove, refresh } = operations.forwards;
  const show = (forward: Forward, snapshot = registry.current): string => {
    // It may have been removed meanwhile, and another one may have its name.
    const isIn = ({ forwards: held }: Snapshot): boolean => held.get(forward.name)?.source === forward.source;
    const status = isIn(registry.current) ? forwards.status(forward.name) : REMOVED;
    return JSON.stringify(forwardBody(forward, isIn(snapshot) ? snapshot : Snapshot.empty(), status));
  };

  route(app, list, ({ query }, reply) => {
    const namespace = query('namespace');
    const snapshot = registry.current;
    const all = [...snapshot.forwards.values()].sort((a, b) => a.source - b.source);
    const wanted = namespace === undefined ? all : all.filter((forward) => forward.namespace === namespace);
    return sendList(reply, wanted, (forward) => show(forward, snapshot));
  });

  routeWithBody(app, create, async ({ body: { name, address, namespace, labels = {}, prefix = '' } }, reply) => {
    const target = namespace === undefined ? DEFAULT_NAMESPACE : namespaceOf(namespace);
    const added = await forwards.add({ name, address, namespace: target, labels, prefix });
    reply.header('location', `${create.path}/${encodeURIComponent(name)}`);
    return sendData(reply, show(added), 201);
  });

  route(app, get, ({ name }, reply) => {
    const forward = registry.current.forwards.get(name);
    if (!forward) throw new RequestError('NOT_FOUND', `forward not found: ${name}`);
    return sendData(reply, show(forward));
  });

  route(app, remove, async ({ name }, reply) => {
    await forwards.remove(name);
    return sendData(reply, JSON.stringify({ removed: name }));
  });

  route(app, refresh, async ({ name }, reply) => {
    await forwards.refresh(name);
    const answer: RefreshResult = { refreshed: name, ...countsOf(registry.current, name) };
    return sendData(reply, JSON.stringify(answer));
  });
}

function forwardBody(forward: Forward, snapshot: Snapshot, status: ForwardStatus): ForwardBody {
  const { name, address, namespace, labels, prefix } = forward;
  const message = [status.statusMessage, shadowedNote(snapshot.shadowed(name))].filter(Boolean).join('; ');
  return {
    name,
    address,
    namespace,
    labels,
    ...(prefix !== '' && { prefix }),
    available: status.available,
    ...(message !== '' && { statusMessage: message }),
    ...(status.serverInfo && { serverInfo: status.serverInfo }),
    ...countsOf(snapshot, name),
  };
}

function countsOf(snapshot: Snapshot, forward: string): Omit<RefreshResult, 'refreshed'> {
  const { tool, resource, prompt } = snapshot.counts(forward);
  return { tools_discovered: tool, resources_discovered: resource, prompts_discovered: prompt };
}

/** Shadowed entries that a status message names one by one. */
const NAMED = 100;

/** Names what a forward has but does not serve, because something registered earlier holds its key (decisions 2.2). */
function shadowedNote(shadowed: readonly Entry[]): string | undefined {
  if (shadowed.length === 0) return undefined;
  const named = shadowed.slice(0, NAMED).map(({ kind, key }) => `${kind} ${key}`);
  const more = shadowed.length > NAMED ? ` and ${shadowed.length - NAMED} more` : '';
  return `shadowed by entries registered earlier: ${named.join(', ')}${more}`;
}
