import { INTERNAL_ERROR, INVALID_PARAMS } from '@sluice/protocol/mcp/constants';
import { notFound, rpcError } from '../../http/outcome.ts';
import type { Registry } from '../../registry/registry.ts';
import { routeResource } from '../../registry/snapshot.ts';
import type { GrpcBridge } from '../../upstreams/grpc/bridge.ts';
import { serviceNotFoundMessage } from '../../upstreams/grpc/channels.ts';
import type { CallRouter } from '../../upstreams/mcp/relay/router.ts';
import type { McpFilter, McpMethodFilter } from '../request.ts';

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
  const filter: McpFilter = (context) => {
    const { message, namespace } = context;
    if (message?.kind !== 'request' || !namespace) return undefined;
    const { uri } = message.params;
    if (typeof uri !== 'string') return rpcError(INVALID_PARAMS, 'missing required parameter: uri');
    const { resource: index } = namespace.indexes;
    const route = routeResource(registry.current, index, uri, () => relay.findUnlistedForward(namespace, uri));
    const { entry, forward } = route ?? {};
    if (forward !== undefined) return relay.call(context, message, { forward, ...(entry && { entry }) });
    if (!entry) return notFound(INVALID_PARAMS, `resource not found: ${uri}`, undefined, { uri });
    return (
      bridge.resource(context, uri, entry) ??
      rpcError(INTERNAL_ERROR, serviceNotFoundMessage(String(entry.members.type)))
    );
  };
  return { methods: ['resources/read'], filter };
}
