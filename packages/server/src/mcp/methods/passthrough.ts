import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { isRelayable, TASK_METHODS } from '@sluice/protocol/mcp/methods';
import type { Registry } from '../../registry/registry.ts';
import type { Calls } from '../../upstreams/calls.ts';
import type { ClientProfiles } from '../client-profile.ts';
import type { FindMissing, McpFilter, McpMethodFilter } from '../exchange.ts';
import { declarationsTo, forwardForMethod } from '../server-info.ts';
import { findMissingTask, type TaskMethodParts, taskRequest } from './tasks.ts';

/** Dependencies of filters that relay by declared capability. */
export interface RelayParts extends TaskMethodParts {
  readonly registry: Registry;
  readonly profiles: ClientProfiles;
  readonly clientCalls: Calls;
}

/**
 * Handles requests about tasks, and forwards unknown requests, such as vendor methods, unchanged when exactly one forward of the
 * namespace can be the target. Last of its chain: all others end as an unknown method. So do methods of the protocol that arrive
 * here, which belong to the other era or to servers, and methods that only look like one.
 */
export function serviceRelay(parts: RelayParts): McpMethodFilter {
  const { access, registry, profiles, clientCalls } = parts;
  const filter: McpFilter = (exchange) => {
    const { message, namespace, session, era, capabilities } = exchange;
    if (message?.kind !== 'request' || !namespace) return undefined;
    const { method } = message;
    if (TASK_METHODS.has(method)) return taskRequest(exchange, message, namespace, parts);
    const profile = session?.profile ?? profiles.of(era, capabilities);
    // A method of one era does not exist in the other, even under the same name.
    const declarations = declarationsTo(profile, registry.current, namespace).filter((one) => one.era === era);
    const isDeclared = (extension: string): boolean =>
      declares(capabilities, extension) && declarations.some(({ extensions }) => extensions.has(extension));
    if (!isRelayable(method, isDeclared)) return undefined;
    const forward = forwardForMethod(method, declarations);
    if (forward === undefined) return undefined;
    const target = access.resolveForward(namespace, message, forward);
    if (target.kind === 'error') return target;
    return clientCalls.send(exchange, access.decide(exchange.principal, target));
  };
  const findMissing: FindMissing = (exchange) => {
    const { message, namespace } = exchange;
    if (message?.kind !== 'request' || !namespace || !TASK_METHODS.has(message.method)) return undefined;
    return findMissingTask(exchange, message, namespace, parts);
  };
  return { filter, findMissing };
}

function declares({ extensions }: JsonObject, extension: string): boolean {
  return isJsonObject(extensions) && Object.hasOwn(extensions, extension);
}
