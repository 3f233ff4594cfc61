import { serviceAddress } from '@sluice/contract';
import { readsStreams } from '@sluice/protocol/mcp/era';
import { progressTokenText, type RequestMessage } from '@sluice/protocol/mcp/message';
import type { Entry, ServiceEntry } from '../../registry/entries.ts';
import { type OutgoingCall, TOOL_ERROR } from '../../telemetry/request-telemetry.ts';
import {
  codeSummary,
  codeToolName,
  contentOfTexts,
  type ToolCallReporter,
  toolCallIdentity,
} from '../../telemetry/tool-calls/report.ts';
import type { TraceContext } from '../../telemetry/tracing/trace-context.ts';
import type { CallResponse } from '../downstream.ts';
import type { Caller } from '../mcp/relay/relay.ts';
import type { BridgeOptions } from './bridge.ts';
import { type GrpcOperation, type OperationContext, ServiceError } from './call.ts';
import { serviceOfCode } from './channel.ts';
import { type CodeTarget, callStream, codeRequest, codeTarget, GRACE_MS, isCodeUri } from './code-request.ts';
import type { CodeExecutionReply__Output } from './generated/codeexecution/CodeExecutionReply.ts';
import { ExecutionStatus, type ExecutionStatus__Output } from './generated/codeexecution/ExecutionStatus.ts';
import { AnswerSize, argumentsOf, asked, serviceRequestId, textIn, toolResult } from './tools.ts';

/** How far an execution is (specification, "Enumerations"; decisions 3). */
export type ExecutionState = ExecutionStatus__Output;

/** What each state may become. The last four are ends. */
const MAY_BECOME: Readonly<Record<ExecutionState, readonly ExecutionState[]>> = {
  PENDING: ['RUNNING', 'FAILED', 'CANCELLED', 'TIMEOUT'],
  RUNNING: ['COMPLETED', 'FAILED', 'CANCELLED', 'TIMEOUT'],
  COMPLETED: [],
  FAILED: [],
  CANCELLED: [],
  TIMEOUT: [],
};

/** Every execution begins here. */
export const INITIAL_STATE: ExecutionState = ExecutionStatus.PENDING;

/**
 * The states that an execution goes through when its service names this status: none when that is the state it is in
 * already, and undefined when it cannot become that, so that the status does not count (decisions 3).
 */
export function expandTransition(state: ExecutionState, status: ExecutionState): readonly ExecutionState[] | undefined {
  if (status === state) return [];
  if (MAY_BECOME[state].includes(status)) return [status];
  // Quick ones are over before their service says that they run.
  if (state === 'PENDING' && status === 'COMPLETED') return ['RUNNING', 'COMPLETED'];
  return undefined;
}

/** True for the ends that make the call's result an error (decisions 4.10, "Code result"). */
export function isFailureStatus(state: ExecutionState): boolean {
  return state === 'FAILED' || state === 'CANCELLED' || state === 'TIMEOUT';
}

/** What a reply brought. */
export interface TakenReply {
  /** To be told to a client that follows the execution: output, all of a reply at once, and states as they are reached. */
  readonly news: readonly string[];
  /** True when its status contradicts the state, and so did not count. */
  readonly ignored: boolean;
}

/** One execution as its service reports it, reply by reply (decisions 3, 4.10 "Code result"). */
export class CodeExecution {
  readonly #size: AnswerSize;
  readonly #output: string[] = [];
  readonly #errors: string[] = [];
  #state = INITIAL_STATE;
  #exitCode = 0;
  #errorReply = false;

  /** `maxBytes` is for what it puts out, as JSON. */
  constructor(maxBytes?: number) {
    this.#size = new AnswerSize(maxBytes);
  }

  get state(): ExecutionState {
    return this.#state;
  }

  /** Contents of STDOUT and STDERR in the order in which they came. */
  get output(): readonly string[] {
    return this.#output;
  }

