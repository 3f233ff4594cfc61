import { METHOD_NOT_FOUND } from '@sluice/protocol/mcp/constants';
import { resultText } from '@sluice/protocol/mcp/message';
import { type ErrorOutcome, notFound } from '../../http/outcome.ts';
import type { DiscoveryWaits } from '../discovery-waits.ts';
import type { McpFilter, McpRequest } from '../exchange.ts';
import { declarationsFor } from '../server-info.ts';
import type { RelayParts } from './relay.ts';

/** Dependencies of {@link complete}. */
interface CompletionParts extends RelayParts {
  readonly discoveryWaits: Pick<DiscoveryWaits, 'isPending'>;
}

/** Result for a manually registered prompt or template. */
const NO_SUGGESTIONS = { completion: { values: [], total: 0, hasMore: false } };

/**
 * `completion/complete`: relayed to the forward of the prompt or resource. An unknown method when no forward of the namespace
 * declares `completions`.
 */
export function complete(request: McpRequest, parts: CompletionParts): ReturnType<McpFilter> {
  const { access, clientCalls, discoveryWaits } = parts;
  const { namespace, message, principal, era } = request;
  if (!isOffered(request, parts)) {
    // A forward that is not known yet may declare it.
    return discoveryWaits.isPending(namespace)
      ? notFound(METHOD_NOT_FOUND, `method not found: ${message.method}`)
      : undefined;
  }
  const target = access.resolve(namespace, message);
  if (target?.kind !== 'target') return target;
  const permit = access.decide(principal, target);
  if (target.forward !== undefined) return clientCalls.send(request, permit);
  return { kind: 'result', json: resultText(era, NO_SUGGESTIONS) };
}

/** {@link FindMissing} of {@link complete}. */
export function findMissingReference(request: McpRequest, parts: CompletionParts): ErrorOutcome | undefined {
  return isOffered(request, parts) ? parts.access.findMissing(request.namespace, request.message) : undefined;
}

function isOffered(request: McpRequest, parts: CompletionParts): boolean {
  return declarationsFor(request, parts).some(({ capabilities }) => capabilities.has('completions'));
}
