import { INTERNAL_ERROR } from '@sluice/protocol/mcp/constants';
import type { Access } from '../../access/access.ts';
import { rpcError } from '../../http/outcome.ts';
import type { GrpcBridge } from '../../upstreams/grpc/bridge.ts';
import { serviceNotFoundMessage } from '../../upstreams/grpc/channels.ts';
import type { CallRouter } from '../../upstreams/mcp/relay/router.ts';
import type { McpFilter, McpMethodFilter } from '../exchange.ts';

/** Dependencies of {@link serviceResourceRead}. */
interface ResourceReadParts {
  readonly access: Access;
  readonly relay: CallRouter;
  readonly bridge: GrpcBridge;
}

/**
 * `resources/read`: the uri exactly, then the templates in order of registration. An unlisted uri, such as that of a link, is
 * read from the forward that has sent it.
 */
export function serviceResourceRead({ access, relay, bridge }: ResourceReadParts): McpMethodFilter {
  const filter: McpFilter = (exchange) => {
    const { message, namespace } = exchange;
    if (message?.kind !== 'request' || !namespace) return undefined;
    const target = access.resolve(namespace, message);
    if (target?.kind !== 'target') return target;
    const permit = access.decide(exchange.principal, target);
    const client = relay.clientOf(exchange, target.entry);
    if (target.forward !== undefined) return relay.call(client, permit);
    return (
      bridge.resource(client, permit) ??
      rpcError(INTERNAL_ERROR, serviceNotFoundMessage(String(target.entry?.members.type)))
    );
  };
  return { methods: ['resources/read'], filter, findMissing: (exchange) => access.findMissing(exchange) };
}
