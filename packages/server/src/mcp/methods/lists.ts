import { INVALID_REQUEST } from '@sluice/protocol/mcp/constants';
import { rpcError } from '../../http/outcome.ts';
import type { CacheHint, Kind } from '../../registry/entries.ts';
import type { CatalogView } from '../../registry/index.ts';
import type { NamespaceState } from '../../registry/snapshot.ts';
import type { Forwards } from '../../upstreams/mcp/forwards.ts';
import type { ClientProfiles } from '../client-profile.ts';
import type { McpFilter, McpOutcome } from '../request.ts';

/** What list filters work with. */
export interface ListParts {
  readonly forwards: Pick<Forwards, 'ensureDiscoveredFor'>;
  readonly profiles: ClientProfiles;
}

const NOT_TO_BE_KEPT: CacheHint = { ttlMs: 0, cacheScope: 'private' };

/**
 * Answers list methods from memory: no upstream is asked (specification, "MCP request handling"). A client whose
 * capabilities nobody has declared before waits, within limits, until the forwards were asked with them.
 */
export function lists(methods: Readonly<Record<string, Kind>>, { forwards, profiles }: ListParts): McpFilter {
  // Not looked up in the record itself: methods come from outside, and every object has a `toString`.
  const kinds = new Map(Object.entries(methods));
  return ({ message, namespace, session, era, capabilities, onlyTools, evaluated }) => {
    if (message?.kind !== 'request' || !namespace) return undefined;
    const kind = kinds.get(message.method);
    if (kind === undefined) return undefined;
    const { method } = message;
    const profile = session?.profile ?? profiles.of(era, capabilities);
    const view = evaluated ? uncacheable(profile.view) : profile.view;
    const answer = ({ [kind]: shelf }: NamespaceState['indexes']): McpOutcome => {
      // An evaluator's choice: `tools/list` alone has one.
      const list = onlyTools ? shelf.listOf(onlyTools, view, method) : shelf.list(view, method);
      return { kind: 'result', ...list };
    };
    const admitted = forwards.ensureDiscoveredFor(profile);
    if (!admitted) return answer(namespace.indexes);
    return admitted.then((current) => {
      const now = current.namespace(namespace.name);
      // It may have been removed, or made anew.
      if (now?.identity === namespace.identity) return answer(now.indexes);
      return rpcError(INVALID_REQUEST, `namespace not found: ${namespace.name}`, 404);
    });
  };
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
    wrap: (method, items) => view.wrap(method, items, NOT_TO_BE_KEPT),
  };
}

/** `tools/list`: the tools of the namespace in the path (decisions 4.7). */
export function serviceToolList(parts: ListParts): McpFilter {
  return lists({ 'tools/list': 'tool' }, parts);
}

/** `resources/list` and `resources/templates/list`: the resources of the namespace in the path (decisions 4.7). */
export function serviceResourceList(parts: ListParts): McpFilter {
  return lists({ 'resources/list': 'resource', 'resources/templates/list': 'resource' }, parts);
}

/** `prompts/list`: the prompts of the namespace in the path (decisions 4.7). */
export function servicePromptList(parts: ListParts): McpFilter {
  return lists({ 'prompts/list': 'prompt' }, parts);
}
