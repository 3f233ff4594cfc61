import { type Operation, operations, type RequestBody } from '@sluice/contract';
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
import type { ManagementContext } from './context.ts';
import { dataResponse, listResponse } from './responses.ts';
import type { ApiRequest, Router } from './router.ts';

/** The operations of one kind of entry. */
interface EntryOperations {
  readonly list: Operation;
  readonly create: Operation & { readonly body: EntryBody };
  readonly get: Operation;
  readonly update: Operation & { readonly body: EntryBody };
  readonly remove: Operation;
}

type EntryBody = RequestBody & { readonly schema: z.ZodType<EntryInput> };

/** Routes to list, get, create, update and delete tools, resources and prompts (decisions 2.2, 4.1). */
export function entryRoutes(router: Router, context: ManagementContext): void {
  addKind(router, context, 'tool', operations.tools);
  addKind(router, context, 'resource', operations.resources);
  addKind(router, context, 'prompt', operations.prompts);
}

function addKind(
  router: Router,
  { registry }: ManagementContext,
  kind: Kind,
  { list, create, get, update, remove }: EntryOperations,
): void {
  router.add(list, ({ query }) => {
    const namespace = query('namespace');
    const { shadowed, upstream } = parseInclude(query('include'));
    const snapshot = registry.current;
    const entries = snapshot.entries(kind, { shadowed, ...(namespace !== undefined && { namespace }) });
    return listResponse(entries, (entry) =>
      entryJson(entry, { shadowed: shadowed && !snapshot.isServed(entry), upstream }),
    );
  });

  router.addWithBody(create, async ({ body }) => {
    const { entry, location } = await registry.commit((draft) => {
      const entry = createEntry(draft, kind, body);
      return { entry: entry, location: locationOf(create.path, draft, entry) };
    });
    return dataResponse(entryJson(entry), { status: 201, headers: { location } });
  });

  router.add(get, (request) =>
    dataResponse(
      entryJson(findInSnapshot(registry.current, kind, selectorOf(request)), {
        upstream: parseInclude(request.query('include')).upstream,
      }),
    ),
  );

  router.addWithBody(update, async (request) => {
    const entry = await registry.commit((draft) => updateEntry(draft, kind, selectorOf(request), request.body));
    return dataResponse(entryJson(entry));
  });

  router.add(remove, async (request) => {
    const { name } = await registry.commit((draft) => removeEntry(draft, kind, selectorOf(request)));
    return dataResponse(JSON.stringify({ removed: name }));
  });
}

/** Parses the comma-separated list of `?include=`. */
function parseInclude(include = ''): { readonly shadowed: boolean; readonly upstream: boolean } {
  const items = include.split(',');
  return { shadowed: items.includes('shadowed'), upstream: items.includes('upstream') };
}

/** The URL of a new entry, with its uri where resources share a name. */
function locationOf(path: string, draft: Draft, entry: Entry): string {
  const location = `${path}/${encodeURIComponent(entry.name)}?namespace=${entry.namespace}`;
  return sharesName(draft, entry) ? `${location}&uri=${encodeURIComponent(entry.key)}` : location;
}

/** The entry selected by a request (decisions 2.2). */
function selectorOf({ name, query }: ApiRequest<string>): Selector {
  return { name, namespace: query('namespace'), uri: query('uri') };
}
