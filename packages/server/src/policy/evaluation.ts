import type { ToolCallVerdict } from '@sluice/contract';
import { truncateBytes } from '@sluice/protocol/text';
import { visibleEntries } from '../access/access.ts';
import { BusyError, WaitBudget } from '../http/fair-queue.ts';
import { quotaOwner } from '../http/quota.ts';
import type { InteractionStore } from '../inference/interaction-store.ts';
import type { Draft } from '../registry/draft.ts';
import type { Registry } from '../registry/registry.ts';
import { type TargetLogger, withFields } from '../telemetry/log.ts';
import { roundMs } from '../telemetry/metrics/instruments.ts';
import type { EvaluatorCounters, FailureReason, ServiceMetrics } from '../telemetry/metrics/service-metrics.ts';
import { spanOf } from '../telemetry/request-spans.ts';
import { CANCELED } from '../telemetry/tool-calls/event.ts';
import type { Span, SpanStart } from '../telemetry/tracing/span.ts';
import type { EvaluatedRequest, EvaluationInput } from './context.ts';
import type { LoadedEvaluator } from './evaluator-set.ts';
import { type LlmClient, LlmError } from './llm/client.ts';
import { completeWithSchema } from './llm/completion.ts';
import { type ConversationCache, historyReader } from './llm/history.ts';
import type { OtherConversations } from './llm/other-conversations.ts';
import { buildUserPrompt, type PromptToolCache } from './llm/prompt.ts';
import type { CompiledSchema } from './llm/result-schema.ts';
import { RegistryView, type ToolListCache } from './registry-view.ts';
import {
  ActionFailure,
  type ActionLogLevel,
  ActionNotStartedError,
  type ActionRun,
  type HostFunctions,
} from './sandbox/action.ts';
import type { SandboxPool } from './sandbox/pool.ts';
import { HOST_LIMITS } from './sandbox/sandbox-worker.ts';
import { applyResponse, busyOutcome, failureOutcome, type Verdict } from './verdict.ts';

/** Parts of the service that evaluations use. */
export interface EvaluationOptions {
  readonly llm: LlmClient;
  readonly actions: Pick<SandboxPool, 'run'>;
  readonly registry: Registry;
  readonly interactions: InteractionStore;
  /** Conversations at other replicas; undefined without any. */
  readonly otherConversations?: OtherConversations | undefined;
  readonly metrics: ServiceMetrics;
  /** Logger of the target `service::evaluator`. */
  readonly log: TargetLogger;
  readonly toolLists: ToolListCache;
  readonly promptTools: PromptToolCache;
  readonly conversations: ConversationCache;
}

/** Longest log line of an action. */
const MAX_LOG_BYTES = 4096;
/** The tool name of a call is chosen by the client. */
const MAX_TOOL_BYTES = 256;
/** A text that an action verifies must not wait until the action itself runs out of time. */
const MAX_VERIFY_WAIT_MS = HOST_LIMITS.runMs / 2;

/** Evaluation of one request by one evaluator: the LLM call, the run of the action, and the verdict. */
export class Evaluation {
  readonly #evaluator: LoadedEvaluator;
  readonly #request: EvaluatedRequest;
  readonly #input: EvaluationInput;
  readonly #options: EvaluationOptions;
  readonly #signal: AbortSignal;
  readonly #budget: WaitBudget;
  readonly #counters: EvaluatorCounters;
  /** Adds the evaluator and the request to each line. */
  readonly #log: TargetLogger;
  #llmMs: number | undefined;
  /** Whether the result of a second call was valid. */
  #isCorrected: boolean | undefined;
  #actionMs: number | undefined;

