import type { FilterChain, PlacedFilter } from './pipeline.ts';

/** The filters of the chains of these names, in their order: what a listener's requests go through (decisions 1.4). */
export function filtersOf(names: readonly string[], chains: readonly FilterChain[]): PlacedFilter[] {
  return names.flatMap((name) => chains.find((chain) => chain.name === name)?.filters ?? []);
}
