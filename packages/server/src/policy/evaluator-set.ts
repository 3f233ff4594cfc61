import { createHash } from 'node:crypto';
import type { Evaluator } from '@sluice/contract';
import type { LlmConnection } from './llm/connection.ts';
import type { CompiledSchema } from './llm/result-schema.ts';
import type { Action } from './sandbox/action.ts';

/** An evaluator and what its evaluations need. */
export interface LoadedEvaluator {
  readonly definition: Evaluator;
  readonly connection: LlmConnection;
  readonly action: Action;
  /** Compiled `llm.result_schema`, if there is one. */
  readonly schema: CompiledSchema | undefined;
}

/** Immutable set of active evaluators. A request uses the set that is active when it arrives. */
export class EvaluatorSet {
  /** Id of the active revision; 0 if there is none. */
  readonly revision: number;
  /** In order of execution. */
  readonly list: readonly LoadedEvaluator[];
  /** Names of the evaluators that could not be loaded and are not run. */
  readonly skipped: readonly string[];
  readonly #byMethod: ReadonlyMap<string, readonly LoadedEvaluator[]>;
  /** Equal for equivalent evaluators. Definitions may be large and are compared once per namespace. */
  readonly #fingerprints: ReadonlyMap<LoadedEvaluator, string>;

  constructor(revision: number, list: readonly LoadedEvaluator[], skipped: readonly string[] = []) {
    this.revision = revision;
    this.list = list;
    this.skipped = skipped;
    this.#byMethod = Map.groupBy(list, ({ definition }) => definition.trigger.method);
    this.#fingerprints = new Map(list.map((evaluator) => [evaluator, fingerprint(evaluator)]));
  }

  /** Returns the evaluators that match requests with this method and namespace; undefined if none does. */
  matching(method: string, namespace: string): readonly LoadedEvaluator[] | undefined {
    const matching = this.#byMethod
      .get(method)
      ?.filter(({ definition: { trigger } }) => trigger.namespace === null || trigger.namespace === namespace);
    return matching?.length ? matching : undefined;
  }

  /** Returns whether another set evaluates requests with this method and namespace in the same way. */
  isEquivalent(other: EvaluatorSet, method: string, namespace: string): boolean {
    return this.#fingerprint(method, namespace) === other.#fingerprint(method, namespace);
  }

  /** Number of different actions. */
  get actionCount(): number {
    return new Set(this.list.map(({ action }) => action.checksum)).size;
  }

  #fingerprint(method: string, namespace: string): string {
    return (this.matching(method, namespace) ?? []).map((evaluator) => this.#fingerprints.get(evaluator)).join();
  }
}

function fingerprint({ definition, action }: LoadedEvaluator): string {
  return createHash('sha256').update(JSON.stringify(definition)).update(action.checksum).digest('base64');
}
