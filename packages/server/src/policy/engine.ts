import { setImmediate as nextTurn } from 'node:timers/promises';
import { INVALID_PARAMS, INVALID_REQUEST } from '@sluice/protocol/mcp/constants';
import type { RequestMessage } from '@sluice/protocol/mcp/message';
import { type Outcome, type RequestContext, rpcError } from '../http/context.ts';
import type { InteractionStore } from '../inference/interaction-store.ts';
import type { Draft } from '../registry/draft.ts';
import type { Registry } from '../registry/registry.ts';
import { logAbout, type TargetLogger } from '../telemetry/log.ts';
import type { EvaluatorCounters, ServiceMetrics } from '../telemetry/metrics/service-metrics.ts';
import { rounded } from '../telemetry/tool-calls/events.ts';
import { CancelableRequest, type InFlightCall, type InFlightCalls } from '../upstreams/mcp/relay/in-flight.ts';
import { withTimeout } from '../upstreams/mcp/with-timeout.ts';
import type { NamespaceBindings } from './bindings.ts';
import { type EvaluatedRequest, evaluatedRequest, UnevaluableRequestError } from './context.ts';
import type { EvaluatorSet, LoadedEvaluator } from './evaluator-set.ts';
import { completeWithSchema, LlmCallStats } from './llm/ask.ts';
import { type LlmClient, LlmFailure } from './llm/client.ts';
import { Conversations, historyJson } from './llm/history.ts';
import { PromptTools, userPrompt } from './llm/prompt.ts';
import { RegistryView, ToolTexts } from './registry-view.ts';
import {
  ActionFailure,
  ActionNotStartedError,
  type ActionRun,
  type ActionRunning,
  type HostAnswers,
} from './sandbox/action.ts';
import { cutBytes, type Effect, effectOf, failed } from './verdict.ts';

/** What a run works with. */
export interface EvaluationParts {
  readonly llm: LlmClient;
  readonly actions: ActionRunning;
  readonly registry: Registry;
  readonly interactions: InteractionStore;
  readonly metrics: ServiceMetrics;
  /** `service::evaluator`. */
  readonly log: TargetLogger;
  readonly texts: ToolTexts;
  readonly promptTools: PromptTools;
  readonly conversations: Conversations;
}

/** An action's log lines are cut here (decisions 2.11). */
const MAX_LOG_BYTES = 4096;
/** A tool's name is anything that a client calls one. */
const MAX_TOOL_BYTES = 256;

/** One evaluator judging one request: the question to the LLM, the action, and what it decided. */
export class EvaluatorRun {
  readonly #evaluator: LoadedEvaluator;
  readonly #request: EvaluatedRequest;
  readonly #context: RequestContext;
  readonly #parts: EvaluationParts;
  readonly #signal: AbortSignal;
  readonly #counters: EvaluatorCounters;
  readonly #question: LlmCallStats;
  /** Its lines say whose run it is, and of which request. */
  readonly #log: TargetLogger;
  #llmMs: number | undefined;
  #actionMs: number | undefined;

