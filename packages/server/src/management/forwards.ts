import {
  changedHeaders,
  type Forward as ForwardBody,
  type ForwardPatch,
  labels as labelsSchema,
  operations,
  type RefreshResult,
} from '@sluice/contract';
import {
  changeForwardInSteps,
  configurationOf,
  describedForward,
  type ForwardChanges,
} from '../registry/change-forward.ts';
import { DEFAULT_NAMESPACE, type Entry, type Forward, type Labels } from '../registry/entries.ts';
import { OperationError } from '../registry/operation-error.ts';
import { namespaceOf } from '../registry/operations.ts';
import { addForward, removeForwardInSteps } from '../registry/operations-topology.ts';
import { forwardMembers } from '../registry/serialize.ts';
import { byRegistration, Snapshot } from '../registry/snapshot.ts';
import type { ForwardStatus } from '../upstreams/forwards.ts';
import type { ManagementContext } from './context.ts';
import { entityTag, requireMatch } from './entity-tag.ts';
import { pagedResponse } from './paging.ts';
import { dataResponse, listResponse } from './responses.ts';
import type { Router } from './router.ts';

/** Status of a forward that was removed before the response. */
const REMOVED: ForwardStatus = { available: false, statusMessage: 'removed' };

/** `/api/v1/forwards` with refreshes. */
export function forwardRoutes(router: Router, context: ManagementContext): void {
  const { config, registry, forwards, forwardHistory, forwardValidator } = context;
  const { list, create, get, update, remove, refresh, test, history } = operations.forwards;
  const serialize = (forward: Forward, snapshot = registry.current): string => {
    // The forward may have been removed meanwhile, and its name reused.
    const isIn = ({ forwards: registered }: Snapshot): boolean =>
      registered.get(forward.name)?.registrationId === forward.registrationId;
    const status = isIn(registry.current) ? forwards.status(forward.name) : REMOVED;
    return JSON.stringify(forwardBody(forward, isIn(snapshot) ? snapshot : Snapshot.empty(), status));
  };

  router.add(list, ({ query }) => {
    const namespace = query('namespace');
    const snapshot = registry.current;
    const all = [...snapshot.forwards.values()].sort(byRegistration);
    const selected = namespace === undefined ? all : all.filter((forward) => forward.namespace === namespace);
    return pagedResponse(
      selected,
      {
        place: ({ registrationId }) => [registrationId],
        key: ({ name }) => name,
        texts: ({ name }) => [name, forwards.status(name).serverInfo?.description ?? ''],
        serialize: (forward) => serialize(forward, snapshot),
      },
      query,
    );
  });

  router.addWithBody(create, async ({ body, origin }) => {
    const { name } = body;
    const described = describedForward(body);
    forwardValidator.requireUsable(described);
    const { value: added, unconfirmed } = await registry.commit((draft) => addForward(draft, described), origin);
    await forwards.settled(name);
    const location = `${create.path}/${encodeURIComponent(name)}`;
    return dataResponse(serialize(added), { status: 201, headers: { location }, unconfirmed });
  });

  router.add(get, ({ name }) => {
    const forward = registry.current.forwards.get(name);
    if (!forward) throw new OperationError('NOT_FOUND', `forward not found: ${name}`);
    return dataResponse(serialize(forward), { headers: { etag: tagOf(forward) } });
  });

  router.addWithBody(update, async ({ http, name, body, origin }) => {
    const { value, unconfirmed } = await registry.commit(function* (draft) {
      const before = draft.forwards.get(name);
      if (!before) throw new OperationError('NOT_FOUND', `forward not found: ${name}`);
      requireMatch(http.headers['if-match'], tagOf(before), `forward ${name}`);
      const after = yield* changeForwardInSteps(draft, before, changesOf(before, body));
      forwardValidator.requireUsable(after, before);
      if (body.headers === undefined) forwardValidator.requireSameOrigin(before, after);
      return { before, after };
    }, origin);
    const { before, after } = value;
    if (config.kinds.needsDiscovery(before, after)) await forwards.settled(name);
    return dataResponse(serialize(after), { headers: { etag: tagOf(after) }, unconfirmed });
  });

  router.add(remove, async ({ name, origin }) => {
    const { unconfirmed } = await registry.commit((draft) => removeForwardInSteps(draft, name), origin);
    return dataResponse(JSON.stringify({ removed: name }), { unconfirmed });
  });

  router.add(refresh, async ({ name }) => {
    await forwards.refresh(name);
    const result: RefreshResult = { refreshed: name, ...countsOf(registry.current, name) };
    return dataResponse(JSON.stringify(result));
  });

  let isTesting = false;
  router.addWithBody(test, async ({ body }) => {
    const { name, address = '', proxy } = body;
    const registered = name === undefined ? undefined : registry.current.forwards.get(name);
    if (name !== undefined && !registered) throw new OperationError('NOT_FOUND', `forward not found: ${name}`);
    if (isTesting) throw new OperationError('UNAVAILABLE', 'another test of a forward is running: wait for its end');
    isTesting = true;
    try {
      const target = registered ?? { address, proxy, headers: changedHeaders(undefined, body.headers) };
      return dataResponse(JSON.stringify(await forwards.test(target)));
    } finally {
      isTesting = false;
    }
  });

  router.add(history, ({ name }) => {
    if (!registry.current.forwards.has(name)) throw new OperationError('NOT_FOUND', `forward not found: ${name}`);
    return listResponse(forwardHistory.of(name), (change) => JSON.stringify(change));
  });
}

