import type { Pipeline } from './pipeline.ts';

/** What a pipeline means: all of it but where in which file it stands, and what there was to warn of. */
export function withoutPlaces(pipeline: Pipeline): object {
  const { warnings, ...rest } = pipeline;
  return {
    ...rest,
    chains: pipeline.chains.map(({ name, filters }) => ({
      name,
      filters: filters.map(({ settings }) => bare(settings)),
    })),
    clusters: [...pipeline.clusters.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    listeners: pipeline.listeners.map(({ addressAt, filters, tls, ...listener }) => ({
      ...listener,
      filters: filters.map(({ settings }) => bare(settings)),
      tls: tls && { certPath: tls.certPath, keyPath: tls.keyPath },
    })),
  };
}

/** Clusters of load balancers are among those of the pipeline. */
function bare(settings: Pipeline['chains'][number]['filters'][number]['settings']): object {
  return settings.filter === 'load_balancer' ? { ...settings, clusters: [] } : settings;
}
