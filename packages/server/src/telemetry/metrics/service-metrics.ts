import type { Metrics } from '@sluice/contract';
import { EvaluatorCounters } from './evaluator-counters.ts';
import { FilterCounters } from './filter-counters.ts';

/** What is loaded at the moment. */
export type LoadedGauges = Metrics['gauges'];

/** How requests met the triggers of evaluators. */
export type TriggerCounts = Metrics['pipeline'];

const NOTHING_LOADED: LoadedGauges = { evaluators_loaded: 0, wasm_compiled: 0, namespace_bindings: 0 };

/** Names that are counted under: evaluators can be replaced by others without end. */
const MAX_EVALUATORS = 2_000;

/** What the service counts from its start on, in memory alone (decisions 4.4, "Metrics"). */
export class ServiceMetrics {
  readonly #filters = new Map<string, FilterCounters>();
  readonly #evaluators = new Map<string, EvaluatorCounters>();
  /**
   * Each is counted where it happens: a trigger per evaluator, the rest per request. Every action that a run needs has the
   * registry and the interactions, so that no run is left out for want of them.
   */
  readonly triggers: TriggerCounts = {
    trigger_matches: 0,
    trigger_misses: 0,
    skipped_no_method: 0,
    skipped_no_state: 0,
    skipped_no_match: 0,
    skipped_no_registry: 0,
    skipped_no_interactions: 0,
  };
  /** Asked whenever metrics are. */
  loaded: () => LoadedGauges = () => NOTHING_LOADED;

  /** The counters of the filter of this name, shared by all places where it stands. For making a chain, not for requests. */
  filter(name: string): FilterCounters {
    const known = this.#filters.get(name);
    if (known) return known;
    const counters = new FilterCounters();
    this.#filters.set(name, counters);
    return counters;
  }

  /** The counters of the evaluator of this name, whoever had it before. */
  evaluator(name: string): EvaluatorCounters {
    const known = this.#evaluators.get(name);
    if (known) return known;
    const [oldest] = this.#evaluators.keys();
    if (this.#evaluators.size >= MAX_EVALUATORS && oldest !== undefined) this.#evaluators.delete(oldest);
    const counters = new EvaluatorCounters();
    this.#evaluators.set(name, counters);
    return counters;
  }

  /** Evaluators by name, with their counters, in the order in which they became known. */
  get evaluators(): ReadonlyMap<string, EvaluatorCounters> {
    return this.#evaluators;
  }

  /** All counts so far; filters in the order in which they were made known, those that nothing has reached too. */
  snapshot(): Metrics {
    const filters = Array.from(this.#filters, ([name, counters]) => [name, counters.snapshot()] as const);
    const evaluators = Array.from(this.#evaluators, ([name, counters]) => [name, counters.snapshot()] as const);
    return {
      filters: Object.fromEntries(filters),
      evaluators: Object.fromEntries(evaluators),
      pipeline: { ...this.triggers },
      gauges: this.loaded(),
    };
  }
}
