import type { Access } from '../../access/access.ts';
import type { Target } from '../../access/target.ts';
import type { LogMethod } from '../../telemetry/log.ts';
import { boundedName } from '../../telemetry/redaction.ts';
import type { Calls } from '../../upstreams/call-stages.ts';
import type { DeclaredParams } from '../declared-params.ts';
import type { McpFilter, McpRequest } from '../exchange.ts';

/** Dependencies of methods whose requests are about entries. */
export interface EntryParts {
  readonly access: Access;
  readonly clientCalls: Calls;
}

/** Dependencies of {@link callTool}. */
interface ToolCallParts extends EntryParts {
  readonly declaredParams: DeclaredParams;
  /** Logs what a client has sent in vain. */
  readonly warn: LogMethod;
}

/**
 * `tools/call`: compares the headers of a modern client with the arguments that the tool mirrors in headers, and sends the call
 * to its executor.
 */
export function callTool(
  request: McpRequest,
  target: Target,
  { access, clientCalls, declaredParams, warn }: ToolCallParts,
): ReturnType<McpFilter> {
  const problem = declaredParams.check(request, request.headers, target);
  if (problem) return problem;
  const { oversizedHeader } = request.correlation;
  if (oversizedHeader !== undefined) {
    warn(`${oversizedHeader} has more than 256 bytes and is ignored`, { tool: boundedName(target.entry?.key ?? '') });
  }
  return clientCalls.send(request, access.decide(request.principal, target));
}

/**
 * `resources/read`: the uri exactly, then the templates in order of registration. An unlisted uri, such as that of a link, is
 * read from the forward that has sent it.
 */
export function readResource(
  request: McpRequest,
  target: Target,
  { access, clientCalls }: EntryParts,
): ReturnType<McpFilter> {
  return clientCalls.send(request, access.decide(request.principal, target));
}