  /** What is wrong with the execution, in a sentence or in the words of its error replies; undefined when nothing is. */
  get problem(): string | undefined {
    if (!this.#errorReply && !isFailureStatus(this.#state) && this.#exitCode === 0) return undefined;
    return this.#errors.join('\n') || `the execution ended as ${this.#state} with exit code ${this.#exitCode}`;
  }

  /** Takes the next reply. Throws ServiceError when the output becomes larger than can be held. */
  take({ isError, content, outputType, status, exitCode }: CodeExecutionReply__Output): TakenReply {
    const states = expandTransition(this.#state, status);
    this.#state = states?.at(-1) ?? this.#state;
    // An exit code belongs to the state that it came with. Where that stays, a 0 takes none back: it is also what a reply
    // has that says nothing of it.
    if (states && (states.length > 0 || exitCode !== 0)) this.#exitCode = exitCode;
    if (isError) this.#errorReply = true;
    this.#keep(content, outputType === 'STDOUT' || outputType === 'STDERR', isError);
    const told = content.filter((text) => text !== '');
    if (told.length > 0) return { news: [told.join('\n')], ignored: !states };
    return { news: outputType === 'STATUS' && states ? states : [], ignored: !states };
  }

  #keep(content: readonly string[], isOutput: boolean, isError: boolean): void {
    for (const text of content) {
      // What is told and not kept counts too: the client is sent it.
      if (!this.#size.add(text)) {
        throw new ServiceError('UNKNOWN', `the execution was ended: it put out ${this.#size.excess}`);
      }
      if (isOutput) this.#output.push(text);
      if (isError) this.#errors.push(text);
    }
  }
}

/**
 * Tells a client what its code puts out as it comes, as progress notifications: numbered from 1, the output as the
 * message (2025-11-25, "Progress"). Only for clients that asked for progress and read event streams.
 */
export class CodeProgress {
  readonly #client: CallResponse;
  readonly #token: string | undefined;
  readonly #signal: AbortSignal;
  readonly #until: number;
  #told = 0;

  /**
   * `token` is JSON text, undefined when the client wants no progress; `signal` says that nobody reads any more. After
   * `forMs` nothing is told, and the client not waited for: the code's time is over, however slowly its output is read.
   */
  constructor(client: CallResponse, token: string | undefined, signal: AbortSignal, forMs: number) {
    this.#client = client;
    this.#token = token;
    this.#signal = signal;
    this.#until = performance.now() + forMs;
  }

  /** Sends one notification. Resolves when the client can take the next one: what it does not read yet is not held here. */
  async tell(message: string): Promise<void> {
    if (this.#token === undefined || this.#signal.aborted || performance.now() >= this.#until) return;
    if (!this.#client.streaming) this.#client.beginStream();
    this.#told++;
    const params = `{"progressToken":${this.#token},"progress":${this.#told},"message":${JSON.stringify(message)}}`;
    const room = this.#client.event(`{"jsonrpc":"2.0","method":"notifications/progress","params":${params}}`);
    if (!room) await this.#drained();
  }

  #drained(): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.#signal.removeEventListener('abort', done);
        resolve();
      };
      const timer = setTimeout(done, this.#until - performance.now());
      this.#client.onDrain(done);
      this.#signal.addEventListener('abort', done, { once: true });
    });
  }
}

/** One call that has code executed. */
interface CodeCall {
  readonly caller: Caller;
  readonly message: RequestMessage;
  readonly tool: Entry;
  readonly requestId: string;
  readonly execution: CodeExecution;
  readonly report: ToolCallReporter;
  /** To be called when it is sent; where it then stands in a trace. */
  readonly ask: (service: ServiceEntry) => TraceContext | undefined;
}

/**
 * Tools that have a capability service execute code: those of the uri `code-execution-engine://{engine}/{language}`
 * (decisions 4.7 "Dispatch" 1, 4.10). What goes wrong becomes a result with `isError`.
 */
export class CodeTools {
  readonly #options: BridgeOptions;

  constructor(options: BridgeOptions) {
    this.#options = options;
  }

  /** Makes the work that has the code executed; undefined for tools of another uri. */
  work(caller: Caller, message: RequestMessage, tool: Entry): (() => GrpcOperation) | undefined {
    const uri = textIn(tool.members, 'uri');
    return isCodeUri(uri) ? () => this.#work(caller, message, tool, codeTarget(uri)) : undefined;
  }

