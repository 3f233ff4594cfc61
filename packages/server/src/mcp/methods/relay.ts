import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { isRelayable } from '@sluice/protocol/mcp/methods';
import type { Registry } from '../../registry/registry.ts';
import type { ClientProfiles } from '../client-profile.ts';
import type { McpFilter, McpRequest } from '../exchange.ts';
import { declarationsFor, forwardForMethod } from '../server-info.ts';
import type { EntryParts } from './calls.ts';

/** Dependencies of methods that are relayed by declared capability. */
export interface RelayParts extends EntryParts {
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