  /** `signal`: nobody waits for what it comes to. The question is ended then, and its action has no effect. */
  constructor(
    evaluator: LoadedEvaluator,
    request: EvaluatedRequest,
    context: RequestContext,
    parts: EvaluationParts,
    signal: AbortSignal,
  ) {
    this.#evaluator = evaluator;
    this.#request = request;
    this.#context = context;
    this.#parts = parts;
    this.#signal = signal;
    const { name } = evaluator.definition;
    this.#counters = parts.metrics.evaluator(name);
    this.#question = new LlmCallStats(this.#counters);
    const { method, namespace, toolName, conversationId } = request;
    this.#log = logAbout(parts.log, {
      evaluator: name,
      namespace,
      mcp_method: method,
      tool: toolName && cutBytes(toolName, MAX_TOOL_BYTES),
      conversation_id: conversationId,
      x_request_id: context.correlation.requestId,
    });
  }

  /** Never rejects: what fails is settled by the evaluator's `on_error`. */
  async judge(): Promise<Effect | { readonly kind: 'cancelled' }> {
    const { definition } = this.#evaluator;
    const signal = this.#signal;
    const startedAt = performance.now();
    try {
      const llmResult = await this.#ask();
      signal.throwIfAborted();
      const run = await this.#act(llmResult);
      signal.throwIfAborted();
      const effect = effectOf(run.response, definition.name, this.#context, this.#log);
      this.#counters.decided(effect.decision);
      if (run.ignoredResponses > 0) {
        this.#log.warn('an action responded more than once', { ignored: run.ignoredResponses });
      }
      this.#tell(effect.decision);
      return effect;
    } catch (error) {
      // What was ended fails of that.
      if (signal.aborted) {
        this.#tell('cancelled');
        return { kind: 'cancelled' };
      }
      const kind = error instanceof LlmFailure ? 'llm_failure' : 'action_failure';
      this.#counters.failed(kind);
      this.#tell(kind, error);
      return definition.on_error === 'block'
        ? { kind: 'refused', outcome: failed(definition.name, kind) }
        : { kind: 'next' };
    } finally {
      this.#counters.ran(performance.now() - startedAt);
    }
  }

  async #ask(): Promise<string> {
    const { conversations, registry, llm, promptTools } = this.#parts;
    const { definition, connection, schema } = this.#evaluator;
    const { method, namespace, conversationId } = this.#request;
    const conversation = conversationId === undefined ? [] : await conversations.latest(conversationId);
    const shelf = method === 'tools/list' ? registry.current.namespace(namespace)?.shelves.tool : undefined;
    const tools = shelf && promptTools.of(shelf);
    const user = userPrompt({ request: this.#request, conversation, tools });
    const startedAt = performance.now();
    try {
      const systemPrompt = definition.llm.prompt;
      const question = { connection, systemPrompt, userPrompt: user, schema, signal: this.#signal };
      return await completeWithSchema(llm, question, this.#question);
    } finally {
      this.#llmMs = performance.now() - startedAt;
    }
  }

  /** Copies that the action made are committed before the request goes on. */
  async #act(llmResult: string): Promise<ActionRun> {
    const { actions, registry, texts } = this.#parts;
    const { action } = this.#evaluator;
    const { namespace } = this.#request;
    const view = new RegistryView({ registry, texts, log: this.#log, namespace });
    const startedAt = performance.now();
    try {
      const context = { ...this.#request, llmResult };
      const run = await actions.run(action, context, this.#answers(view), this.#signal);
      this.#ran(run.durationMs);
      if (!this.#signal.aborted) await view.commit((draft) => this.#isWaitedFor(draft));
      return run;
    } catch (error) {
      if (this.#actionMs === undefined && !(error instanceof ActionNotStartedError))
        this.#ran(performance.now() - startedAt);
      throw error;
    }
  }

  /** A request that was taken back, or whose namespace has gone, has changed nothing: what was removed does not come back. */
  #isWaitedFor(draft: Draft): boolean {
    const { namespace } = this.#context;
    const isThere = namespace === undefined || draft.namespaces.get(namespace.name)?.identity === namespace.identity;
    return isThere && !this.#signal.aborted;
  }

  #ran(ms: number): void {
    this.#actionMs = ms;
    this.#counters.executed(ms);
  }

  #answers(view: RegistryView): HostAnswers {
    const { interactions } = this.#parts;
    const { schema } = this.#evaluator;
    return {
      tools: (namespace) => view.tools(namespace),
      tool: (name) => view.tool(name),
      copyTool: (name, namespace) => view.copyTool(name, namespace),
      history: historyJson(interactions),
      verify: async (raw, signal) => schema?.validate(raw, signal),
      log: (level, message) => this.#log[level](cutBytes(message, MAX_LOG_BYTES), { from: 'action' }),
    };
  }

  /** A line per decision, or why there is none. */
  #tell(decision: string, error?: unknown): void {
    const { definition } = this.#evaluator;
    const fields = {
      decision,
      on_error: error === undefined ? undefined : definition.on_error,
      fault: error instanceof ActionFailure || error instanceof LlmFailure ? error.fault : undefined,
      error,
      reason: this.#signal.aborted ? this.#signal.reason : undefined,
      llm_ms: this.#llmMs === undefined ? undefined : rounded(this.#llmMs),
      ...this.#question.correction,
      action_ms: this.#actionMs === undefined ? undefined : rounded(this.#actionMs),
    };
    if (error !== undefined) this.#log.warn('evaluator failed', fields);
    else if (decision === 'cancelled') this.#log.info('evaluator not waited for', fields);
    else this.#log.info('evaluator decided', fields);
  }
}

/** What {@link EvaluatorEngine} works with. */
export interface EngineParts extends Omit<EvaluationParts, 'texts' | 'promptTools' | 'conversations'> {
  readonly evaluators: { readonly current: EvaluatorSet };
  readonly bindings: Pick<NamespaceBindings, 'get'>;
  /** Finds requests that are cancelled. */
  readonly calls: InFlightCalls<InFlightCall>;
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
  readonly #judging = new Map<CancelableRequest, Promise<unknown>>();

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
    const judged = new CancelableRequest(context, this.#parts.calls);
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
    await withTimeout(Math.max(graceMs, 0), Promise.allSettled(this.#judging.values()));
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
    if (error instanceof UnevaluableRequestError) return rpcError(INVALID_PARAMS, error.message);
    throw error;
  }
}
