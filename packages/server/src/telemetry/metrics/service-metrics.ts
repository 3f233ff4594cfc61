import type { EvaluatorMetrics, FilterMetrics, Metrics } from '@sluice/contract';
import { truncateCharacters } from '@sluice/protocol/text';
import { Durations, durationMetrics } from './instruments.ts';

/** Counts of evaluator triggers. */
export type TriggerCounts = Metrics['pipeline'];

/** Host processes of actions. */
export type HostCounts = NonNullable<Metrics['hosts']>;

/** Numbers that are read and not counted: loaded evaluators and host processes of actions. */
type Gauges = Required<Pick<Metrics, 'gauges' | 'hosts'>>;

const NO_GAUGES: Gauges = {
  gauges: { evaluators_loaded: 0, evaluators_skipped: 0, wasm_compiled: 0, namespace_bindings: 0 },
  hosts: { running: 0, idle: 0, spare: 0, waiting: 0, started: 0, ended: 0 },
};

/** Longest message of a failure, in characters. */
const MAX_MESSAGE_LENGTH = 500;

/** Limit of evaluator names: evaluators can be replaced any number of times. */
const MAX_EVALUATORS = 2_000;

/** Counters since the start of the service, in memory only. */
export class ServiceMetrics {
  readonly #filters = new Map<string, FilterCounters>();
  readonly #evaluators = new Map<string, EvaluatorCounters>();
  /**
   * Incremented by the evaluator engine: triggers per evaluator, the rest per request. Registry and interactions are always
   * available, so no run is skipped for lack of them.
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
  readonly #readGauges: () => Gauges;

  constructor(readGauges = () => NO_GAUGES) {
    this.#readGauges = readGauges;
  }

  /** Returns the counters of a filter, shared by all chains that use it. Called when a chain is compiled. */
  filter(name: string): FilterCounters {
    return this.#filters.getOrInsertComputed(name, () => new FilterCounters());
  }

