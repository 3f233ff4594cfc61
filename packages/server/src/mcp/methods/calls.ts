import type { Access } from '../../access/access.ts';
import type { Target } from '../../access/target.ts';
import { limitedWarning } from '../../telemetry/limited-warning.ts';
import type { TargetLogger } from '../../telemetry/log.ts';
import { boundedName } from '../../telemetry/redaction.ts';
import type { Calls } from '../../upstreams/calls.ts';
import type { DeclaredParams } from '../declared-params.ts';
import { type McpFilter, type McpMethodFilter, type McpRequest, requestFilter } from '../exchange.ts';

/** Dependencies of filters for requests about entries. */
export interface EntryParts {
  readonly access: Access;
  readonly clientCalls: Calls;
}

/** Creates a filter for requests about entries; `handle` gets those whose target is found. */
export function entryFilter(
  method: string,
  access: Access,
  handle: (request: McpRequest, target: Target) => ReturnType<McpFilter>,
): McpMethodFilter {
  return requestFilter(
    [method],
    (request) => {
      const target = access.resolve(request.namespace, request.message);
      return target?.kind === 'target' ? handle(request, target) : target;
    },
    (request) => access.findMissing(request.namespace, request.message),
  );
}

/** Dependencies of {@link serviceToolCall}. */
interface ToolCallParts extends EntryParts {
  readonly declaredParams: DeclaredParams;
  readonly log: TargetLogger;
}

/**
 * `tools/call`: finds the tool, compares the headers of a modern client with the arguments that the tool mirrors in headers,
 * and sends the call to its executor.
 */
export function serviceToolCall({ access, clientCalls, declaredParams, log }: ToolCallParts): McpMethodFilter {
  const warn = limitedWarning(log);
  return entryFilter('tools/call', access, (request, target) => {
    const problem = declaredParams.check(request, target);
    if (problem) return problem;
    const { oversizedHeader } = request.correlation;
    if (oversizedHeader !== undefined) {
      warn(`${oversizedHeader} has more than 256 bytes and is ignored`, { tool: boundedName(target.entry?.key ?? '') });
    }
    return clientCalls.send(request, access.decide(request.principal, target));
  });
}

/**
 * `resources/read`: the uri exactly, then the templates in order of registration. An unlisted uri, such as that of a link, is
 * read from the forward that has sent it.
 */
export function serviceResourceRead({ access, clientCalls }: EntryParts): McpMethodFilter {
  return entryFilter('resources/read', access, (request, target) =>
    clientCalls.send(request, access.decide(request.principal, target)),
  );
}
