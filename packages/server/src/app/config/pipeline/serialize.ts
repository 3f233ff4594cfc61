import type { JsonObject, JsonValue } from '@sluice/protocol/json/parse';
import { formatAddress } from '../../../http/address.ts';
import type { ClusterSettings } from '../../../http/clusters.ts';
import type { Pipeline, PipelineListener } from './pipeline.ts';

/**
 * Returns the content of an equivalent pipeline file with all defaults. Clusters of load balancers move to the top
 * level; paths are absolute.
 */
export function toPipelineFile(pipeline: Pipeline): JsonObject {
  const { listeners, chains, clusters, bodyLimits, shutdownTimeoutMs, skipValidation } = pipeline;
  return {
    listeners: listeners.map(toListenerEntry),
    filter_chains: chains.map(({ name, filters }) => ({
      name,
      filters: filters.map(({ settings }) =>
        omitUndefined(settings.filter === 'load_balancer' ? { ...settings, clusters: [] } : settings),
      ),
    })),
    clusters: [...clusters.values()].map(toClusterEntry),
    body_limits: { max_request_bytes: bodyLimits.request, max_response_bytes: bodyLimits.response },
    shutdown_timeout_secs: shutdownTimeoutMs / 1000,
    insecure_options: { skip_pipeline_validation: skipValidation },
  };
}

function toListenerEntry({ name, address, chains, tls, readTimeoutMs, maxConnections }: PipelineListener): JsonObject {
  return omitUndefined({
    name,
    address: formatAddress(address),
    filter_chains: chains,
    tls: tls && { certificates: [{ cert_path: tls.certPath, key_path: tls.keyPath }] },
    downstream_read_timeout_ms: readTimeoutMs,
    max_connections: maxConnections,
  });
}

function toClusterEntry({ name, endpoints, tls, connection_timeout_ms }: ClusterSettings): JsonObject {
  return omitUndefined({
    name,
    endpoints: endpoints.map(({ address, weight }) => ({ address: formatAddress(address), weight })),
    tls,
    connection_timeout_ms,
  });
}

function omitUndefined(members: object): JsonObject {
  const defined: [string, JsonValue][] = Object.entries(members).flatMap(([key, value]) => {
    const json = toJson(value);
    return json === undefined ? [] : [[key, json]];
  });
  return Object.fromEntries(defined);
}

function toJson(value: unknown): JsonValue | undefined {
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return value;
  if (Array.isArray(value)) return value.flatMap((item: unknown) => toJson(item) ?? []);
  return typeof value === 'object' && value !== null ? omitUndefined(value) : undefined;
}
