import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { METHOD_NOT_FOUND } from '@sluice/protocol/mcp/constants';
import { resultText } from '@sluice/protocol/mcp/message';
import { isRelayable } from '@sluice/protocol/mcp/methods';
import { type ErrorOutcome, notFound } from '../../http/outcome.ts';
import type { Registry } from '../../registry/registry.ts';
import type { ClientProfiles } from '../client-profile.ts';
import type { DiscoveryWaits } from '../discovery-waits.ts';
import type { McpFilter, McpRequest } from '../exchange.ts';
import { declarationsFor, forwardForMethod } from '../server-info.ts';
import type { EntryParts } from './calls.ts';

/** Dependencies of methods that are relayed by declared capability. */
interface RelayParts extends EntryParts {
  readonly registry: Registry;
  readonly profiles: ClientProfiles;
}

/**
 * Relays unknown requests, such as vendor methods, unchanged when exactly one forward of the namespace can be the target. All
 * others end as an unknown method. So do methods that only look like one of the protocol.
 */
export function relay(request: McpRequest, parts: RelayParts): ReturnType<McpFilter> {
  const { access, clientCalls } = parts;
  const { message, namespace, era, capabilities, principal } = request;
  const { method } = message;
  // A method of one era does not exist in the other, even under the same name.
  const declarations = declarationsFor(request, parts).filter((one) => one.era === era);
  const isDeclared = (extension: string): boolean =>
    declares(capabilities, extension) && declarations.some(({ extensions }) => extensions.has(extension));
  if (!isRelayable(method, isDeclared)) return undefined;
  const forward = forwardForMethod(method, declarations);
  if (forward === undefined) return undefined;
  const target = access.resolveForward(namespace, message, forward);
  return target.kind === 'error' ? target : clientCalls.send(request, access.decide(principal, target));
}

function declares({ extensions }: JsonObject, extension: string): boolean {
  return isJsonObject(extensions) && Object.hasOwn(extensions, extension);
}

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
