import type { JsonObject, JsonValue } from '@sluice/protocol/json/parse';
import { addressText } from '../addresses.ts';
import type { ClusterSettings } from './cluster.ts';
import type { Pipeline, PipelineListener } from './pipeline.ts';

/**
 * A pipeline as a file that means the same, with every default filled in: for people to read, and to go on from. Clusters
 * of load balancers are at the top level, paths are absolute.
 */
export function fileForm(pipeline: Pipeline): JsonObject {
  const { listeners, chains, clusters, bodyLimits, shutdownTimeoutMs, skipValidation } = pipeline;
  return {
    listeners: listeners.map(listenerForm),
    filter_chains: chains.map(({ name, filters }) => ({
      name,
      filters: filters.map(({ settings }) =>
        filled(settings.filter === 'load_balancer' ? { ...settings, clusters: [] } : settings),
      ),
    })),
    clusters: [...clusters.values()].map(clusterForm),
    body_limits: { max_request_bytes: bodyLimits.request, max_response_bytes: bodyLimits.response },
    shutdown_timeout_secs: shutdownTimeoutMs / 1000,
    insecure_options: { skip_pipeline_validation: skipValidation },
  };
}

function listenerForm({ name, address, chains, tls, readTimeoutMs, maxConnections }: PipelineListener): JsonObject {
  return filled({
    name,
    address: addressText(address),
    filter_chains: chains,
    tls: tls && { certificates: [{ cert_path: tls.certPath, key_path: tls.keyPath }] },
    downstream_read_timeout_ms: readTimeoutMs,
    max_connections: maxConnections,
  });
}

function clusterForm({ name, endpoints, tls, connection_timeout_ms }: ClusterSettings): JsonObject {
  return filled({
    name,
    endpoints: endpoints.map(({ address, weight }) => ({ address: addressText(address), weight })),
    tls,
    connection_timeout_ms,
  });
}

/** Without what is undefined. */
function filled(members: object): JsonObject {
  const defined: [string, JsonValue][] = Object.entries(members).flatMap(([key, value]) => {
    const json = jsonOf(value);
    return json === undefined ? [] : [[key, json]];
  });
  return Object.fromEntries(defined);
}

function jsonOf(value: unknown): JsonValue | undefined {
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return value;
  if (Array.isArray(value)) return value.flatMap((item: unknown) => jsonOf(item) ?? []);
  return typeof value === 'object' && value !== null ? filled(value) : undefined;
}
