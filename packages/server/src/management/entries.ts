import type { Operation, RequestBody } from '@sluice/contract';
import type { FastifyInstance } from 'fastify';
import type { z } from 'zod';
import type { Draft } from '../registry/draft.ts';
import type { Entry, Kind } from '../registry/entries.ts';
import {
  createEntry,
  type EntryInput,
  findInSnapshot,
  removeEntry,
  type Selector,
  sharesName,
  updateEntry,
} from '../registry/operations.ts';
import { entryJson } from '../registry/serialize.ts';
import type { Snapshot } from '../registry/snapshot.ts';
import { type OperationRequest, route, routeWithBody, sendData, sendList } from './route.ts';
import type { ManagementContext } from './server.ts';

/** The operations of one kind of entry. */
interface EntryOperations {
  readonly list: Operation;
  readonly create: Operation & { readonly body: Submitting };
  readonly get: Operation;
  readonly update: Operation & { readonly body: Submitting };
  readonly remove: Operation;
}

type Submitting = RequestBody & { readonly schema: z.ZodType<EntryInput> };

/** List, read, create, update and delete, alike for tools, resources and prompts (decisions 2.2, 4.1). */
export function entryRoutes(
  app: FastifyInstance,
  { registry }: ManagementContext,
  kind: Kind,
  { list, create, get, update, remove }: EntryOperations,
): void {
  route(app, list, ({ query }, reply) => {
    const namespace = query('namespace');
    const { shadowed, upstream } = included(query('include'));
    const snapshot = registry.current;
    const entries = snapshot.entries(kind, { shadowed, ...(namespace !== undefined && { namespace }) });
    return sendList(reply, entries, (entry) =>
      entryJson(entry, { shadowed: shadowed && isShadowed(snapshot, entry), upstream }),
    );
  });

  routeWithBody(app, create, async ({ body }, reply) => {
    const { entry, location } = await registry.commit((draft) => {
      const made = createEntry(draft, kind, body);
      return { entry: made, location: locationOf(create.path, draft, made) };
    });
    return sendData(reply.header('location', location), entryJson(entry), 201);
  });

  route(app, get, (request, reply) =>
    sendData(
      reply,
      entryJson(findInSnapshot(registry.current, kind, selectorOf(request)), {
        upstream: included(request.query('include')).upstream,
      }),
    ),
  );

  routeWithBody(app, update, async (request, reply) => {
    const entry = await registry.commit((draft) => updateEntry(draft, kind, selectorOf(request), request.body));
    return sendData(reply, entryJson(entry));
  });

  route(app, remove, async (request, reply) => {
    const { name } = await registry.commit((draft) => removeEntry(draft, kind, selectorOf(request)));
    return sendData(reply, JSON.stringify({ removed: name }));
  });
}

/** What a request wants to see besides: a list of words with commas between. */
function included(include = ''): { readonly shadowed: boolean; readonly upstream: boolean } {
  const words = include.split(',');
  return { shadowed: words.includes('shadowed'), upstream: words.includes('upstream') };
}

function isShadowed(snapshot: Snapshot, entry: Entry): boolean {
  return snapshot.namespaces.get(entry.namespace)?.shelves[entry.kind].get(entry.key) !== entry;
}

/** Where a new entry can be read. Resources may share a name: then the uri tells them apart. */
function locationOf(path: string, draft: Draft, entry: Entry): string {
  const location = `${path}/${encodeURIComponent(entry.name)}?namespace=${entry.namespace}`;
  return sharesName(draft, entry) ? `${location}&uri=${encodeURIComponent(entry.key)}` : location;
}

/** Which entry a request means (decisions 2.2). */
function selectorOf({ name, query }: OperationRequest<string>): Selector {
  return { name, namespace: query('namespace'), uri: query('uri') };
}
