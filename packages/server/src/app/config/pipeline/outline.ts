import type { KeyPath } from '../yaml-document.ts';

/** Name in a pipeline file and its location. */
export interface NamedLocation {
  readonly name: string;
  readonly path: KeyPath;
}

/** Properties of a filter that matter to other parts of the file. */
export interface OutlinedFilter {
  readonly path: KeyPath;
  readonly filter: string | undefined;
  readonly conditional: boolean;
  /** Clusters that the routes of a `router` reference. */
  readonly routes: readonly NamedLocation[];
  /** Clusters that a `load_balancer` defines. */
  readonly clusters: readonly NamedLocation[];
}

/**
 * Definitions and references of a pipeline file. It also exists for a file that does not match the schema, so that all
 * problems can be reported at once.
 */
export interface Outline {
  readonly listeners: readonly {
    readonly path: KeyPath;
    readonly name: NamedLocation | undefined;
    readonly chains: NamedLocation[];
  }[];
  readonly chains: readonly {
    readonly path: KeyPath;
    readonly name: NamedLocation | undefined;
    readonly filters: OutlinedFilter[];
  }[];
  /** Clusters of the top level. */
  readonly clusters: readonly NamedLocation[];
  readonly skipValidation: boolean;
  /** False if a definition has no name or is in an invalid list: a reference may be meant for it. */
  readonly complete: boolean;
}

/** Returns the outline of a file's content, which may have any form. */
export function toOutline(content: unknown): Outline {
  const listeners = entries(content, 'listeners', []).map(({ value, path }) => ({
    path,
    name: located(member(value, 'name'), path),
    chains: entries(value, 'filter_chains', path).flatMap((item) => located(item.value, item.path) ?? []),
  }));
  const chains = entries(content, 'filter_chains', []).map(({ value, path }) => ({
    path,
    name: located(member(value, 'name'), path),
    filters: entries(value, 'filters', path).map(toOutlinedFilter),
  }));
  const clusters = namesIn(content, 'clusters', []);
  const clusterCount = entries(content, 'clusters', []).length;
  const balancers = chains.flatMap(({ filters }) => filters).filter(({ filter }) => filter === 'load_balancer');
  return {
    listeners,
    chains,
    clusters,
    skipValidation: member(member(content, 'insecure_options'), 'skip_pipeline_validation') === true,
    complete:
      Array.isArray(member(content, 'filter_chains')) &&
      Array.isArray(member(content, 'clusters') ?? []) &&
      chains.every(({ name }) => name) &&
      clusters.length === clusterCount &&
      balancers.every(({ hasUnnamedCluster }) => !hasUnnamedCluster),
  };
}

function toOutlinedFilter({ value, path }: Entry): OutlinedFilter & { readonly hasUnnamedCluster: boolean } {
  const clusters = namesIn(value, 'clusters', path);
  const filter = member(value, 'filter');
  return {
    path,
    filter: typeof filter === 'string' ? filter : undefined,
    conditional: entries(value, 'conditions', path).length > 0,
    routes: entries(value, 'routes', path).flatMap(
      (route) => located(member(route.value, 'cluster'), [...route.path, 'cluster']) ?? [],
    ),
    clusters,
    hasUnnamedCluster: clusters.length < entries(value, 'clusters', path).length,
  };
}

interface Entry {
  readonly value: unknown;
  readonly path: KeyPath;
}

/** Returns the items of the list under a key; none if it is not a list. */
function entries(parent: unknown, key: string, path: KeyPath): Entry[] {
  const list: unknown = member(parent, key);
  return Array.isArray(list) ? list.map((value: unknown, index) => ({ value, path: [...path, key, index] })) : [];
}

function namesIn(parent: unknown, key: string, path: KeyPath): NamedLocation[] {
  return entries(parent, key, path).flatMap((item) => located(member(item.value, 'name'), item.path) ?? []);
}

function member(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, key)
    ? Object.entries(value).find(([name]) => name === key)?.[1]
    : undefined;
}

function located(name: unknown, path: KeyPath): NamedLocation | undefined {
  return typeof name === 'string' && name !== '' ? { name, path } : undefined;
}
