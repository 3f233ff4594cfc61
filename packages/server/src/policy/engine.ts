import { setImmediate as nextTurn } from 'node:timers/promises';
import { INVALID_PARAMS, INVALID_REQUEST } from '@sluice/protocol/mcp/constants';
import type { RequestMessage } from '@sluice/protocol/mcp/message';
import { withTimeout } from '@sluice/protocol/timing';
import { type ErrorOutcome, rpcError } from '../http/outcome.ts';
import type { ToolCallSink } from '../telemetry/tool-calls/events.ts';
import type { RequestOutcome } from '../upstreams/deferred-outcome.ts';
import { CancelableRequest, type InFlightCalls } from '../upstreams/in-flight-calls.ts';
import type { NamespaceBindings } from './bindings.ts';
import { type EvaluationInput, evaluableRequest } from './context.ts';
import { Evaluation, type EvaluationOptions } from './evaluation.ts';
import type { EvaluatorSet, LoadedEvaluator } from './evaluator-set.ts';
import { ConversationCache } from './llm/history.ts';
import { PromptToolCache } from './llm/prompt.ts';
import { ToolListCache } from './registry-view.ts';
import { recordRejection } from './rejected-call.ts';
import { BUSY } from './verdict.ts';

/** Options of {@link EvaluatorEngine}. */
export interface EvaluatorEngineOptions extends Omit<EvaluationOptions, 'toolLists' | 'promptTools' | 'conversations'> {
  readonly evaluators: { readonly current: EvaluatorSet };
  readonly bindings: Pick<NamespaceBindings, 'get'>;
  /** Finds requests that a client cancels. */
  readonly calls: InFlightCalls;
  /** Most members of an object in evaluated requests. */
  readonly maxMembers: number;
  /** Records rejected tool calls. */
  readonly toolCalls: ToolCallSink;
}

/**
 * Evaluates requests. A request is evaluated by the evaluators that are active when it arrives.
 */
export class EvaluatorEngine {
  readonly #options: EvaluatorEngineOptions;
  readonly #evaluationOptions: EvaluationOptions;
  readonly #inProgress = new Map<CancelableRequest, Promise<unknown>>();

  constructor(options: EvaluatorEngineOptions) {
    this.#options = options;
    this.#evaluationOptions = {
      ...options,
      toolLists: new ToolListCache(),
      promptTools: new PromptToolCache(),
      conversations: new ConversationCache(options.interactions, options.otherConversations),
    };
  }

  /**
   * Returns the error of a rejected request, the outcome of a canceled one, or undefined if the request passes: at once if
   * no evaluator matches. Sets the metadata, the namespace and the listed tools of the input. What `findMissing` returns is the
   * outcome of a request that need not be evaluated, since it asks for something that does not exist.
   */
  evaluate<Input extends EvaluationInput>(
    input: Input,
    findMissing?: (input: Input) => ErrorOutcome | undefined | Promise<ErrorOutcome | undefined>,
  ): RequestOutcome | undefined | Promise<RequestOutcome | undefined> {
    const { message, namespace } = input;
    const { triggers } = this.#options.metrics;
    if (message?.kind !== 'request' || !namespace) {
      triggers[message?.kind === 'request' ? 'skipped_no_registry' : 'skipped_no_method']++;
      return undefined;
    }
    const set = this.#options.evaluators.current;
    if (set.list.length === 0) {
      triggers.skipped_no_state++;
      return undefined;
    }
    const matching = set.matching(message.method, namespace.name);
    if (!matching) {
      triggers.trigger_misses += set.list.length;
      triggers.skipped_no_match++;
      return undefined;
    }
    const missing = findMissing?.(input);
    if (missing && !(missing instanceof Promise)) return missing;
    const request = new CancelableRequest(input, this.#options.calls);
    const start = () => {
      triggers.trigger_matches += matching.length;
      triggers.trigger_misses += set.list.length - matching.length;
      input.evaluated = true;
      return this.#evaluate(matching, input, message, namespace.name, request.signal);
    };
    const evaluated = missing
      ? missing.then((found) => found ?? (request.signal.aborted ? undefined : start()))
      : start();
    const outcome = request.outcome(evaluated).finally(() => this.#inProgress.delete(request));
    this.#inProgress.set(request, outcome);
    return outcome;
  }

  /**
   * Waits up to `graceMs` for evaluations in progress and cancels the others, whose requests do not pass. Call it before
   * closing the dependencies of evaluations and of the following filters.
   */
  async close(graceMs = 0): Promise<void> {
    await withTimeout(graceMs, Promise.allSettled(this.#inProgress.values()));
    for (const request of this.#inProgress.keys()) request.abort();
    // Requests that have passed continue in this turn.
    await nextTurn();
  }

  /** Runs the evaluators one after the other on the same request. */
  async #evaluate(
    evaluators: readonly LoadedEvaluator[],
    input: EvaluationInput,
    message: RequestMessage,
    namespace: string,
    signal: AbortSignal,
  ): Promise<RequestOutcome | undefined> {
    const conversationId = input.correlation.conversationId ?? this.#options.bindings.get(namespace);
    const request = await evaluableRequest(message, { namespace, conversationId }, this.#options.maxMembers);
    if (typeof request === 'string') return rpcError(INVALID_PARAMS, request);
    for (const evaluator of evaluators) {
      const verdict = await new Evaluation(evaluator, request, input, this.#evaluationOptions, signal).run();
      if (verdict.kind === 'reject') {
        const { code, message: reason } = verdict.outcome.error;
        const rejection = { evaluator: evaluator.definition.name, reason, isBusy: code === BUSY };
        const { registry, toolCalls } = this.#options;
        recordRejection(rejection, input, message, registry.current, toolCalls);
        return verdict.outcome;
      }
      if (verdict.kind === 'stop') break;
      // The cancellation has responded.
      if (verdict.kind === 'canceled') return undefined;
    }
    // Actions may have copied tools into the namespace; it may also have been deleted or recreated.
    const current = input.namespace && this.#options.registry.current.stateOf(input.namespace);
    if (!current) return rpcError(INVALID_REQUEST, `namespace not found: ${namespace}`, 404);
    input.namespace = current;
    return undefined;
  }
}
