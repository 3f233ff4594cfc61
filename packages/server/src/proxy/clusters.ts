import type { HttpUpstream } from '../config/addresses.ts';
import { type ClusterSettings, withUpstream } from '../config/pipeline/cluster.ts';
import type { Pipeline } from '../config/pipeline/pipeline.ts';
import { Cluster, type Target } from './cluster.ts';

/** The clusters of the pipeline, by name. */
export class Clusters {
  readonly #settings: ReadonlyMap<string, ClusterSettings>;
  readonly #clusters: Map<string, Cluster>;

  constructor({ clusters }: Pick<Pipeline, 'clusters'>) {
    this.#settings = clusters;
    this.#clusters = new Map([...clusters].map(([name, settings]) => [name, Cluster.of(settings)]));
  }

  /** Where the next request to the cluster of this name is sent; undefined when there is none. */
  next(name: string): Target | undefined {
    return this.#clusters.get(name)?.next();
  }

  /**
   * Puts one upstream in the place of the cluster's, if there is such a cluster, and keeps its other settings. New
   * requests use it, those under way finish.
   */
  replace(name: string, upstream: HttpUpstream): void {
    const settings = this.#settings.get(name);
    if (!settings) return;
    const before = this.#clusters.get(name);
    this.#clusters.set(name, Cluster.of(withUpstream(settings, upstream)));
    void before?.close();
  }

  async close(): Promise<void> {
    await Promise.all([...this.#clusters.values()].map((cluster) => cluster.destroy()));
  }
}
