import type { InteractionStore } from '../inference/interaction-store.ts';
import type { RequestContext } from '../pipeline/context.ts';
import type { Draft } from '../registry/draft.ts';
import type { Registry } from '../registry/registry.ts';
import { logAbout, type TargetLogger } from '../telemetry/log.ts';
import type { EvaluatorCounters } from '../telemetry/metrics/evaluator-counters.ts';
import type { ServiceMetrics } from '../telemetry/metrics/service-metrics.ts';
import { rounded } from '../telemetry/tool-calls/tool-call-record.ts';
import { ActionFailure, type ActionRun, type ActionRunning, type HostAnswers, NotRun } from './actions/action-world.ts';
import { cutBytes } from './cut-bytes.ts';
import { type Effect, effectOf, failed } from './effect.ts';
import type { EvaluatedRequest } from './evaluation-context.ts';
import type { LoadedEvaluator } from './evaluator-set.ts';
import type { Conversations } from './history/conversations.ts';
import { historyJson } from './history/history-json.ts';
import type { LlmClient } from './question/llm-client.ts';
import { LlmFailure } from './question/llm-failure.ts';
import { askQuestion } from './question/llm-question.ts';
import { userPrompt } from './question/prompt.ts';
import type { PromptTools } from './question/prompt-tools.ts';
import { QuestionRecord } from './question/question-record.ts';
import { RegistryView } from './registry-view/registry-view.ts';
import type { ToolTexts } from './registry-view/registry-view-texts.ts';

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
  readonly #question: QuestionRecord;
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
    this.#question = new QuestionRecord(this.#counters);
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
      return await askQuestion(llm, question, this.#question);
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
      if (this.#actionMs === undefined && !(error instanceof NotRun)) this.#ran(performance.now() - startedAt);
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
