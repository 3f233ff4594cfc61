import type { DryRunInput, DryRunResult, Evaluator } from '@sluice/contract';
import { type MessageLimits, parseMessage } from '@sluice/protocol/mcp/message';
import { truncateBytes } from '@sluice/protocol/text';
import { OperationError } from '../registry/operation-error.ts';
import { roundMs } from '../telemetry/metrics/instruments.ts';
import { type EvaluatedRequest, evaluableRequest } from './context.ts';
import { type EvaluationOptions, userPromptOf } from './evaluation.ts';
import { EvaluatorSet, type LoadedEvaluator } from './evaluator-set.ts';
import { LlmError } from './llm/client.ts';
import { completeWithSchema } from './llm/completion.ts';
import { ConversationCache, historyReader } from './llm/history.ts';
import { PromptToolCache } from './llm/prompt.ts';
import { RegistryView, ToolListCache } from './registry-view.ts';
import { ActionFailure, type ActionLogLevel, type ActionRun, type HostFunctions } from './sandbox/action.ts';
import { MAX_RESIDENT_BYTES, MEMORY_CHECK_MS } from './sandbox/pool.ts';
import { readSandboxScripts } from './sandbox/sandbox-process.ts';
import { HOST_LIMITS, SandboxWorker } from './sandbox/sandbox-worker.ts';
import { applyResponse, failureOutcome } from './verdict.ts';

/** Log lines of an action that the result has, and bytes of each. */
const MAX_LOG_LINES = 200;
const MAX_LOG_BYTES = 4096;
/** Copies that the result has. */
const MAX_COPIES = 100;

/** Parts of the service that dry runs use. */
export interface DryRunOptions
  extends Pick<EvaluationOptions, 'llm' | 'registry' | 'interactions' | 'otherConversations'> {
  /** Validates an evaluator and loads its action, without storing anything. */
  readonly evaluators: { prepare(evaluator: Evaluator): Promise<LoadedEvaluator> };
  readonly limits: MessageLimits;
}

/**
 * Evaluates requests with evaluators that are not active, to show what they would do. One at a time, each in a host process of
 * its own. Nothing is enforced, stored or counted; copies of tools are not committed.
 */
export class DryRuns {
  readonly #options: DryRunOptions;
  #isRunning = false;

  constructor(options: DryRunOptions) {
    this.#options = options;
  }

