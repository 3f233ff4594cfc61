import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { isRelayable, TASK_METHODS } from '@sluice/protocol/mcp/methods';
import type { Calls } from '../../upstreams/calls.ts';
import { type McpMethodFilter, requestFilter } from '../exchange.ts';
import { declarationsFor, forwardForMethod } from '../server-info.ts';
import { findMissingTask, type TaskMethodParts, taskRequest } from './tasks.ts';

/** Dependencies of filters that relay by declared capability. */
export interface RelayParts extends TaskMethodParts {
  readonly clientCalls: Calls;
}

/**
 * Handles requests about tasks, and forwards unknown requests, such as vendor methods, unchanged when exactly one forward of the
 * namespace can be the target. Last of its chain: all others end as an unknown method. So do methods of the protocol that arrive
 * here, which belong to the other era or to servers, and methods that only look like one.
 */
export function serviceRelay(parts: RelayParts): McpMethodFilter {
  const { access, clientCalls } = parts;
  return requestFilter(
    undefined,
    (request) => {
      const { message, namespace, era, capabilities } = request;
      const { method } = message;
      if (TASK_METHODS.has(method)) return taskRequest(request, message, namespace, parts);
      // A method of one era does not exist in the other, even under the same name.
      const declarations = declarationsFor(request, parts).filter((one) => one.era === era);
      const isDeclared = (extension: string): boolean =>
        declares(capabilities, extension) && declarations.some(({ extensions }) => extensions.has(extension));
      if (!isRelayable(method, isDeclared)) return undefined;
      const forward = forwardForMethod(method, declarations);
      if (forward === undefined) return undefined;
      const target = access.resolveForward(namespace, message, forward);
      if (target.kind === 'error') return target;
      return clientCalls.send(request, access.decide(request.principal, target));
    },
    (request) => {
      const { message, namespace } = request;
      return TASK_METHODS.has(message.method) ? findMissingTask(request, message, namespace, parts) : undefined;
    },
  );
}

function declares({ extensions }: JsonObject, extension: string): boolean {
  return isJsonObject(extensions) && Object.hasOwn(extensions, extension);
}
