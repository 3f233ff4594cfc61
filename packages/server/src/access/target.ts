import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import type { RequestMessage } from '@sluice/protocol/mcp/message';
import { type Entry, type Forward, sameRecord } from '../registry/entries.ts';
import type { NamespaceState } from '../registry/snapshot.ts';

/** What a request is about. */
export interface Target {
  readonly kind: 'target';
  readonly namespace: NamespaceState;
  readonly message: RequestMessage;
  /** Undefined for a uri that is in no list, and for a method of one forward. */
  readonly entry: Entry | undefined;
  /** The uri that the request names; undefined unless it is about a resource. */
  readonly uri: string | undefined;
  /** Undefined for an entry registered by hand. */
  readonly forward: string | undefined;
  /** Address of the MCP server that a tool registered by hand names, if any. */
  readonly address: string | undefined;
  /** Registration of the entry, else of the forward: another one after it was removed and registered again. */
  readonly registrationId: number;
}

/** Returns the target of a request about an entry. */
export function entryTarget(namespace: NamespaceState, message: RequestMessage, entry: Entry): Target {
  const { kind, discovered, registrationId } = entry;
  const uri = kind === 'resource' ? requestedUri(message) : undefined;
  const forward = discovered?.forward;
  const address = discovered ? undefined : serverAddress(entry);
  return { kind: 'target', namespace, message, entry, uri, forward, address, registrationId };
}

/** Returns the target of a request that a forward gets although it is about no entry. */
export function forwardTarget(namespace: NamespaceState, message: RequestMessage, to: Forward): Target {
  const { name: forward, registrationId } = to;
  const uri = requestedUri(message);
  return { kind: 'target', namespace, message, entry: undefined, uri, forward, address: undefined, registrationId };
}

/** Returns the uri that a request names; undefined unless its method is about a resource. */
export function requestedUri({ method, params }: RequestMessage): string | undefined {
  switch (method) {
    case 'resources/read':
    case 'resources/subscribe':
    case 'resources/unsubscribe':
      return typeof params.uri === 'string' ? params.uri : undefined;
    case 'completion/complete': {
      const reference = parseReference(params);
      return typeof reference !== 'string' && reference.kind === 'resource' ? reference.key : undefined;
    }
    default:
      return undefined;
  }
}

/** The MCP server of a tool registered by hand, unless a capability service executes it. */
function serverAddress({ kind, members: { uri } }: Entry): string | undefined {
  if (kind !== 'tool' || typeof uri !== 'string') return undefined;
  return /^https?:/.test(uri) && URL.canParse(uri) ? uri : undefined;
}

/** Whether a request has the same target as before: the same record, or the same uri of the same forward. */
export function isSameTarget(before: Target, { entry, uri, registrationId }: Target): boolean {
  if (registrationId !== before.registrationId) return false;
  // An upstream may list a resource by itself that a template matched before.
  return uri !== undefined || !entry || !before.entry || sameRecord(entry, before.entry);
}

/**
 * Returns what a completion refers to, or an error message as text. A prompt is referenced by name, a resource by uri, a template
 * by its text or by a uri that it matches.
 */
export function parseReference({ ref, argument }: JsonObject): { kind: 'prompt' | 'resource'; key: string } | string {
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
