import type { FastifyInstance } from 'fastify';
import type { z } from 'zod';
import type { Entry, Kind } from '../registry/entries.ts';
import { entryJson } from '../registry/json.ts';
import { createEntry, removeEntry, updateEntry } from '../registry/operations/entries.ts';
import { findInSnapshot } from '../registry/operations/lookup.ts';
import type { Submission } from '../registry/operations/submission.ts';
import type { Snapshot } from '../registry/snapshot.ts';
import { sendData, sendList } from './answer.ts';
import { readBody } from './body.ts';
import type { ManagementContext } from './context.ts';
import { queryOf, selectorOf } from './query.ts';

interface ByName {
  Params: { name: string };
}

/** What one kind of entry brings to its routes. */
export interface EntryRoutes {
  readonly kind: Kind;
  /** Path of the collection. */
  readonly path: string;
  /** Bodies of POST and PUT. */
  readonly input: z.ZodType<Submission>;
  readonly update: z.ZodType<Submission>;
}

/** List, read, create, update and delete, alike for tools, resources and prompts (decisions 2.2, 4.1). */
export function entryRoutes(app: FastifyInstance, context: ManagementContext, routes: EntryRoutes): void {
  const { registry } = context;
  const { kind, path, input, update } = routes;

  app.get(path, (request, reply) => {
    const query = queryOf(request);
    const namespace = query.get('namespace');
    const shadowed = query.get('include') === 'shadowed';
    const snapshot = registry.current;
    const entries = snapshot.entries(kind, { shadowed, ...(namespace !== null && { namespace }) });
    return sendList(reply, entries, (entry) => entryJson(entry, shadowed && isShadowed(snapshot, entry)));
  });

  app.post(path, async (request, reply) => {
    const submission = readBody(request, kind, input);
    const entry = await registry.commit((draft) => createEntry(draft, kind, submission));
    return sendData(reply.header('location', locationOf(path, registry.current, entry)), entryJson(entry), 201);
  });

  app.get<ByName>(`${path}/:name`, (request, reply) =>
    sendData(reply, entryJson(findInSnapshot(registry.current, kind, selectorOf(request)))),
  );

  app.put<ByName>(`${path}/:name`, async (request, reply) => {
    const submission = readBody(request, kind, update);
    const entry = await registry.commit((draft) => updateEntry(draft, kind, selectorOf(request), submission));
    return sendData(reply, entryJson(entry));
  });

  app.delete<ByName>(`${path}/:name`, async (request, reply) => {
    const { name } = await registry.commit((draft) => removeEntry(draft, kind, selectorOf(request)));
    return sendData(reply, JSON.stringify({ removed: name }));
  });
}

function isShadowed(snapshot: Snapshot, entry: Entry): boolean {
  return snapshot.namespaces.get(entry.namespace)?.shelves[entry.kind].get(entry.key) !== entry;
}

/** Where the entry can be read. Resources may share a name: then the uri tells them apart. */
function locationOf(path: string, snapshot: Snapshot, { kind, name, namespace, key }: Entry): string {
  const location = `${path}/${encodeURIComponent(name)}?namespace=${namespace}`;
  if (kind !== 'resource') return location;
  const entries = snapshot.namespaces.get(namespace)?.shelves.resource.entries ?? [];
  const shared = entries.some((other) => other.name === name && other.key !== key);
  return shared ? `${location}&uri=${encodeURIComponent(key)}` : location;
}
