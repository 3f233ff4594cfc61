import { type DeleteWarning, type EnabledResult, type Operation, operations, type RequestBody } from '@sluice/contract';
import type { z } from 'zod';
import type { Draft } from '../registry/draft.ts';
import { type Entry, entryPlace, isEnabled, type Kind } from '../registry/entries.ts';
import {
  createEntry,
  type EntryInput,
  findInSnapshot,
  removeEntry,
  type Selection,
  type Selector,
  sharesName,
  updateEntry,
} from '../registry/operations.ts';
import { enableEntries, markUpstreamEntries, setEnabled } from '../registry/operations-enabled.ts';
import { entryDescription, entryJson } from '../registry/serialize.ts';
import type { Steps } from '../registry/steps.ts';
import { rejectUnknownMembers, unknownMemberWarnings } from '../registry/unknown-members.ts';
import type { ManagementContext } from './context.ts';
import { type PageParameter, pagedResponse } from './paging.ts';
import { dataResponse } from './responses.ts';
import type { ApiRequest, Router } from './router.ts';

/** The operations of one kind of entry. */
interface EntryOperations {
  readonly list: Operation & {
    readonly query: Readonly<Record<PageParameter | 'namespace' | 'include' | 'only', object>>;
  };
  readonly create: Operation & { readonly body: EntryBody };
  readonly get: Operation;
  readonly update: Operation & {
    readonly body: EntryBody;
    readonly query: Readonly<Record<'unknown_members', object>>;
  };
  readonly remove: Operation;
  readonly enable: Operation & { readonly body: EnabledBody };
}

type EnabledBody = RequestBody & { readonly schema: z.ZodType<EnabledInput> };

interface EnabledInput extends Selection {
  readonly enabled: boolean;
  readonly forward?: string | undefined;
}

type EntryBody = RequestBody & { readonly schema: z.ZodType<EntryInput> };

/** Entries sorted by {@link byOrder}. */
const ENTRY_LIST = {
  place: entryPlace,
  key: ({ namespace, key }: Entry) => `${namespace} ${key}`,
  texts: (entry: Entry) => [entry.name, entryDescription(entry)],
};

/** Routes to list, get, create, update, delete and enable tools, resources and prompts. */
export function entryRoutes(router: Router, context: ManagementContext): void {
  addKind(router, context, 'tool', operations.tools);
  addKind(router, context, 'resource', operations.resources);
  addKind(router, context, 'prompt', operations.prompts);
}

function addKind(
  router: Router,
  { registry }: ManagementContext,
  kind: Kind,
  { list, create, get, update, remove, enable }: EntryOperations,
): void {
  router.add(list, ({ query }) => {
    const namespace = query('namespace');
    const { shadowed: isIncluded, upstream } = parseInclude(query('include'));
    const shadowed = query('only') === 'shadowed' ? 'only' : isIncluded;
    const snapshot = registry.current;
    const entries = snapshot.entries(kind, { shadowed, ...(namespace !== undefined && { namespace }) });
    const serialize = (entry: Entry) =>
      entryJson(entry, { shadowed: shadowed !== false && !snapshot.isServed(entry), upstream });
    return pagedResponse(entries, { ...ENTRY_LIST, serialize }, query);
  });

  router.addWithBody(create, async ({ body, origin }) => {
    const { value, unconfirmed } = await registry.commit((draft) => {
      const unknown: string[] = [];
      const entry = createEntry(draft, kind, body, (found) => void unknown.push(...found));
      return { entry, location: locationOf(create.path, draft, entry), unknown };
    }, origin);
    const { entry, location, unknown } = value;
    const warnings = unknownMemberWarnings(kind, unknown);
    return dataResponse(entryJson(entry), { status: 201, headers: { location }, warnings, unconfirmed });
  });

  router.add(get, (request) =>
    dataResponse(
      entryJson(findInSnapshot(registry.current, kind, selectorOf(request)), {
        upstream: parseInclude(request.query('include')).upstream,
      }),
    ),
  );

  router.addWithBody(update, async (request) => {
    const { body, origin } = request;
    const keepsUnknown = request.query('unknown_members') === 'keep';
    const { value, unconfirmed } = await registry.commit(function* (draft) {
      const unknown: string[] = [];
      const updated = updateEntry(draft, kind, selectorOf(request), body, (found) => {
        if (!keepsUnknown) rejectUnknownMembers(kind, found);
        unknown.push(...found);
      });
      const { enabled = isEnabled(updated) } = body;
      const entry = enabled === isEnabled(updated) ? updated : yield* setEnabled(draft, updated, enabled);
      return { entry, unknown };
    }, origin);
    const warnings = unknownMemberWarnings(kind, value.unknown);
    return dataResponse(entryJson(value.entry), { warnings, unconfirmed });
  });

  router.add(remove, async (request) => {
    const remove = (draft: Draft) => removeEntry(draft, kind, selectorOf(request));
    const { value: removed, unconfirmed } = await registry.commit(remove, request.origin);
    const warnings = returnsWithDiscovery(removed);
    return dataResponse(JSON.stringify({ removed: removed.name }), { warnings, unconfirmed });
  });

  router.addWithBody(enable, async ({ body: { enabled, forward, names, uris, namespace }, origin }) => {
    const { value, unconfirmed } = await registry.commit(function* (draft): Steps<EnabledResult> {
      if (forward === undefined) {
        return { enabled, count: yield* enableEntries(draft, kind, { names, uris, namespace }, enabled) };
      }
      const keys = new Set(names ?? uris);
      const pending = yield* markUpstreamEntries(draft, kind, { forward, keys }, enabled);
      return { enabled, count: keys.size, ...(pending.length > 0 && { pending }) };
    }, origin);
    return dataResponse(JSON.stringify(value), { unconfirmed });
  });
}

/** Deleting a discovered entry does not hide it. Copies do not return. */
function returnsWithDiscovery({ kind, name, discovered }: Entry): DeleteWarning[] | undefined {
  if (!discovered || discovered.copied) return undefined;
  const message = `${kind} ${name} is registered again by the next discovery of forward ${discovered.forward}; to hide it, set enabled to false`;
  return [{ code: 'RETURNS_WITH_DISCOVERY', message }];
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

/** The entry selected by a request. */
function selectorOf({ name, query }: ApiRequest<string>): Selector {
  return { name: query('name') ?? name, namespace: query('namespace'), uri: query('uri') };
}
