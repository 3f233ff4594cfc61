import type { JsonObject } from '@sluice/protocol/json/parse';
import { formatAddress } from '../../../http/address.ts';
import type { Pipeline } from './pipeline.ts';

/**
 * Returns the content of an equivalent pipeline file with all defaults. Clusters of load balancers move to the top
 * level; paths are absolute.
 */
export function toPipelineFile(pipeline: Pipeline): JsonObject {
  const { listeners, chains, clusters, bodyLimits, shutdownTimeoutMs, skipValidation } = pipeline;
  const content = {
    listeners: listeners.map(({ name, address, chains, tls, readTimeoutMs, maxConnections }) => ({
      name,
      address: formatAddress(address),
      filter_chains: chains,
      tls: tls && { certificates: [{ cert_path: tls.certPath, key_path: tls.keyPath }] },
      downstream_read_timeout_ms: readTimeoutMs,
      max_connections: maxConnections,
    })),
    filter_chains: chains.map(({ name, filters }) => ({
      name,
      filters: filters.map(({ settings }) =>
        settings.filter === 'load_balancer' ? { ...settings, clusters: [] } : settings,
      ),
    })),
    clusters: Array.from(clusters.values(), ({ name, endpoints, tls, connection_timeout_ms }) => ({
      name,
      endpoints: endpoints.map(({ address, weight }) => ({ address: formatAddress(address), weight })),
      tls,
      connection_timeout_ms,
    })),
    body_limits: { max_request_bytes: bodyLimits.request, max_response_bytes: bodyLimits.response },
    shutdown_timeout_secs: shutdownTimeoutMs / 1000,
    insecure_options: { skip_pipeline_validation: skipValidation },
  };
  // Without the settings that are undefined.
  return JSON.parse(JSON.stringify(content));
}
