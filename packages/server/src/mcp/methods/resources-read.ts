import type { Access } from '../../access/access.ts';
import type { Calls } from '../../upstreams/calls.ts';
import type { McpFilter, McpMethodFilter } from '../exchange.ts';

/** Dependencies of {@link serviceResourceRead}. */
interface ResourceReadParts {
  readonly access: Access;
  readonly clientCalls: Calls;
}

/**
 * `resources/read`: the uri exactly, then the templates in order of registration. An unlisted uri, such as that of a link, is
 * read from the forward that has sent it.
 */
export function serviceResourceRead({ access, clientCalls }: ResourceReadParts): McpMethodFilter {
  const filter: McpFilter = (exchange) => {
    const { message, namespace } = exchange;
    if (message?.kind !== 'request' || !namespace) return undefined;
    const target = access.resolve(namespace, message);
    if (target?.kind !== 'target') return target;
    return clientCalls.send(exchange, access.decide(exchange.principal, target));
  };
  return { methods: ['resources/read'], filter, findMissing: (exchange) => access.findMissing(exchange) };
}
