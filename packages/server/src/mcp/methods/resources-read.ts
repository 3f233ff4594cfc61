import { INTERNAL_ERROR, INVALID_PARAMS } from '@sluice/protocol/mcp/constants';
import { rpcError } from '../../http/outcome.ts';
import { findResource } from '../../registry/snapshot.ts';
import type { GrpcBridge } from '../../upstreams/grpc/bridge.ts';
import { serviceNotFoundMessage } from '../../upstreams/grpc/channels.ts';
import type { CallRouter } from '../../upstreams/mcp/relay/router.ts';
import type { McpFilter, McpMethodFilter } from '../request.ts';

/** `resources/read`: the uri exactly, then the templates in order of registration (decisions 4.7). */
export function serviceResourceRead(relay: CallRouter, bridge: GrpcBridge): McpMethodFilter {
  const filter: McpFilter = (context) => {
    const { message, namespace } = context;
    if (message?.kind !== 'request' || !namespace) return undefined;
    const { uri } = message.params;
    if (typeof uri !== 'string') return rpcError(INVALID_PARAMS, 'missing required parameter: uri');
    const resource = findResource(namespace.indexes.resource, uri);
    if (!resource) {
      // An unlisted uri, such as a resource_link's, is read from the forward that returned it.
      const forward = relay.findUnlistedForward(namespace, uri);
      return forward
        ? relay.call(context, message, { forward })
        : rpcError(INVALID_PARAMS, `resource not found: ${uri}`, undefined, { uri });
    }
    const { discovered } = resource;
    if (discovered) return relay.call(context, message, { forward: discovered.forward, entry: resource });
    return (
      bridge.resource(context, uri, resource) ??
      rpcError(INTERNAL_ERROR, serviceNotFoundMessage(String(resource.members.type)))
    );
  };
  return { methods: ['resources/read'], filter };
}
