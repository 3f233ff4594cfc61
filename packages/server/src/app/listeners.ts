import { REPLICA_LISTENER } from '../exchange/exchange.ts';
import { formatAddress, type ListenAddress } from '../http/address.ts';
import { BodyBudget } from '../http/body-budget.ts';
import { createHostRule } from '../http/host-rule.ts';
import { ListenerConnections } from '../http/listener-connections.ts';
import { createHostOriginGuard } from '../http/request-validation.ts';
import type { HttpServer } from '../http/server/http1-server.ts';
import { type Listener, listen } from '../http/server.ts';
import { ConfigError } from '../http/settings.ts';
import { interactionQueries } from '../management/interactions.ts';
import { toolCallQueries } from '../management/tool-calls.ts';
import { DiscoveryWaits } from '../mcp/discovery-waits.ts';
import { OpenResponses } from '../mcp/open-responses.ts';
import { errorCode, errorReason } from '../registry/store/files.ts';
import { limitedWarning } from '../telemetry/limited-warning.ts';
import type { Config } from './config/config.ts';
import { INFERENCE_LISTENER } from './config/pipeline/pipeline.ts';
import { SERVER_INFO } from './core.ts';
import type { Parts } from './inference.ts';
import { type ChainParts, makeChain, pipelineListener } from './pipeline.ts';
import { explainTakenPort, followsPort } from './taken-port.ts';

/** The servers of MCP and inference requests: see {@link createListeners}. */
export type Listeners = ReturnType<typeof createListeners>;

/** Creates the servers of the pipeline's listeners with their chains, and that for other replicas. */
export function createListeners(parts: Parts) {
  const { config, logger, registry, events, requests, replica, identity, admitted, blocks } = parts;
  const { sockets, toolCalls, interactions } = parts;
  const { pipeline, allowedHosts, corsOrigin, publicUrl, auth } = config;
  const guard = createHostOriginGuard({ allowedHosts, corsOrigin, publicUrl });
  const chainParts = chainPartsOf(parts);
  const chains = pipeline.listeners.map((listener) => ({
    listener,
    chain: replica?.chain(listener, chainParts, parts) ?? makeChain(listener.filters, chainParts),
  }));
  const warnFull = limitedWarning(logger.target('service'));
  const connections = new ListenerConnections(sockets, (limit) =>
    warnFull('too many connections: rejecting new ones; raise the limit of open files (ulimit -n)', { limit }),
  );
  const openResponses = new OpenResponses(parts.openResponseTimes);
  const bodies = new BodyBudget(config.maxBodiesBytes);
  const serving = { events, openResponses, logger, requests, registry, bodies, publicUrl, blocks };
  const listening = { ...serving, guard, connections, identity, admitted, auth };
  const servers = chains.map(({ listener, chain }) => {
    const allow = listener.name === INFERENCE_LISTENER ? pipeline.inferenceAllow : undefined;
    return { listener, server: pipelineListener(listener, { ...listening, chain, allow }) };
  });
  const queries = { ...toolCallQueries(toolCalls), ...interactionQueries(interactions) };
  return { chains, servers, listening, peerServer: replica?.listener(chains, queries, listening) };
}

function chainPartsOf(parts: Parts): ChainParts {
  const { config, logger, requests } = parts;
  const log = logger.target('service::forward');
  const { messageLimits, discoveryWaitMs, auth, proxies, allowedHosts, publicUrl } = config;
  return {
    ...parts,
    messageLimits,
    discoveryWaits: new DiscoveryWaits({
      ...parts,
      profileDiscovery: parts.forwards.profiles,
      waitMs: discoveryWaitMs,
    }),
    proxyLog: logger.target('service::inference'),
    completionMetrics: requests.metrics,
    auth,
    proxies,
    hostRule: createHostRule({ allowedHosts, publicUrl }),
    publicUrl,
    serverInfo: SERVER_INFO,
    log,
    warn: limitedWarning(log),
  };
}

/** A listener for MCP or inference requests, by name. */
export interface BoundListener {
  readonly name: string;
  readonly listener: Listener;
}

/** Binds all listeners, the management API first, or none. */
export async function bind(
  config: Pick<Config, 'mgmtListen' | 'peerListen' | 'sharesPorts' | 'pipelinePath'>,
  management: HttpServer,
  { servers, peerServer }: Pick<Listeners, 'servers' | 'peerServer'>,
): Promise<BoundListener[]> {
  const { mgmtListen, peerListen, sharesPorts, pipelinePath } = config;
  const bound: BoundListener[] = [];
  const isEmbedded = pipelinePath === undefined;
  try {
    bound.push({
      name: 'management',
      listener: await bindAs('SERVICE_MGMT_LISTEN', management, mgmtListen, {
        sharesPorts,
        first: isEmbedded ? mgmtListen : undefined,
      }),
    });
    for (const { listener, server } of servers) {
      const { name, address, addressAt } = listener;
      const first = isEmbedded && followsPort(address.port, mgmtListen.port) ? mgmtListen : undefined;
      bound.push({ name, listener: await bindAs(addressAt, server, address, { sharesPorts, first }) });
    }
    if (peerServer && peerListen) {
      bound.push({ name: REPLICA_LISTENER, listener: await bindAs('SERVICE_PEER_LISTEN', peerServer, peerListen) });
    }
    return bound;
  } catch (error) {
    await Promise.all(bound.map(({ listener }) => listener.drain(0)));
    throw error;
  }
}

/** Binds a server. Throws {@link ConfigError} that names the setting. */
async function bindAs(
  at: string,
  server: HttpServer,
  address: ListenAddress,
  { sharesPorts = false, first }: { readonly sharesPorts?: boolean; readonly first?: ListenAddress | undefined } = {},
): Promise<Listener> {
  try {
    return await listen(server, address, sharesPorts);
  } catch (error) {
    const reason = errorCode(error) === 'EADDRINUSE' ? await explainTakenPort(address, first) : undefined;
    throw new ConfigError(`${at}: cannot listen on ${formatAddress(address)}: ${reason ?? errorReason(error)}`);
  }
}
