import { SERVER_ERROR } from '@sluice/protocol/mcp/constants';
import { type ErrorOutcome, rpcError } from '../http/outcome.ts';
import type { McpFilter, McpOutcome, McpRequest } from '../mcp/request.ts';
import type { Registry } from '../registry/registry.ts';
import type { SharedLog } from '../registry/store/postgres/shared-log.ts';

/**
 * A chain that a replica runs only while it is live, or else after it has asked the database: what it knows may have been
 * withdrawn (docs/replicas.md). If the database cannot be reached, it serves what it knows for at most `maxStalenessMs`.
 */
export function liveChain(
  chain: McpFilter,
  shared: Pick<SharedLog, 'members' | 'rejoin'>,
  maxStalenessMs: number,
): McpFilter {
  return (context) => {
    const { members } = shared;
    if (members.isLive) return chain(context);
    return shared.rejoin().then(
      () => chain(context),
      () => (members.staleMs <= maxStalenessMs ? chain(context) : OUTDATED),
    );
  };
}

const OUTDATED: McpOutcome = rpcError(
  SERVER_ERROR,
  'this replica has not reached the database for longer than SERVICE_REPLICA_MAX_STALENESS: try again later',
  503,
);

/** Runs a filter again if the registry lacked an object that another replica has just added (docs/replicas.md). */
export function recheckMisses(filter: McpFilter, registry: Registry): McpFilter {
  const recheck = async (context: McpRequest, missed: ErrorOutcome) => {
    const before = registry.current;
    await registry.recheck();
    if (registry.current === before) return missed;
    const { namespace } = context;
    if (namespace) context.namespace = registry.current.namespace(namespace.name) ?? namespace;
    return await filter(context);
  };
  const check = (context: McpRequest, outcome: McpOutcome | undefined) =>
    outcome?.kind === 'error' && outcome.isMiss ? recheck(context, outcome) : outcome;
  return (context) => {
    const outcome = filter(context);
    return outcome instanceof Promise ? outcome.then((settled) => check(context, settled)) : check(context, outcome);
  };
}
