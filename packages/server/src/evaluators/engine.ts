import type { ErrorOutcome } from '../answer/outcome.ts';
import type { InteractionStore } from '../inference/interaction-store.ts';
import type { RequestMessage } from '../mcp/message.ts';
import type { RequestContext } from '../pipeline/context.ts';
import type { Registry } from '../registry/registry.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import type { ServiceMetrics } from '../telemetry/metrics/service-metrics.ts';
import type { ActionRunning } from './actions/action-world.ts';
import type { NamespaceBindings } from './bindings.ts';
import { type EvaluatedRequest, evaluatedRequest } from './evaluation-context.ts';
import { type EvaluationParts, EvaluatorRun } from './evaluator-run.ts';
import type { EvaluatorSet, LoadedEvaluator } from './evaluator-set.ts';
import type { LlmClient } from './llm-client.ts';
import { PromptTools } from './prompt-tools.ts';
import { ToolTexts } from './registry-view-texts.ts';

/** What {@link EvaluatorEngine} works with. */
export interface EngineParts {
  readonly evaluators: { readonly current: EvaluatorSet };
  readonly bindings: Pick<NamespaceBindings, 'get'>;
  readonly llm: LlmClient;
  readonly actions: ActionRunning;
  readonly registry: Registry;
  readonly interactions: InteractionStore;
  readonly metrics: ServiceMetrics;
  /** `service::evaluator`. */
  readonly log: TargetLogger;
}

/** Requests that nothing judges: without them no client could speak to us (decisions 4.9, "Matching"). */
const FREE: ReadonlySet<string> = new Set(['initialize', 'ping']);

/**
 * Has the evaluators judge requests (spec "Evaluator processing rules", decisions 4.9). A request finishes with the
 * evaluators that there were when it came.
 */
export class EvaluatorEngine {
  readonly #parts: EngineParts;
  readonly #run: EvaluationParts;

  constructor(parts: EngineParts) {
    this.#parts = parts;
    this.#run = { ...parts, texts: new ToolTexts(), promptTools: new PromptTools() };
  }

  /**
   * The error that a request is refused with; undefined when it passes, at once where no evaluator matches. What actions
   * set of a request is in its context afterwards: metadata, and the tools that a list is to show.
   */
  judge(context: RequestContext): ErrorOutcome | undefined | Promise<ErrorOutcome | undefined> {
    const { message, namespace } = context;
    const { triggers } = this.#parts.metrics;
    if (message?.kind !== 'request' || !namespace) {
      triggers.skipped_no_method++;
      return undefined;
    }
    const set = this.#parts.evaluators.current;
    if (set.list.length === 0) {
      triggers.skipped_no_state++;
      return undefined;
    }
    const triggered = FREE.has(message.method) ? undefined : set.triggeredBy(message.method);
    const matching = triggered?.filter(({ definition: { trigger } }) => matches(trigger.namespace, namespace.name));
    triggers.trigger_matches += matching?.length ?? 0;
    triggers.trigger_misses += set.list.length - (matching?.length ?? 0);
    if (!matching?.length) {
      triggers.skipped_no_match++;
      return undefined;
    }
    return this.#judge(matching, context, message, namespace.name);
  }

  /** One after the other, each on the same request (decisions 4.9). */
  async #judge(
    evaluators: readonly LoadedEvaluator[],
    context: RequestContext,
    message: RequestMessage,
    namespace: string,
  ): Promise<ErrorOutcome | undefined> {
    const conversationId = context.correlation.conversationId ?? this.#parts.bindings.get(namespace);
    const request: EvaluatedRequest = evaluatedRequest(message, namespace, conversationId);
    for (const evaluator of evaluators) {
      const effect = await new EvaluatorRun(evaluator, request, context, this.#run).judge();
      if (effect.kind === 'refused') return effect.outcome;
      if (effect.kind === 'last') break;
    }
    // As it is now: actions may have copied tools into it.
    context.namespace = this.#parts.registry.current.namespace(namespace) ?? context.namespace;
    return undefined;
  }
}

function matches(wanted: string | null, namespace: string): boolean {
  return wanted === null || wanted === namespace;
}
