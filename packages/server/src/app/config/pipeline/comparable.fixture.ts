import type { Pipeline } from './pipeline.ts';

/** Returns the pipeline without positions and warnings. */
export function comparablePipeline(pipeline: Pipeline): object {
  const { warnings, ...rest } = pipeline;
  return {
    ...rest,
    chains: pipeline.chains.map(({ name, filters }) => ({
      name,
      filters: filters.map(({ settings }) => withoutClusters(settings)),
    })),
    clusters: [...pipeline.clusters.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    listeners: pipeline.listeners.map(({ addressAt, filters, tls, ...listener }) => ({
      ...listener,
      filters: filters.map(({ settings }) => withoutClusters(settings)),
      tls: tls && { certPath: tls.certPath, keyPath: tls.keyPath },
    })),
  };
}

/** Removes the clusters of a load balancer: the pipeline contains them too. */
function withoutClusters(settings: Pipeline['chains'][number]['filters'][number]['settings']): object {
  return settings.filter === 'load_balancer' ? { ...settings, clusters: [] } : settings;
}