/** The changes of a merge patch. */
function changesOf(forward: Forward, changes: ForwardPatch): ForwardChanges {
  const { address, namespace, labels, prefix, headers, expose, proxy, compression } = changes;
  return {
    ...(address !== undefined && { address }),
    ...(namespace !== undefined && { namespace: namespace === null ? DEFAULT_NAMESPACE : namespaceOf(namespace) }),
    ...(labels !== undefined && { labels: labels === null ? {} : mergedLabels(forward.labels, labels) }),
    ...(prefix !== undefined && { prefix: prefix ?? '' }),
    ...(proxy !== undefined && { proxy: proxy ?? undefined }),
    ...(compression !== undefined && { compression: compression || undefined }),
    headers,
    expose,
  };
}

function mergedLabels(labels: Labels, changes: Readonly<Record<string, string | null>>): Labels {
  const merged = new Map<string, string | null>([...Object.entries(labels), ...Object.entries(changes)]);
  const result = labelsSchema.safeParse(Object.fromEntries([...merged].filter(([, value]) => value !== null)));
  if (result.success) return result.data;
  throw new OperationError('BAD_REQUEST', `invalid forward: labels ${result.error.issues[0]?.message}`);
}

/** Tag of the members that operators set. */
function tagOf(forward: Forward): string {
  return entityTag(configurationOf(forward));
}

function forwardBody(forward: Forward, snapshot: Snapshot, status: ForwardStatus): ForwardBody {
  const { name } = forward;
  const message = [status.statusMessage, shadowedNote(snapshot.shadowed(name))].filter(Boolean).join('; ');
  return {
    ...forwardMembers(forward),
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

/** Shadowed entries that a status message lists. */
const MAX_LISTED = 100;

/** Lists the shadowed entries of a forward. */
function shadowedNote(shadowed: readonly Entry[]): string | undefined {
  if (shadowed.length === 0) return undefined;
  const named = shadowed.slice(0, MAX_LISTED).map(({ kind, key }) => `${kind} ${key}`);
  const more = shadowed.length > MAX_LISTED ? ` and ${shadowed.length - MAX_LISTED} more` : '';
  return `shadowed by entries registered earlier: ${named.join(', ')}${more}`;
}
