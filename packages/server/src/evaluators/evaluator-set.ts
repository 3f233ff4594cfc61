import { createHash } from 'node:crypto';
import type { Evaluator } from '@sluice/contract';
import type { LlmConnection } from '../config/llm-connections.ts';
import type { Action } from './actions/action-world.ts';
import type { CompiledSchema } from './result-schemas/result-schemas.ts';

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
  /** Names of those that belong to it and could not be loaded: they judge nothing. */
  readonly leftOut: readonly string[];
  readonly #byMethod: ReadonlyMap<string, readonly LoadedEvaluator[]>;
  /** Equal for evaluators that judge alike: definitions may be large, and are compared once per namespace. */
  readonly #fingerprints: ReadonlyMap<LoadedEvaluator, string>;

  constructor(revision: number, list: readonly LoadedEvaluator[], leftOut: readonly string[] = []) {
    this.revision = revision;
    this.list = list;
    this.leftOut = leftOut;
    this.#byMethod = Map.groupBy(list, ({ definition }) => definition.trigger.method);
    this.#fingerprints = new Map(list.map((evaluator) => [evaluator, fingerprintOf(evaluator)]));
  }

  /** Those that judge requests of this method to this namespace; undefined when none does. */
  judging(method: string, namespace: string): readonly LoadedEvaluator[] | undefined {
    const matching = this.#byMethod
      .get(method)
      ?.filter(({ definition: { trigger } }) => trigger.namespace === null || trigger.namespace === namespace);
    return matching?.length ? matching : undefined;
  }

  /** True when requests of this method to this namespace are judged by another set just as by this one. */
  judgesLike(other: EvaluatorSet, method: string, namespace: string): boolean {
    const ours = this.judging(method, namespace) ?? [];
    const theirs = other.judging(method, namespace) ?? [];
    const told = (set: EvaluatorSet, list: readonly LoadedEvaluator[]) => list.map((one) => set.#fingerprints.get(one));
    return told(this, ours).join() === told(other, theirs).join();
  }

  /** How many different actions they have. */
  get actionCount(): number {
    return new Set(this.list.map(({ action }) => action.checksum)).size;
  }
}

function fingerprintOf({ definition, action }: LoadedEvaluator): string {
  return createHash('sha256').update(JSON.stringify(definition)).update(action.checksum).digest('base64');
}
