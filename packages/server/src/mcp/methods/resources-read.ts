import { INTERNAL_ERROR, INVALID_PARAMS } from '@sluice/protocol/mcp/constants';
import type { Filter } from '../../http/chain.ts';
import { rpcError } from '../../http/context.ts';
import { findResource } from '../../registry/snapshot.ts';
import type { Bridge } from '../../upstreams/grpc/bridge.ts';
import { serviceNotFoundMessage } from '../../upstreams/grpc/channel.ts';
import type { CallRouter } from '../../upstreams/mcp/relay/relay.ts';

/** `resources/read`: the uri exactly, then the templates in order of registration (decisions 4.7). */
export function serviceResourceRead(relay: CallRouter, bridge: Bridge): Filter {
  return (context) => {
    const { message, namespace } = context;
    if (message?.kind !== 'request' || message.method !== 'resources/read' || !namespace) return undefined;
    const { uri } = message.params;
    if (typeof uri !== 'string') return rpcError(INVALID_PARAMS, 'missing required parameter: uri');
    const resource = findResource(namespace.shelves.resource, uri);
    if (!resource) {
      // A uri that no list names, such as a resource_link's, is asked for where it came from.
      const forward = relay.forwardOfUnlisted(namespace, uri);
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
