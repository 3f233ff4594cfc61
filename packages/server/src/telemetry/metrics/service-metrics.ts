import type { Metrics } from '@sluice/contract';
import { FilterCounters } from './filter-counters.ts';

/** What the service counts from its start on, in memory alone (decisions 4.4, "Metrics"). */
export class ServiceMetrics {
  readonly #filters = new Map<string, FilterCounters>();

  /** The counters of the filter of this name, shared by all places where it stands. For making a chain, not for requests. */
  filter(name: string): FilterCounters {
    const known = this.#filters.get(name);
    if (known) return known;
    const counters = new FilterCounters();
    this.#filters.set(name, counters);
    return counters;
  }

  /** All counts so far; filters in the order in which they were made known, those that nothing has reached too. */
  snapshot(): Metrics {
    const filters = Array.from(this.#filters, ([name, counters]) => [name, counters.snapshot()] as const);
    return {
      filters: Object.fromEntries(filters),
      evaluators: {},
      pipeline: {
        trigger_matches: 0,
        trigger_misses: 0,
        skipped_no_method: 0,
        skipped_no_state: 0,
        skipped_no_match: 0,
        skipped_no_registry: 0,
        skipped_no_interactions: 0,
      },
      gauges: { evaluators_loaded: 0, wasm_compiled: 0, namespace_bindings: 0 },
    };
  }
}
