import { setImmediate as nextTurn } from 'node:timers/promises';
import { INVALID_PARAMS, INVALID_REQUEST } from '@sluice/protocol/mcp/constants';
import type { RequestMessage } from '@sluice/protocol/mcp/message';
import { type Outcome, rpcError } from '../answer/outcome.ts';
import type { CallUnderWay } from '../forwards/call-under-way.ts';
import type { CallsUnderWay } from '../forwards/calls-under-way.ts';
import { WaitingRequest } from '../forwards/waiting-request.ts';
import { within } from '../forwards/within.ts';
import type { RequestContext } from '../pipeline/context.ts';
import type { NamespaceBindings } from './bindings.ts';
import { evaluatedRequest, NotJudgeable } from './evaluation-context.ts';
import { type EvaluationParts, EvaluatorRun } from './evaluator-run.ts';
import type { EvaluatorSet, LoadedEvaluator } from './evaluator-set.ts';
import { Conversations } from './history/conversations.ts';
import { PromptTools } from './question/prompt-tools.ts';
import { ToolTexts } from './registry-view/registry-view-texts.ts';

/** What {@link EvaluatorEngine} works with. */
export interface EngineParts extends Omit<EvaluationParts, 'texts' | 'promptTools' | 'conversations'> {
  readonly evaluators: { readonly current: EvaluatorSet };
  readonly bindings: Pick<NamespaceBindings, 'get'>;
  /** Finds requests that are cancelled. */
  readonly calls: CallsUnderWay<CallUnderWay>;
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
  readonly #judging = new Map<WaitingRequest, Promise<unknown>>();

  constructor(parts: EngineParts) {
    this.#parts = parts;
    this.#run = {
      ...parts,
      texts: new ToolTexts(),
      promptTools: new PromptTools(),
      conversations: new Conversations(parts.interactions),
    };
  }

  /**
   * The error that a request is refused with, or the end of one that its client has taken back; undefined when it passes,
   * at once where no evaluator matches. What actions set of a request is in its context afterwards: metadata, and the tools
   * that a list is to show.
   */
  judge(context: RequestContext): Outcome | undefined | Promise<Outcome | undefined> {
    const { message, namespace } = context;
    const { triggers } = this.#parts.metrics;
    if (message?.kind !== 'request' || !namespace) {
      triggers[message?.kind === 'request' ? 'skipped_no_registry' : 'skipped_no_method']++;
      return undefined;
    }
    const set = this.#parts.evaluators.current;
    if (set.list.length === 0) {
      triggers.skipped_no_state++;
      return undefined;
    }
    const matching = FREE.has(message.method) ? undefined : set.judging(message.method, namespace.name);
    triggers.trigger_matches += matching?.length ?? 0;
    triggers.trigger_misses += set.list.length - (matching?.length ?? 0);
    if (!matching) {
      triggers.skipped_no_match++;
      return undefined;
    }
    context.judged = true;
    const judged = new WaitingRequest(context, this.#parts.calls);
    const outcome = judged
      .outcome(this.#judge(matching, context, message, namespace.name, judged.signal))
      .finally(() => this.#judging.delete(judged));
    this.#judging.set(judged, outcome);
    return outcome;
  }

  /**
   * Requests that are judged get so long to come to an end; what is left then is ended, and nothing of it is passed on. To
   * be called while what judges them is there, and what carries them out: no request passes because the service stops.
   */
  async close(graceMs = 0): Promise<void> {
    await within(Math.max(graceMs, 0), Promise.allSettled(this.#judging.values()));
    for (const judged of this.#judging.keys()) judged.stop();
    // What has passed is carried out from here on.
    await nextTurn();
  }

  /** One after the other, each on the same request (decisions 4.9). */
  async #judge(
    evaluators: readonly LoadedEvaluator[],
    context: RequestContext,
    message: RequestMessage,
    namespace: string,
    signal: AbortSignal,
  ): Promise<Outcome | undefined> {
    const conversationId = context.correlation.conversationId ?? this.#parts.bindings.get(namespace);
    const request = judgeable(message, namespace, conversationId);
    if ('kind' in request) return request;
    for (const evaluator of evaluators) {
      const effect = await new EvaluatorRun(evaluator, request, context, this.#run, signal).judge();
      if (effect.kind === 'refused') return effect.outcome;
      if (effect.kind === 'last') break;
      // It has its answer already.
      if (effect.kind === 'cancelled') return undefined;
    }
    // As it is now: actions may have copied tools into it, and it may have been removed, or made anew.
    const now = this.#parts.registry.current.namespace(namespace);
    if (now?.identity !== context.namespace?.identity) {
      return rpcError(INVALID_REQUEST, `namespace not found: ${namespace}`, 404);
    }
    context.namespace = now;
    return undefined;
  }
}

/** What is judged; the refusal of a request that cannot be, whatever its evaluators do about failures. */
function judgeable(message: RequestMessage, namespace: string, conversationId: string | undefined) {
  try {
    return evaluatedRequest(message, namespace, conversationId);
  } catch (error) {
    if (error instanceof NotJudgeable) return rpcError(INVALID_PARAMS, error.message);
    throw error;
  }
}