  #work(caller: Caller, message: RequestMessage, tool: Entry, target: CodeTarget | undefined): GrpcOperation {
    const { registry, protocols, toolCalls } = this.#options;
    const service = target && serviceOfCode(registry.current.services, target.engine, target.language);
    const requestId = serviceRequestId(caller.correlation.requestId);
    const report = toolCalls.of(
      toolCallIdentity(caller, tool, {
        transport: 'code',
        toolName: target && codeToolName(target.engine, target.language),
        serviceId: service?.name,
        serviceAddress: service && serviceAddress(service),
        serviceRequestId: service && requestId,
      }),
    );
    const { ExecuteCode } = protocols.codeExecutor;
    let outgoing: OutgoingCall | undefined;
    const ask = (found: ServiceEntry) => {
      outgoing = caller.observation?.ask(asked(ExecuteCode, tool, serviceAddress(found)));
      return outgoing?.trace;
    };
    const execution = new CodeExecution();
    return {
      name: tool.name,
      service,
      requestId,
      carryOut: async (sides) => {
        const found = service ?? missing(tool, target);
        await this.#follow({ caller, message, tool, requestId, execution, report, ask }, found, sides);
        const { problem, output } = execution;
        if (problem === undefined) report.completed(false, contentOfTexts(output));
        else report.failed('EXECUTION_ERROR', problem);
        outgoing?.end(problem === undefined ? undefined : TOOL_ERROR);
        // A result that is an error says something.
        const content = problem !== undefined && output.length === 0 ? [problem] : output;
        return toolResult(caller.era, content, problem !== undefined);
      },
      failed({ category, message: why }) {
        const { problem, output } = execution;
        outgoing?.end(problem === undefined ? category : TOOL_ERROR);
        // What the code did wrong is told first, whatever became of the stream then.
        if (problem === undefined) report.failed(category, why);
        else report.failed('EXECUTION_ERROR', problem);
        return toolResult(caller.era, [...output, why], true);
      },
    };
  }

  /** Has the service execute the code, and follows it to the end of its stream. */
  async #follow(call: CodeCall, service: ServiceEntry, { client, left, signal }: OperationContext): Promise<void> {
    const { caller, message, tool, requestId, execution, report, ask } = call;
    const { protocols, channels, settings, log } = this.#options;
    const { serviceSubType: engine = '', languageName: language = '' } = service;
    const request = codeRequest(tool, { engine, language }, argumentsOf(message));
    report.begin(codeSummary(Object.keys(request.arguments).length));
    const deadlineMs = request.timeout + GRACE_MS;
    const progress = new CodeProgress(
      client,
      readsStreams(caller.headers.accept) ? progressTokenText(message.text) : undefined,
      AbortSignal.any([signal, left]),
      deadlineMs,
    );
    const replies = callStream(
      channels.to(serviceAddress(service)),
      protocols.codeExecutor.ExecuteCode,
      request,
      { requestId, trace: ask(service), signal },
      { ...settings, deadlineMs },
    );
    let ignored = false;
    for await (const reply of replies) {
      const taken = execution.take(reply);
      if (taken.ignored && !ignored) {
        ignored = true;
        log.warn(`service ${service.name} named a status that an execution cannot come to; it is ignored`, {
          service_request_id: requestId,
          state: execution.state,
          status: reply.status,
        });
      }
      for (const news of taken.news) await progress.tell(news);
    }
  }
}

/** Throws what is said where no service executes the tool's code; `target` is undefined where its uri names none. */
function missing(tool: Entry, target: CodeTarget | undefined): never {
  if (target) {
    const { engine, language } = target;
    throw new ServiceError('SERVICE_UNAVAILABLE', `There is no code execution service for ${engine}/${language}`);
  }
  throw new ServiceError(
    'TOOL_DEFINITION_ERROR',
    `tool ${tool.name}: its uri must be code-execution-engine://{engine}/{language}`,
  );
}
