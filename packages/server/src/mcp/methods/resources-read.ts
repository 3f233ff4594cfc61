import { INTERNAL_ERROR, INVALID_PARAMS } from '@sluice/protocol/mcp/constants';
import { type ErrorOutcome, notFound, rpcError } from '../../http/outcome.ts';
import type { Registry } from '../../registry/registry.ts';
import { type NamespaceState, routeResource } from '../../registry/snapshot.ts';
import type { GrpcBridge } from '../../upstreams/grpc/bridge.ts';
import { serviceNotFoundMessage } from '../../upstreams/grpc/channels.ts';
import type { CallRouter } from '../../upstreams/mcp/relay/router.ts';
import type { FindMissing, McpFilter, McpMethodFilter } from '../exchange.ts';

/** Dependencies of {@link serviceResourceRead}. */
interface ResourceReadParts {
  readonly registry: Pick<Registry, 'current'>;
  readonly relay: CallRouter;
  readonly bridge: GrpcBridge;
}

/**
 * `resources/read`: the uri exactly, then the templates in order of registration (decisions 4.7). An unlisted uri, such as
 * a resource_link's, is read from the forward that returned it.
 */
export function serviceResourceRead({ registry, relay, bridge }: ResourceReadParts): McpMethodFilter {
  const routeOf = (namespace: NamespaceState, uri: string) =>
    routeResource(registry.current, namespace.indexes.resource, uri, () => relay.findUnlistedForward(namespace, uri));
  const filter: McpFilter = (exchange) => {
    const { message, namespace } = exchange;
    if (message?.kind !== 'request' || !namespace) return undefined;
    const { uri } = message.params;
    if (typeof uri !== 'string') return rpcError(INVALID_PARAMS, 'missing required parameter: uri');
    const { entry, forward } = routeOf(namespace, uri) ?? {};
    if (forward !== undefined) return relay.call(exchange, message, { forward, ...(entry && { entry }) });
    if (!entry) return resourceNotFound(uri);
    return (
      bridge.resource(exchange, uri, entry) ??
      rpcError(INTERNAL_ERROR, serviceNotFoundMessage(String(entry.members.type)))
    );
  };
  const findMissing: FindMissing = ({ message, namespace }) => {
    const uri = message?.kind === 'request' ? message.params.uri : undefined;
    return typeof uri !== 'string' || !namespace || routeOf(namespace, uri) ? undefined : resourceNotFound(uri);
  };
  return { methods: ['resources/read'], filter, findMissing };
}

/** Response to a request about a resource that is not served. */
export function resourceNotFound(uri: string): ErrorOutcome {
  return notFound(INVALID_PARAMS, `resource not found: ${uri}`, undefined, { uri });
}