  /** Aborting `signal` cancels the LLM call and discards the result of the action. */
  constructor(
    evaluator: LoadedEvaluator,
    request: EvaluatedRequest,
    input: EvaluationInput,
    options: EvaluationOptions,
    signal: AbortSignal,
  ) {
    this.#evaluator = evaluator;
    this.#request = request;
    this.#input = input;
    this.#options = options;
    this.#signal = signal;
    const owner = quotaOwner(request.namespace, input.principal, input.head.address);
    this.#budget = new WaitBudget(owner.namespace, owner.name, options.llm.timeoutMs + HOST_LIMITS.runMs);
    const { name } = evaluator.definition;
    this.#counters = options.metrics.evaluator(name);
    const { method, namespace, toolName, conversationId } = request;
    this.#log = withFields(options.log, {
      evaluator: name,
      namespace,
      mcp_method: method,
      tool: toolName && truncateBytes(toolName, MAX_TOOL_BYTES),
      conversation_id: conversationId,
      x_request_id: input.correlation.requestId,
    });
  }

  /**
   * Never rejects: a failure is handled according to `on_error`. If there is no room for the evaluation, for as long as the
   * LLM call and the action may take together, the request is rejected in any case: overload is no verdict.
   */
  async run(): Promise<Verdict | { readonly kind: 'canceled' }> {
    const { definition } = this.#evaluator;
    const signal = this.#signal;
    const startedAt = performance.now();
    try {
      const llmResult = await this.#callLlm();
      signal.throwIfAborted();
      const run = await this.#runAction(llmResult);
      signal.throwIfAborted();
      const verdict = applyResponse(run.response, definition.name, this.#input, this.#log);
      this.#counters.decided(verdict.decision);
      if (verdict.kind !== 'reject') this.#recordPass(verdict.decision, startedAt);
      if (run.ignoredResponses > 0) {
        this.#log.warn('action responded more than once', { ignored: run.ignoredResponses });
      }
      this.#logResult(verdict.decision);
      return verdict;
    } catch (error) {
      if (signal.aborted) {
        this.#logResult('cancelled');
        return { kind: 'canceled' };
      }
      if (error instanceof BusyError || error instanceof ActionNotStartedError) {
        this.#counters.failed('busy', error.message);
        this.#logResult('busy', error);
        return { kind: 'reject', outcome: busyOutcome(error instanceof BusyError ? error : new BusyError()) };
      }
      const kind = error instanceof LlmError ? 'llm_failure' : 'action_failure';
      this.#counters.failed(kind, error instanceof Error ? error.message : String(error), reasonOf(error));
      this.#logResult(kind, error);
      if (definition.on_error === 'block') return { kind: 'reject', outcome: failureOutcome(definition.name, kind) };
      this.#recordPass(kind, startedAt);
      return { kind: 'continue' };
    } finally {
      this.#counters.ran(performance.now() - startedAt);
    }
  }

  /** Adds the evaluation to those of the request, which its tool-call events contain. */
  #recordPass(verdict: ToolCallVerdict, startedAt: number): void {
    const { facts } = this.#input;
    const { name: evaluator } = this.#evaluator.definition;
    const durationMs = performance.now() - startedAt;
    facts.evaluations = [...facts.evaluations, { evaluator, verdict, durationMs }];
  }

  async #callLlm(): Promise<string> {
    const { definition, connection, schema } = this.#evaluator;
    const userPrompt = await userPromptOf(this.#request, this.#options);
    const startedAt = performance.now();
    const span = this.#startSpan({ name: 'chat', role: 'client' });
    if (span?.recorded) {
      // Model and URL stay in the process.
      span.attributes['gen_ai.operation.name'] = 'chat';
      span.attributes['sluice.llm.connection'] = connection.name;
    }
    try {
      const signal = this.#signal;
      const onCorrection = (isValid: boolean): void => {
        this.#isCorrected = isValid;
      };
      const prompts = { systemPrompt: definition.llm.prompt, userPrompt };
      const request = { connection, ...prompts, schema, signal, budget: this.#budget, onCorrection };
      return await completeWithSchema(this.#options.llm, request, this.#counters);
    } catch (error) {
      span?.failed(this.#errorTypeOf(error));
      throw error;
    } finally {
      span?.end();
      this.#llmMs = performance.now() - startedAt;
    }
  }

  /** Runs the action and commits the tools that it copied, before the request continues. */
  async #runAction(llmResult: string): Promise<ActionRun> {
    const { actions } = this.#options;
    const functions = new EvaluationHost(this.#options, this.#evaluator, this.#budget, this.#log);
    const startedAt = performance.now();
    const span = this.#startSpan({ name: `action ${this.#evaluator.definition.name}`, role: 'internal', startedAt });
    try {
      const context = { ...this.#request, llmResult };
      const run = await actions.run(this.#evaluator.action, context, functions, this.#signal, this.#budget);
      this.#onActionRun(run.durationMs);
      if (functions.busy) throw functions.busy;
      if (!this.#signal.aborted) await functions.commit((draft) => this.#isStillApplicable(draft));
      return run;
    } catch (error) {
      const started = !(error instanceof ActionNotStartedError || error instanceof BusyError);
      if (this.#actionMs === undefined && started) this.#onActionRun(performance.now() - startedAt);
      span?.failed(this.#errorTypeOf(functions.busy ?? error));
      throw functions.busy ?? error;
    } finally {
      span?.end();
    }
  }

  /** Starts a span below that of the request; undefined where no traces are exported. */
  #startSpan(start: SpanStart): Span | undefined {
    const span = spanOf(this.#input.facts)?.child(start);
    if (span?.recorded) span.attributes['sluice.evaluator'] = this.#evaluator.definition.name;
    return span;
  }

  /** OpenTelemetry's `error.type` of a failed part of the run. */
  #errorTypeOf(error: unknown): string {
    if (this.#signal.aborted) return CANCELED;
    if (error instanceof BusyError || error instanceof ActionNotStartedError) return 'busy';
    return reasonOf(error)?.kind ?? '_OTHER';
  }

  /** A canceled request, or one whose namespace was deleted, must change nothing: deleted entries would reappear. */
  #isStillApplicable(draft: Draft): boolean {
    const { namespace } = this.#input;
    const exists = namespace === undefined || draft.namespaces.get(namespace.name)?.identity === namespace.identity;
    return exists && !this.#signal.aborted;
  }

  #onActionRun(ms: number): void {
    this.#actionMs = ms;
    this.#counters.executed(ms);
  }

  /** Logs one line per evaluation. */
  #logResult(decision: string, error?: unknown): void {
    const { definition } = this.#evaluator;
    const fields = {
      decision,
      on_error: error === undefined ? undefined : definition.on_error,
      fault: reasonOf(error)?.kind,
      ...(error instanceof LlmError && error.response),
      error,
      reason: this.#signal.aborted ? this.#signal.reason : undefined,
      llm_ms: this.#llmMs === undefined ? undefined : roundMs(this.#llmMs),
      ...(this.#isCorrected !== undefined && { llm_calls: 2, validation: this.#isCorrected ? 'corrected' : 'failed' }),
      action_ms: this.#actionMs === undefined ? undefined : roundMs(this.#actionMs),
    };
    if (decision === 'busy') this.#log.warn('evaluator busy', { ...fields, on_error: undefined });
    else if (error !== undefined) this.#log.warn('evaluator failed', fields);
    else if (decision === 'cancelled') this.#log.info('evaluation canceled', fields);
    else this.#log.info('evaluator decided', fields);
  }
}

/** Builds the user prompt for a request. */
export async function userPromptOf(
  request: EvaluatedRequest,
  { registry, promptTools, conversations }: Pick<EvaluationOptions, 'registry' | 'promptTools' | 'conversations'>,
): Promise<string> {
  const { method, namespace, conversationId } = request;
  const conversation = conversationId === undefined ? [] : await conversations.latest(conversationId);
  const state = method === 'tools/list' ? registry.current.namespace(namespace) : undefined;
  const tools = state && (await promptTools.lines(visibleEntries(state, 'tool'), registry.slicer));
  return buildUserPrompt({ request, conversation, tools });
}

/** Why a run failed, in identifiers. */
function reasonOf(error: unknown): FailureReason | undefined {
  if (error instanceof LlmError) return { kind: error.fault, ...error.response };
  return error instanceof ActionFailure ? { kind: error.fault } : undefined;
}

/** Host functions of one run. */
class EvaluationHost extends RegistryView implements HostFunctions {
  readonly history: HostFunctions['history'];
  readonly #schema: CompiledSchema | undefined;
  readonly #budget: WaitBudget;
  readonly #log: TargetLogger;
  /** Set if a text could not be verified because there was no room: whatever the action decides is no verdict. */
  busy: BusyError | undefined = undefined;

  constructor(
    { registry, toolLists, interactions, otherConversations }: EvaluationOptions,
    { schema }: LoadedEvaluator,
    budget: WaitBudget,
    log: TargetLogger,
  ) {
    super({ registry, toolLists, log, namespace: budget.namespace });
    this.history = historyReader(interactions, otherConversations);
    this.#schema = schema;
    this.#budget = budget;
    this.#log = log;
  }

  async verify(raw: string, signal: AbortSignal): Promise<string | undefined> {
    const { namespace, user } = this.#budget;
    try {
      return await this.#schema?.validate(raw, signal, new WaitBudget(namespace, user, MAX_VERIFY_WAIT_MS));
    } catch (error) {
      if (!(error instanceof BusyError)) throw error;
      this.busy = error;
      return 'validation failed: there is no room';
    }
  }

  log(level: ActionLogLevel, message: string): void {
    this.#log[level](truncateBytes(message, MAX_LOG_BYTES), { from: 'action' });
  }
}
