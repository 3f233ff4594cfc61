import type { EvaluatorMetrics } from '@sluice/contract';
import { Durations } from './durations.ts';

/** What an evaluator can decide. */
export type EvaluatorDecision = keyof EvaluatorMetrics['decisions'];

/** Why an evaluator can come to no decision. */
export type EvaluatorFailure = 'llm_failure' | 'action_failure';

/** Counters of one evaluator (decisions 4.4, "Metrics"). Durations are in milliseconds. */
export class EvaluatorCounters {
  readonly #decisions = { pass: 0, block: 0, reject_malformed: 0, warn: 0, filter_tools: 0, set_metadata: 0 };
  readonly #failures: Record<EvaluatorFailure, number> = { llm_failure: 0, action_failure: 0 };
  readonly #llm = { calls_success: 0, calls_failure: 0, empty_results: 0 };
  readonly #llmDuration = new Durations();
  readonly #schema = { validations_pass: 0, validations_fail: 0, retries_success: 0, retries_failure: 0 };
  readonly #wasm = { executions: 0, not_found: 0 };
  readonly #wasmDuration = new Durations();
  readonly #duration = new Durations();

  decided(decision: EvaluatorDecision): void {
    this.#decisions[decision]++;
  }

  /** A run came to none. */
  failed(failure: EvaluatorFailure): void {
    this.#failures[failure]++;
  }

  /** A call to the LLM came to an end. */
  called(success: boolean, ms: number): void {
    this.#llm[success ? 'calls_success' : 'calls_failure']++;
    this.#llmDuration.add(ms);
  }

  /** It answered with nothing, which is valid. */
  emptyResult(): void {
    this.#llm.empty_results++;
  }

  /** An answer was compared with the result schema. */
  validated(pass: boolean): void {
    this.#schema[pass ? 'validations_pass' : 'validations_fail']++;
  }

  /** The correction round brought an answer that fits, or none. */
  retried(success: boolean): void {
    this.#schema[success ? 'retries_success' : 'retries_failure']++;
  }

  /** Its action was run, whatever came of it. */
  executed(ms: number): void {
    this.#wasm.executions++;
    this.#wasmDuration.add(ms);
  }

  /** A whole run is over. */
  ran(ms: number): void {
    this.#duration.add(ms);
  }

  /** Runs without a decision. */
  get failures(): Readonly<Record<EvaluatorFailure, number>> {
    return { ...this.#failures };
  }

  /** The counts so far. An evaluator without its action is never loaded, so that `not_found` stays 0. */
  snapshot(): EvaluatorMetrics {
    return {
      decisions: { ...this.#decisions },
      llm: { ...this.#llm, duration: this.#llmDuration.snapshot() },
      schema: { ...this.#schema },
      wasm: { ...this.#wasm, duration: this.#wasmDuration.snapshot() },
      pipeline_duration: this.#duration.snapshot(),
    };
  }
}
