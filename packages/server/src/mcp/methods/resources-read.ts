import { INTERNAL_ERROR, INVALID_PARAMS } from '@sluice/protocol/mcp/constants';
import { rpcError } from '../../http/outcome.ts';
import { findResource } from '../../registry/snapshot.ts';
import type { GrpcBridge } from '../../upstreams/grpc/bridge.ts';
import { serviceNotFoundMessage } from '../../upstreams/grpc/channels.ts';
import type { CallRouter } from '../../upstreams/mcp/relay/router.ts';
import type { McpFilter } from '../request.ts';

/** `resources/read`: the uri exactly, then the templates in order of registration (decisions 4.7). */
export function serviceResourceRead(relay: CallRouter, bridge: GrpcBridge): McpFilter {
  return (context) => {
    const { message, namespace } = context;
    if (message?.kind !== 'request' || message.method !== 'resources/read' || !namespace) return undefined;
    const { uri } = message.params;
    if (typeof uri !== 'string') return rpcError(INVALID_PARAMS, 'missing required parameter: uri');
    const resource = findResource(namespace.indexes.resource, uri);
    if (!resource) {
      // A uri that no list names, such as a resource_link's, is asked for where it came from.
      const forward = relay.findUnlistedForward(namespace, uri);
      return forward
        ? relay.call(context, message, { kind: 'unlisted', forward })
        : rpcError(INVALID_PARAMS, `resource not found: ${uri}`, undefined, { uri });
    }
    const { discovered } = resource;
    if (discovered) return relay.call(context, message, { kind: 'discovered', entry: resource, discovered });
    return (
      bridge.resource(context, uri, resource) ??
      rpcError(INTERNAL_ERROR, serviceNotFoundMessage(String(resource.members.type)))
    );
  };
}
