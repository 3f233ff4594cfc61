import { INVALID_REQUEST } from '@sluice/protocol/mcp/constants';
import { rpcError } from '../../http/outcome.ts';
import type { CacheHint, Kind } from '../../registry/entries.ts';
import type { CatalogView, PrebuiltList } from '../../registry/list.ts';
import type { Registry } from '../../registry/registry.ts';
import type { NamespaceState } from '../../registry/snapshot.ts';
import type { Forwards } from '../../upstreams/mcp/forwards.ts';
import type { ClientProfiles } from '../client-profile.ts';
import type { McpFilter, McpMethodFilter, McpOutcome } from '../request.ts';

/** Dependencies of list filters. */
export interface ListParts {
  readonly forwards: Pick<Forwards, 'ensureDiscoveredFor'>;
  readonly profiles: ClientProfiles;
  readonly registry: Pick<Registry, 'turns'>;
}

const NOT_CACHEABLE: CacheHint = { ttlMs: 0, cacheScope: 'private' };

/**
 * Serves list methods from memory, without an upstream request (specification, "MCP request handling"). A client with
 * capabilities that have not been declared before waits, within limits, for the discovery with them.
 */
function lists(kind: Kind, methods: readonly string[], { forwards, profiles, registry }: ListParts): McpMethodFilter {
  const filter: McpFilter = (context) => {
    const { message, namespace, session, era, capabilities, onlyTools, evaluated } = context;
    if (message?.kind !== 'request' || !namespace) return undefined;
    const { method } = message;
    const profile = session?.profile ?? profiles.of(era, capabilities);
    const ofServer = profile.viewOf(profiles.identities.of(namespace.name));
    const view = evaluated ? uncacheable(ofServer) : ofServer;
    const respond = ({ [kind]: index }: NamespaceState['indexes']): McpOutcome | Promise<McpOutcome> => {
      // An evaluator's choice: `tools/list` alone has one.
      const { turns } = registry;
      const list = onlyTools ? index.listOf(onlyTools, view, method, turns) : index.listInSlices(view, method, turns);
      return list instanceof Promise ? list.then(toOutcome) : toOutcome(list);
    };
    const discovery = forwards.ensureDiscoveredFor(profile, context);
    if (!discovery) return respond(namespace.indexes);
    return discovery.then((current) => {
      const currentNamespace = current.namespace(namespace.name);
      // The namespace may have been deleted, or deleted and recreated.
      if (currentNamespace?.identity === namespace.identity) return respond(currentNamespace.indexes);
      return rpcError(INVALID_REQUEST, `namespace not found: ${namespace.name}`, 404);
    });
  };
  return { methods, filter };
}

function toOutcome({ json, bytes }: PrebuiltList): McpOutcome {
  return { kind: 'result', json, bytes };
}

/**
 * The view with the caching hints of an evaluated response: a client that cached it would bypass the evaluation of its next
 * request, and those of other clients with a shared cache (mcp 2).
 */
function uncacheable(view: CatalogView): CatalogView {
  return {
    key: `${view.key} evaluated`,
    choose: (forward) => view.choose(forward),
    item: (method, json) => view.item(method, json),
    wrap: (method, items) => view.wrap(method, items, NOT_CACHEABLE),
  };
}

/** `tools/list`: the tools of the namespace in the path (decisions 4.7). */
export function serviceToolList(parts: ListParts): McpMethodFilter {
  return lists('tool', ['tools/list'], parts);
}

/** `resources/list` and `resources/templates/list`: the resources of the namespace in the path (decisions 4.7). */
export function serviceResourceList(parts: ListParts): McpMethodFilter {
  return lists('resource', ['resources/list', 'resources/templates/list'], parts);
}

/** `prompts/list`: the prompts of the namespace in the path (decisions 4.7). */
export function servicePromptList(parts: ListParts): McpMethodFilter {
  return lists('prompt', ['prompts/list'], parts);
}
