import { METHOD_NOT_FOUND } from '@sluice/protocol/mcp/constants';
import { resultText } from '@sluice/protocol/mcp/message';
import { notFound } from '../../http/outcome.ts';
import type { DiscoveryWaits } from '../discovery-waits.ts';
import { type McpMethodFilter, type McpRequest, requestFilter } from '../exchange.ts';
import { declarationsFor } from '../server-info.ts';
import { entryFilter } from './calls.ts';
import type { RelayParts } from './passthrough.ts';

/** Result for a manually registered prompt or template. */
const NO_SUGGESTIONS = { completion: { values: [], total: 0, hasMore: false } };

/**
 * `completion/complete`: relayed to the forward of the prompt or resource. Passed on when no forward of the namespace declares
 * `completions`, so that it ends as an unknown method.
 */
export function serviceCompletion(
  parts: RelayParts & { readonly discoveryWaits: Pick<DiscoveryWaits, 'isPending'> },
): McpMethodFilter {
  const { access, clientCalls, discoveryWaits } = parts;
  const isOffered = (request: McpRequest): boolean =>
    declarationsFor(request, parts).some(({ capabilities }) => capabilities.has('completions'));
  const { filter, findMissing } = entryFilter('completion/complete', access, (request, target) => {
    const permit = access.decide(request.principal, target);
    if (target.forward !== undefined) return clientCalls.send(request, permit);
    return { kind: 'result', json: resultText(request.era, NO_SUGGESTIONS) };
  });
  return requestFilter(
    ['completion/complete'],
    (request) => {
      if (isOffered(request)) return filter(request);
      // A forward that is not known yet may declare it.
      return discoveryWaits.isPending(request.namespace)
        ? notFound(METHOD_NOT_FOUND, `method not found: ${request.message.method}`)
        : undefined;
    },
    (request) => (isOffered(request) ? findMissing?.(request) : undefined),
  );
}
