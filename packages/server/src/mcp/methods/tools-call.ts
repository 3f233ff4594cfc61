import type { Access } from '../../access/access.ts';
import { limitedWarning } from '../../telemetry/limited-warning.ts';
import type { TargetLogger } from '../../telemetry/log.ts';
import { boundedName } from '../../telemetry/redaction.ts';
import type { Calls } from '../../upstreams/calls.ts';
import type { DeclaredParams } from '../declared-params.ts';
import type { McpFilter, McpMethodFilter } from '../exchange.ts';

/** Dependencies of {@link serviceToolCall}. */
interface ToolCallParts {
  readonly access: Access;
  readonly clientCalls: Calls;
  readonly declaredParams: DeclaredParams;
  readonly log: TargetLogger;
}

/**
 * `tools/call`: finds the tool, compares the headers of a modern client with the arguments that the tool mirrors in headers,
 * and sends the call to its executor.
 */
export function serviceToolCall({ access, clientCalls, declaredParams, log }: ToolCallParts): McpMethodFilter {
  const warn = limitedWarning(log);
  const filter: McpFilter = (exchange) => {
    const { message, namespace, correlation } = exchange;
    if (message?.kind !== 'request' || !namespace) return undefined;
    const target = access.resolve(namespace, message);
    if (target?.kind !== 'target') return target;
    const problem = declaredParams.check(exchange, target);
    if (problem) return problem;
    const { oversizedHeader } = correlation;
    if (oversizedHeader !== undefined) {
      warn(`${oversizedHeader} has more than 256 bytes and is ignored`, { tool: boundedName(target.entry?.key ?? '') });
    }
    return clientCalls.send(exchange, access.decide(exchange.principal, target));
  };
  return { methods: ['tools/call'], filter, findMissing: (exchange) => access.findMissing(exchange) };
}
