import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { INVALID_PARAMS } from '@sluice/protocol/mcp/constants';
import { resultText } from '@sluice/protocol/mcp/message';
import type { Filter } from '../../http/chain.ts';
import { rpcError } from '../../http/context.ts';
import type { Entry } from '../../registry/entries.ts';
import { findResource, type NamespaceState } from '../../registry/snapshot.ts';
import { declarationsTo } from '../server-info.ts';
import type { RelayParts } from './passthrough.ts';

/** What a hand-made prompt or template suggests. */
const NO_SUGGESTIONS = { completion: { values: [], total: 0, hasMore: false } };

/**
 * `completion/complete`: asks the forward that brought the prompt or the resource (mcp 6). Passed on, to be answered
 * that the method is unknown, where no forward of the namespace declares `completions`.
 */
export function serviceCompletion({ registry, profiles, relay }: RelayParts): Filter {
  return (context) => {
    const { message, namespace, session, era, capabilities } = context;
    if (message?.kind !== 'request' || message.method !== 'completion/complete' || !namespace) return undefined;
    const profile = session?.profile ?? profiles.of(era, capabilities);
    const declarations = declarationsTo(profile, registry.current, namespace);
    if (!declarations.some((one) => one.capabilities.has('completions'))) return undefined;
    const reference = parseReference(message.params);
    if (typeof reference === 'string') return rpcError(INVALID_PARAMS, reference);
    const entry = find(namespace, reference);
    if (!entry) return rpcError(INVALID_PARAMS, `${reference.kind} not found: ${reference.key}`);
    const { discovered } = entry;
    if (discovered) return relay.call(context, message, { kind: 'discovered', entry, discovered });
    return { kind: 'result', json: resultText(era, NO_SUGGESTIONS) };
  };
}

interface Reference {
  readonly kind: 'prompt' | 'resource';
  /** The prompt's name, the resource's uri or template. */
  readonly key: string;
}

/** What is to be completed; as text: what is wrong with the parameters. */
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

/** A template is named by its own text, or by a uri that can have come from it. */
function find({ shelves }: NamespaceState, { kind, key }: Reference): Entry | undefined {
  return shelves[kind].get(key) ?? (kind === 'resource' ? findResource(shelves.resource, key) : undefined);
}
