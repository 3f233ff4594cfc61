import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { INVALID_PARAMS, METHOD_NOT_FOUND } from '@sluice/protocol/mcp/constants';
import { resultText } from '@sluice/protocol/mcp/message';
import { type ErrorOutcome, notFound, rpcError } from '../../http/outcome.ts';
import type { Entry } from '../../registry/entries.ts';
import { type NamespaceState, routeResource, type Snapshot } from '../../registry/snapshot.ts';
import type { DiscoveryWaits } from '../discovery-waits.ts';
import type { FindMissing, McpExchange, McpFilter, McpMethodFilter } from '../exchange.ts';
import { declarationsTo } from '../server-info.ts';
import type { RelayParts } from './passthrough.ts';

/** Result for a manually registered prompt or template. */
const NO_SUGGESTIONS = { completion: { values: [], total: 0, hasMore: false } };

/**
 * `completion/complete`: relayed to the forward of the prompt or resource (mcp 6). Passed on when no forward of the
 * namespace declares `completions`, so that it ends as an unknown method.
 */
export function serviceCompletion({
  registry,
  profiles,
  relay,
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
    const reference = parseReference(message.params);
    if (typeof reference === 'string') return rpcError(INVALID_PARAMS, reference);
    const entry = find(registry.current, namespace, reference);
    if (!entry) return referenceNotFound(reference);
    const { discovered } = entry;
    if (discovered) {
      const { forward, upstreamKey } = discovered;
      const upstreamName = reference.kind === 'prompt' ? upstreamKey : undefined;
      return relay.call(exchange, message, { forward, entry, upstreamName });
    }
    return { kind: 'result', json: resultText(era, NO_SUGGESTIONS) };
  };
  const findMissing: FindMissing = (exchange) => {
    const { message, namespace } = exchange;
    if (message?.kind !== 'request' || !namespace || !offersCompletions(exchange, namespace)) return undefined;
    const reference = parseReference(message.params);
    if (typeof reference === 'string' || find(registry.current, namespace, reference)) return undefined;
    return referenceNotFound(reference);
  };
  return { methods: ['completion/complete'], filter, findMissing };
}

function referenceNotFound({ kind, key }: Reference): ErrorOutcome {
  return notFound(INVALID_PARAMS, `${kind} not found: ${key}`);
}

interface Reference {
  readonly kind: 'prompt' | 'resource';
  /** The prompt's name, the resource's uri or template. */
  readonly key: string;
}

/** The reference to complete, or an error message as text. */
function parseReference({ ref, argument }: JsonObject): Reference | string {
  if (!isJsonObject(ref)) return 'parameter "ref" must be an object';
  if (!isJsonObject(argument) || typeof argument.name !== 'string' || typeof argument.value !== 'string') {
    return 'parameter "argument" must be an object with the strings "name" and "value"';
  }
  switch (ref.type) {
    case 'ref/prompt':
      return typeof ref.name === 'string' ? { kind: 'prompt', key: ref.name } : 'missing required parameter: ref.name';
    case 'ref/resource':
      return typeof ref.uri === 'string' ? { kind: 'resource', key: ref.uri } : 'missing required parameter: ref.uri';
    default:
      return 'parameter "ref.type" must be "ref/prompt" or "ref/resource"';
  }
}

/** A template is referenced by its own text, or by a uri that matches it. Undefined for a uri that is in no list. */
function find(snapshot: Snapshot, { indexes }: NamespaceState, { kind, key }: Reference): Entry | undefined {
  const exact = indexes[kind].get(key);
  if (kind === 'prompt') return exact;
  const find = exact ? () => exact : undefined;
  return routeResource(snapshot, indexes.resource, key, () => undefined, find)?.entry;
}
