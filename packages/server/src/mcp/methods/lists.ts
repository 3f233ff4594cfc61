import { INVALID_REQUEST } from '@sluice/protocol/mcp/constants';
import { visibleEntries } from '../../access/access.ts';
import { rpcError } from '../../http/outcome.ts';
import type { CacheHint, Kind } from '../../registry/entries.ts';
import type { CatalogView, PrebuiltList } from '../../registry/list.ts';
import type { Registry } from '../../registry/registry.ts';
import type { NamespaceState } from '../../registry/snapshot.ts';
import type { ClientProfiles } from '../client-profile.ts';
import type { DiscoveryWaits } from '../discovery-waits.ts';
import type { McpFilter, McpOutcome, McpRequest } from '../exchange.ts';

/** Dependencies of {@link serveList}. */
interface ListParts {
  readonly discoveryWaits: Pick<DiscoveryWaits, 'beforeAnswer' | 'isIncomplete'>;
  readonly profiles: ClientProfiles;
  readonly registry: Pick<Registry, 'slicer'>;
}

const NOT_CACHEABLE: CacheHint = { ttlMs: 0, cacheScope: 'private' };

/**
 * Serves the lists of a kind from memory, without an upstream request. Requests wait, within limits, for the first discovery of
 * a forward, and for the discovery with capabilities that have not been declared before. A list that lacks entries must not be
 * cached.
 */
export function serveList(
  kind: Kind,
  request: McpRequest,
  { discoveryWaits, profiles, registry }: ListParts,
): ReturnType<McpFilter> {
  const { message, namespace, session, era, capabilities, selection, evaluated } = request;
  const { method } = message;
  const profile = session?.profile ?? profiles.of(era, capabilities);
  const respond = (current: NamespaceState): McpOutcome | Promise<McpOutcome> => {
    const isUncacheable = evaluated || discoveryWaits.isIncomplete(current);
    const ofServer = profile.viewOf(profiles.identities.of(namespace.name));
    const view = isUncacheable ? uncacheable(ofServer) : ofServer;
    const { lists } = visibleEntries(current, kind);
    const list = (selection ? lists.limitedTo(selection) : lists).getInSlices(view, method, registry.slicer);
    return list instanceof Promise ? list.then(toOutcome) : toOutcome(list);
  };
  const waiting = discoveryWaits.beforeAnswer(request, namespace, profile);
  if (!waiting) return respond(namespace);
  return waiting.then((waited) => {
    if ('ended' in waited) return waited.ended;
    if (waited.namespace) return respond(waited.namespace);
    return rpcError(INVALID_REQUEST, `namespace not found: ${namespace.name}`, 404);
  });
}

function toOutcome({ json, bytes }: PrebuiltList): McpOutcome {
  return { kind: 'result', json, bytes };
}

/**
 * The view with the caching hints of an evaluated response: a client that cached it would bypass the evaluation of its next
 * request, and those of other clients with a shared cache. Also of an incomplete one, which will soon be another.
 */
function uncacheable(view: CatalogView): CatalogView {
  return {
    key: `${view.key} uncacheable`,
    choose: (forward) => view.choose(forward),
    item: (method, json) => view.item(method, json),
    wrap: (method, items) => view.wrap(method, items, NOT_CACHEABLE),
  };
}
