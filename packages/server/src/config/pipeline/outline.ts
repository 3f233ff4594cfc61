import type { KeyPath } from '../yaml-file.ts';

/** A name, and where it stands. */
export interface Named {
  readonly name: string;
  readonly path: KeyPath;
}

/** What a file says of one filter, as far as it matters to others. */
export interface OutlinedFilter {
  readonly path: KeyPath;
  readonly filter: string | undefined;
  readonly conditional: boolean;
  /** Of `router`: the clusters that routes name. */
  readonly routes: readonly Named[];
  /** Of `load_balancer`: the clusters that it adds. */
  readonly clusters: readonly Named[];
}

/**
 * Who is called what in a pipeline file, and who names whom. It is there for files too that have mistakes elsewhere, so
 * that all mistakes can be told at once.
 */
export interface Outline {
  readonly listeners: readonly { readonly path: KeyPath; readonly name: Named | undefined; readonly chains: Named[] }[];
  readonly chains: readonly {
    readonly path: KeyPath;
    readonly name: Named | undefined;
    readonly filters: OutlinedFilter[];
  }[];
  /** Of the top level. */
  readonly clusters: readonly Named[];
  readonly skipValidation: boolean;
  /** False when something has no name, or is no list, that should: others may mean just that. */
  readonly complete: boolean;
}

/** The outline of a file's content, which may be anything. */
export function outlineOf(content: unknown): Outline {
  const listeners = entries(content, 'listeners', []).map(({ value, path }) => ({
    path,
    name: named(member(value, 'name'), path),
    chains: entries(value, 'filter_chains', path).flatMap((item) => named(item.value, item.path) ?? []),
  }));
  const chains = entries(content, 'filter_chains', []).map(({ value, path }) => ({
    path,
    name: named(member(value, 'name'), path),
    filters: entries(value, 'filters', path).map(outlinedFilter),
  }));
  const clusters = namesIn(content, 'clusters', []);
  const written = entries(content, 'clusters', []).length;
  const balanced = chains.flatMap(({ filters }) => filters).filter(({ filter }) => filter === 'load_balancer');
  return {
    listeners,
    chains,
    clusters,
    skipValidation: member(member(content, 'insecure_options'), 'skip_pipeline_validation') === true,
    complete:
      Array.isArray(member(content, 'filter_chains')) &&
      Array.isArray(member(content, 'clusters') ?? []) &&
      chains.every(({ name }) => name) &&
      clusters.length === written &&
      balanced.every(({ unnamed }) => !unnamed),
  };
}

function outlinedFilter({ value, path }: Entry): OutlinedFilter & { readonly unnamed: boolean } {
  const clusters = namesIn(value, 'clusters', path);
  return {
    path,
    filter: text(member(value, 'filter')),
    conditional: entries(value, 'conditions', path).length > 0,
    routes: entries(value, 'routes', path).flatMap(
      (route) => named(member(route.value, 'cluster'), [...route.path, 'cluster']) ?? [],
    ),
    clusters,
    unnamed: clusters.length < entries(value, 'clusters', path).length,
  };
}

interface Entry {
  readonly value: unknown;
  readonly path: KeyPath;
}

/** The items of the list that stands under a key; none when there is no list. */
function entries(parent: unknown, key: string, path: KeyPath): Entry[] {
  const list: unknown = member(parent, key);
  return Array.isArray(list) ? list.map((value: unknown, index) => ({ value, path: [...path, key, index] })) : [];
}

function namesIn(parent: unknown, key: string, path: KeyPath): Named[] {
  return entries(parent, key, path).flatMap((item) => named(member(item.value, 'name'), item.path) ?? []);
}

function member(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, key)
    ? Object.entries(value).find(([name]) => name === key)?.[1]
    : undefined;
}

function named(name: unknown, path: KeyPath): Named | undefined {
  return typeof name === 'string' && name !== '' ? { name, path } : undefined;
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
