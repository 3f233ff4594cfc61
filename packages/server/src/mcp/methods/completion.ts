import { METHOD_NOT_FOUND } from '@sluice/protocol/mcp/constants';
import { resultText } from '@sluice/protocol/mcp/message';
import { notFound } from '../../http/outcome.ts';
import type { NamespaceState } from '../../registry/snapshot.ts';
import type { DiscoveryWaits } from '../discovery-waits.ts';
import type { FindMissing, McpExchange, McpFilter, McpMethodFilter } from '../exchange.ts';
import { declarationsTo } from '../server-info.ts';
import type { RelayParts } from './passthrough.ts';

/** Result for a manually registered prompt or template. */
const NO_SUGGESTIONS = { completion: { values: [], total: 0, hasMore: false } };

/**
 * `completion/complete`: relayed to the forward of the prompt or resource. Passed on when no forward of the namespace declares
 * `completions`, so that it ends as an unknown method.
 */
export function serviceCompletion({
  registry,
  profiles,
  clientCalls,
  access,
  discoveryWaits,
}: RelayParts & { readonly discoveryWaits: Pick<DiscoveryWaits, 'isPending'> }): McpMethodFilter {
  const offersCompletions = ({ session, era, capabilities }: McpExchange, namespace: NamespaceState): boolean => {
    const profile = session?.profile ?? profiles.of(era, capabilities);
    const declarations = declarationsTo(profile, registry.current, namespace);
    return declarations.some((one) => one.capabilities.has('completions'));
  };
  const filter: McpFilter = (exchange) => {
    const { message, namespace, era } = exchange;
    if (message?.kind !== 'request' || !namespace) return undefined;
    if (!offersCompletions(exchange, namespace)) {
      // A forward that is not known yet may declare it.
      return discoveryWaits.isPending(namespace)
        ? notFound(METHOD_NOT_FOUND, `method not found: ${message.method}`)
        : undefined;
    }
    const target = access.resolve(namespace, message);
    if (target?.kind !== 'target') return target;
    const permit = access.decide(exchange.principal, target);
    if (target.forward !== undefined) return clientCalls.send(exchange, permit);
    return { kind: 'result', json: resultText(era, NO_SUGGESTIONS) };
  };
  const findMissing: FindMissing = (exchange) => {
    const { namespace } = exchange;
    return namespace && offersCompletions(exchange, namespace) ? access.findMissing(exchange) : undefined;
  };
  return { methods: ['completion/complete'], filter, findMissing };
}