  /** Returns the counters of an evaluator name, which its replacement continues. */
  evaluator(name: string): EvaluatorCounters {
    const [oldest = ''] = this.#evaluators.keys();
    if (this.#evaluators.size >= MAX_EVALUATORS && !this.#evaluators.has(name)) this.#evaluators.delete(oldest);
    return this.#evaluators.getOrInsertComputed(name, () => new EvaluatorCounters());
  }

  /** Returns all counts, in the order of the first use; filters with those that were not used yet. */
  snapshot(): Required<Metrics> {
    const filters = [...this.#filters].flatMap(([name, counters]) => counters.snapshots(name));
    const evaluators = Array.from(this.#evaluators, ([name, counters]) => [name, counters.snapshot()] as const);
    return {
      filters: Object.fromEntries(filters),
      evaluators: Object.fromEntries(evaluators),
      pipeline: { ...this.triggers },
      ...this.#readGauges(),
    };
  }
}

/**
 * Counters of one filter. Each request that reaches the filter increments one number and adds the milliseconds that the filter
 * took. Part of the hot path: plain fields, since incrementing one by its name costs more than the rest of a step (measured).
 */
export class FilterCounters {
  /** Requests that were passed on. */
  continued = 0;
  /** Requests that were rejected. */
  rejected = 0;
  /** Requests with another response. */
  answered = 0;
  /** Requests for which the filter threw. */
  failed = 0;
  /** Milliseconds that the filter took for all of these requests. */
  totalMs = 0;
  readonly #parts = new Map<string, FilterCounters>();

  /** Returns the counters of a part of the filter, which are shown in place of those of the filter. */
  part(name: string): FilterCounters {
    return this.#parts.getOrInsertComputed(name, () => new FilterCounters());
  }

  /** Returns the counts by name, which for a part is that of the filter and its own. */
  snapshots(name: string): [string, FilterMetrics][] {
    if (this.#parts.size === 0) return [[name, this.snapshot()]];
    return Array.from(this.#parts, ([part, counters]) => [`${name} ${part}`, counters.snapshot()]);
  }

  /** Returns the counts. */
  snapshot(): FilterMetrics {
    const requests = this.continued + this.rejected + this.answered + this.failed;
    return {
      requests_continue: this.continued,
      requests_reject: this.rejected,
      requests_other: this.answered,
      errors: this.failed,
      duration: durationMetrics(requests, this.totalMs),
    };
  }
}

/** Decision of an evaluator. */
export type EvaluatorDecision = keyof EvaluatorMetrics['decisions'];

/** Reason why an evaluation ended without a decision. */
export type EvaluatorFailure = 'llm_failure' | 'action_failure' | 'busy';

/** Why a run failed, in identifiers. */
export type FailureReason = NonNullable<NonNullable<EvaluatorMetrics['failures']['last']>['reason']>;

/** Counters of one evaluator. Durations are in milliseconds. */
export class EvaluatorCounters {
  readonly #decisions = { pass: 0, block: 0, reject_malformed: 0, warn: 0, filter_tools: 0, set_metadata: 0 };
  readonly #failures: Record<EvaluatorFailure, number> = { llm_failure: 0, action_failure: 0, busy: 0 };
  #lastFailure: EvaluatorMetrics['failures']['last'] = undefined;
  /** Failures since the last decision. */
  #consecutive = 0;
  readonly #llm = { calls_success: 0, calls_failure: 0, empty_results: 0 };
  readonly #llmDuration = new Durations();
  readonly #schema = { validations_pass: 0, validations_fail: 0, retries_success: 0, retries_failure: 0 };
  readonly #wasm = { executions: 0, not_found: 0 };
  readonly #wasmDuration = new Durations();
  readonly #duration = new Durations();

  decided(decision: EvaluatorDecision): void {
    this.#decisions[decision]++;
    this.#consecutive = 0;
  }

  /** A run ended without a decision. A busy one neither worked nor failed. */
  failed(failure: EvaluatorFailure, message: string, reason?: FailureReason): void {
    this.#failures[failure]++;
    if (failure !== 'busy') this.#consecutive++;
    this.#lastFailure = {
      at: new Date().toISOString(),
      message: truncateCharacters(message, MAX_MESSAGE_LENGTH),
      ...(reason && { reason }),
    };
  }

  /** A call of the LLM ended. */
  onCall(success: boolean, ms: number): void {
    this.#llm[success ? 'calls_success' : 'calls_failure']++;
    this.#llmDuration.add(ms);
  }

  /** The LLM returned an empty result, which is valid. */
  onEmptyResult(): void {
    this.#llm.empty_results++;
  }

  /** A result was validated against the result schema. */
  onValidation(pass: boolean): void {
    this.#schema[pass ? 'validations_pass' : 'validations_fail']++;
  }

  /** A retry ended with or without a valid result. */
  onRetry(success: boolean): void {
    this.#schema[success ? 'retries_success' : 'retries_failure']++;
  }

  /** The action was executed, with any outcome. */
  executed(ms: number): void {
    this.#wasm.executions++;
    this.#wasmDuration.add(ms);
  }

  /** A run ended. */
  ran(ms: number): void {
    this.#duration.add(ms);
  }

  /** Returns the counts. `not_found` is always 0: an evaluator without its action is never loaded. */
  snapshot(): EvaluatorMetrics {
    return {
      decisions: { ...this.#decisions },
      llm: { ...this.#llm, duration: this.#llmDuration.snapshot() },
      schema: { ...this.#schema },
      wasm: { ...this.#wasm, duration: this.#wasmDuration.snapshot() },
      pipeline_duration: this.#duration.snapshot(),
      failures: {
        ...this.#failures,
        consecutive: this.#consecutive,
        ...(this.#lastFailure && { last: this.#lastFailure }),
      },
    };
  }
}
