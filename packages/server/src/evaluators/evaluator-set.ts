import type { Evaluator } from '@sluice/contract';
import type { LlmConnection } from '../config/llm-connections.ts';
import type { Action } from './actions/action-world.ts';
import type { CompiledSchema } from './result-schemas.ts';

/** An evaluator with all that a run of it needs. */
export interface LoadedEvaluator {
  /** As it is answered. */
  readonly definition: Evaluator;
  readonly connection: LlmConnection;
  readonly action: Action;
  /** Of `llm.result_schema`; undefined when there is none. */
  readonly schema: CompiledSchema | undefined;
}

/** The evaluators that are active at one time. Nothing changes it: a request finishes with the one that it began with. */
export class EvaluatorSet {
  /** The id of the active revision; 0 when there is none. */
  readonly revision: number;
  /** In the order in which they run. */
  readonly list: readonly LoadedEvaluator[];
  readonly #byMethod: ReadonlyMap<string, readonly LoadedEvaluator[]>;

  constructor(revision: number, list: readonly LoadedEvaluator[]) {
    this.revision = revision;
    this.list = list;
    this.#byMethod = Map.groupBy(list, ({ definition }) => definition.trigger.method);
  }

  /** Those that a method triggers, whatever the namespace; undefined when there are none, at the cost of one look-up. */
  triggeredBy(method: string): readonly LoadedEvaluator[] | undefined {
    return this.#byMethod.get(method);
  }

  /** How many different actions they have. */
  get actions(): number {
    return new Set(this.list.map(({ action }) => action.checksum)).size;
  }
}
