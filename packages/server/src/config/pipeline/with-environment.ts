import { ConfigError } from '../config-error.ts';
import type { Environment } from '../environment.ts';
import { quote } from '../setting.ts';
import { type ClusterSettings, withUpstream } from './cluster.ts';
import { filtersOf } from './filters-of.ts';
import type { Pipeline, PipelineListener, PlacedFilter } from './pipeline.ts';
import { refusedOrigins } from './refused-origins.ts';
import { takenAddresses } from './same-address.ts';

/** The variables that have a say in the pipeline. */
export type PipelineEnvironment = Pick<
  Environment,
  'mcpListen' | 'inferenceListen' | 'inferenceUpstream' | 'corsOrigin'
>;

/** The cluster whose upstream the environment and the management API can replace (decisions 1.4). */
export const INFERENCE_CLUSTER = 'inference';

/**
 * The pipeline with what the environment replaces in it (decisions 1.2): addresses of the listeners `mcp` and `inference`,
 * the upstream of the cluster `inference`, the first origin of each `cors` filter. Throws {@link ConfigError} where the
 * two do not fit together.
 */
export function withEnvironment(pipeline: Pipeline, environment: PipelineEnvironment): Pipeline {
  const { mcpListen, inferenceListen, inferenceUpstream, corsOrigin } = environment;
  const chains = pipeline.chains.map(({ name, filters }) => ({
    name,
    filters: corsOrigin === undefined ? filters : filters.map((filter) => withOrigin(filter, corsOrigin)),
  }));
  const moved = [
    { variable: 'SERVICE_MCP_LISTEN', name: 'mcp', address: mcpListen },
    { variable: 'SERVICE_INFERENCE_LISTEN', name: 'inference', address: inferenceListen },
  ].filter(({ address }) => address !== undefined);
  for (const { variable, name } of moved) {
    if (pipeline.listeners.some((listener) => listener.name === name)) continue;
    const names = pipeline.listeners.map((listener) => quote(listener.name)).join(', ');
    throw new ConfigError(
      `${variable}: the pipeline has no listener ${quote(name)}; leave the variable out, or name a listener so (listeners: ${names})`,
    );
  }
  const listeners = pipeline.listeners.map((listener): PipelineListener => {
    const move = moved.find(({ name }) => name === listener.name);
    return {
      ...listener,
      ...(move?.address && { address: move.address, addressAt: move.variable }),
      filters: filtersOf(listener.chains, chains),
    };
  });
  const [taken] = takenAddresses(listeners);
  if (taken) throw new ConfigError(`${taken.listener.addressAt}: ${taken.text}`);

  const clusters = new Map<string, ClusterSettings>(pipeline.clusters);
  const warnings = [...pipeline.warnings, ...refusedOrigins(chains, corsOrigin)];
  if (inferenceUpstream) {
    const replaced = clusters.get(INFERENCE_CLUSTER);
    if (replaced) clusters.set(INFERENCE_CLUSTER, withUpstream(replaced, inferenceUpstream));
    else
      warnings.push(
        `SERVICE_INFERENCE_UPSTREAM has no effect: the pipeline has no cluster ${quote(INFERENCE_CLUSTER)}`,
      );
  }
  return { ...pipeline, listeners, chains, clusters, warnings };
}

function withOrigin(filter: PlacedFilter, origin: string): PlacedFilter {
  const { settings, at } = filter;
  if (settings.filter !== 'cors') return filter;
  if (origin === '*' && settings.allow_credentials) {
    throw new ConfigError(
      `SERVICE_CORS_ORIGIN: "*" cannot stand beside allow_credentials of ${at}; name an origin, or leave the variable out`,
    );
  }
  return { settings: { ...settings, allow_origins: [origin, ...settings.allow_origins.slice(1)] }, at };
}