  /**
   * Runs one evaluator. Throws {@link OperationError}: UNAVAILABLE while another dry run is in progress, BAD_REQUEST and
   * UNPROCESSABLE as for an update of the evaluators, and BAD_REQUEST for a request that cannot be evaluated.
   */
  async run(input: DryRunInput, signal: AbortSignal): Promise<DryRunResult> {
    if (this.#isRunning) throw new OperationError('UNAVAILABLE', 'a dry run is in progress; try again later');
    this.#isRunning = true;
    try {
      const evaluator = await this.#options.evaluators.prepare(input.evaluator);
      return await new Run(this.#options, evaluator, input, signal).result(await this.#requestOf(input));
    } finally {
      this.#isRunning = false;
    }
  }

  async #requestOf({ request }: DryRunInput): Promise<EvaluatedRequest> {
    const { method, params, namespace, conversation_id: conversationId } = request;
    const text = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    const message = parseMessage(Buffer.from(text), this.#options.limits);
    if (message.kind !== 'request') {
      const reason = message.kind === 'malformed' ? message.message : 'not a request';
      throw new OperationError('BAD_REQUEST', `invalid dry run: request ${reason}`);
    }
    const evaluable = await evaluableRequest(message, { namespace, conversationId }, this.#options.limits.members);
    if (typeof evaluable === 'string') throw new OperationError('BAD_REQUEST', evaluable);
    return evaluable;
  }
}

/** One dry run. */
class Run {
  readonly #options: DryRunOptions;
  readonly #evaluator: LoadedEvaluator;
  readonly #input: DryRunInput;
  readonly #signal: AbortSignal;
  #prompt = '';
  #llm: DryRunResult['llm'];
  #action: DryRunResult['action'];

  constructor(options: DryRunOptions, evaluator: LoadedEvaluator, input: DryRunInput, signal: AbortSignal) {
    this.#options = options;
    this.#evaluator = evaluator;
    this.#input = input;
    this.#signal = signal;
  }

  async result(request: EvaluatedRequest): Promise<DryRunResult> {
    const host = new DryRunHost(this.#options, this.#evaluator, request.namespace);
    const outcome = await this.#evaluate(request, host);
    return {
      ...outcome,
      matches: new EvaluatorSet(0, [this.#evaluator]).matching(request.method, request.namespace) !== undefined,
      prompt: this.#prompt,
      ...(this.#llm && { llm: this.#llm }),
      ...(this.#action && { action: this.#action }),
      log: host.lines,
      copies: host.copies
        .slice(0, MAX_COPIES)
        .map(({ tool, targetNamespace }) => ({ tool: tool.key, namespace: targetNamespace })),
    };
  }

  async #evaluate(request: EvaluatedRequest, host: DryRunHost): Promise<Outcome> {
    try {
      const llmResult = await this.#answer(request);
      return this.#outcomeOf(await this.#runAction({ ...request, llmResult }, host), request.method);
    } catch (error) {
      this.#signal.throwIfAborted();
      if (error instanceof LlmError) return this.#failure('llm_failure', error);
      if (error instanceof ActionFailure) return this.#failure('action_failure', error);
      throw error;
    }
  }

  #failure(verdict: 'llm_failure' | 'action_failure', error: Error): Outcome {
    const { name, on_error } = this.#evaluator.definition;
    const rejected = on_error === 'block';
    return {
      verdict,
      rejected,
      reason: error.message,
      ...(rejected && { error: { ...failureOutcome(name, verdict).error, data: { evaluator: name, kind: verdict } } }),
      ignored_responses: 0,
    };
  }

  #outcomeOf({ response, ignoredResponses }: ActionRun, method: string): Outcome {
    const { name } = this.#evaluator.definition;
    const input = { metadata: new Map([['mcp.method', method]]), selection: undefined };
    const warnings: string[] = [];
    const log = { warn: (message: string, fields?: object) => warnings.push(warningText(message, fields)) };
    const applied = applyResponse(response, name, input, log);
    const reason = response && 'reason' in response ? response.reason : warnings.join('; ');
    const rejection = applied.kind === 'reject' ? applied.outcome.error : undefined;
    return {
      verdict: applied.decision,
      rejected: rejection !== undefined,
      ...(reason !== '' && { reason }),
      ...(rejection && {
        error: { code: rejection.code, message: rejection.message, data: { evaluator: name, kind: applied.decision } },
      }),
      ...(response?.kind === 'filter_tools' && { tools: [...response.tools] }),
      ...(response?.kind === 'set_metadata' && { metadata: { [response.key]: response.value } }),
      ignored_responses: ignoredResponses,
    };
  }

  /** The answer of the request, or of the model. */
  async #answer(request: EvaluatedRequest): Promise<string> {
    const { llm, registry, interactions, otherConversations } = this.#options;
    const { connection, schema, definition } = this.#evaluator;
    const conversations = new ConversationCache(interactions, otherConversations);
    this.#prompt = await userPromptOf(request, { registry, conversations, promptTools: new PromptToolCache() });
    const { answer } = this.#input;
    const startedAt = performance.now();
    let calls = 0;
    const prompts = { systemPrompt: definition.llm.prompt, userPrompt: this.#prompt };
    const completion = { connection, ...prompts, schema, signal: this.#signal };
    const text = answer ?? (await completeWithSchema(llm, completion, { onCall: () => calls++ }));
    const durationMs = performance.now() - startedAt;
    const problem = await schema?.validate(text, this.#signal);
    this.#llm = {
      answer: text,
      calls,
      duration_ms: answer === undefined ? roundMs(durationMs) : 0,
      ...(problem !== undefined && { schema_error: problem }),
    };
    return text;
  }

  /** Runs the action in a process of its own, whose memory is limited as in the pool. */
  async #runAction(context: Parameters<SandboxWorker['run']>[1], functions: HostFunctions): Promise<ActionRun> {
    const { action } = this.#evaluator;
    const host = new SandboxWorker(readSandboxScripts(['host']), HOST_LIMITS, () => undefined);
    const onAbort = () => host.kill();
    this.#signal.addEventListener('abort', onAbort, { once: true });
    let memory = 0;
    const measure = () => {
      memory = Math.max(memory, host.residentBytes() ?? 0);
      if (memory > MAX_RESIDENT_BYTES) host.kill(new ActionFailure('memory', 'memory limit exceeded'));
    };
    const timer = setInterval(measure, MEMORY_CHECK_MS);
    let startedAt = performance.now();
    let fault: ActionFailure['fault'] | undefined;
    try {
      await host.load(action);
      startedAt = performance.now();
      return await host.run(action, context, functions);
    } catch (error) {
      fault = error instanceof ActionFailure ? error.fault : undefined;
      throw error;
    } finally {
      measure();
      clearInterval(timer);
      this.#action = {
        duration_ms: roundMs(performance.now() - startedAt),
        ...(memory > 0 && { memory_bytes: memory }),
        ...(fault !== undefined && { fault }),
      };
      this.#signal.removeEventListener('abort', onAbort);
      host.kill();
      await host.exited;
    }
  }
}

type Outcome = Pick<
  DryRunResult,
  'verdict' | 'rejected' | 'reason' | 'error' | 'tools' | 'metadata' | 'ignored_responses'
>;

/** The text of a warning about an action, or of the action's own. */
function warningText(message: string, fields: object = {}): string {
  const { message: own, problem } = Object.assign({ message: undefined, problem: undefined }, fields);
  return own ?? (problem === undefined ? message : `${message}: ${problem}`);
}

/** Host functions of a dry run, which collect the log instead of writing it. */
class DryRunHost extends RegistryView implements HostFunctions {
  readonly lines: DryRunResult['log'] = [];
  readonly history: HostFunctions['history'];
  readonly #schema: LoadedEvaluator['schema'];

  constructor(
    { registry, interactions, otherConversations }: DryRunOptions,
    { schema }: LoadedEvaluator,
    namespace: string,
  ) {
    super({ registry, toolLists: new ToolListCache(), namespace });
    this.history = historyReader(interactions, otherConversations);
    this.#schema = schema;
  }

  async verify(raw: string, signal: AbortSignal): Promise<string | undefined> {
    return await this.#schema?.validate(raw, signal);
  }

  log(level: ActionLogLevel, message: string): void {
    if (this.lines.length < MAX_LOG_LINES) this.lines.push({ level, message: truncateBytes(message, MAX_LOG_BYTES) });
  }
}
