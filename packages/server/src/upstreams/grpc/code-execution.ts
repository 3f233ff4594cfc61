import { setImmediate as nextTurn } from 'node:timers/promises';
import { serviceAddress } from '@sluice/contract';
import { progressTokenText, type RequestMessage } from '@sluice/protocol/mcp/message';
import type { Entry, ServiceEntry } from '../../registry/entries.ts';
import type { Registry } from '../../registry/registry.ts';
import type { CallObserver } from '../../telemetry/call-observer.ts';
import type { TargetLogger } from '../../telemetry/log.ts';
import {
  CANCELED,
  codeSummary,
  codeToolName,
  contentOfTexts,
  TIMEOUT,
  TOOL_ERROR,
  toolCallIdentity,
} from '../../telemetry/tool-calls/event.ts';
import type { ToolCallSink } from '../../telemetry/tool-calls/events.ts';
import type { ClientFacts } from '../client-facts.ts';
import type { ResponseSink } from '../response-sink.ts';
import { findCodeService, type GrpcChannels, type Protocols } from './channels.ts';
import { type CodeTarget, codeRequest, isCodeUri, parseCodeUri } from './code-request.ts';
import { BLOCK_CHARACTERS, toolResult } from './content-result.ts';
import type { CodeExecutionReply__Output } from './generated/codeexecution/CodeExecutionReply.ts';
import { ExecutionStatus, type ExecutionStatus__Output } from './generated/codeexecution/ExecutionStatus.ts';
import { type CallSettings, callStream } from './grpc-client.ts';
import { type GrpcOperation, type OperationContext, ServiceError } from './operation.ts';
import {
  ContentSize,
  describeUpstreamRequest,
  parseArguments,
  serviceRequestId,
  stringMember,
} from './tool-operation.ts';

/** State of an execution. */
export type ExecutionState = ExecutionStatus__Output;

/** Transitions of each state. The last four states are final. */
const TRANSITIONS: Readonly<Record<ExecutionState, readonly ExecutionState[]>> = {
  PENDING: ['RUNNING', 'FAILED', 'CANCELLED', 'TIMEOUT'],
  RUNNING: ['COMPLETED', 'FAILED', 'CANCELLED', 'TIMEOUT'],
  COMPLETED: [],
  FAILED: [],
  CANCELLED: [],
  TIMEOUT: [],
};

export const INITIAL_STATE: ExecutionState = ExecutionStatus.PENDING;

/**
 * States that an execution passes through on a status from its service: none if it is the current state, undefined if the
 * transition is invalid and the status is ignored.
 */
export function expandTransition(state: ExecutionState, status: ExecutionState): readonly ExecutionState[] | undefined {
  if (status === state) return [];
  if (TRANSITIONS[state].includes(status)) return [status];
  // A short execution may complete before its service reports RUNNING.
  if (state === 'PENDING' && status === 'COMPLETED') return ['RUNNING', 'COMPLETED'];
  return undefined;
}

/** True for final states that make the result an error. */
export function isFailureStatus(state: ExecutionState): boolean {
  return state === 'FAILED' || state === 'CANCELLED' || state === 'TIMEOUT';
}

/** Effect of a reply. */
export interface AppliedReply {
  /** Progress messages: the output of the reply as one, and the states reached. */
  readonly updates: readonly string[];
  /** True if its status is an invalid transition. */
  readonly statusIgnored: boolean;
}

/** One execution as reported by its service, reply by reply. */
export class CodeExecution {
  readonly #size: ContentSize;
  readonly #output: string[] = [];
  readonly #errors: string[] = [];
  #state = INITIAL_STATE;
  #exitCode = 0;
  #errorReply = false;

  /** `maxBytes` limits the output, as JSON. */
  constructor(maxBytes?: number) {
    this.#size = new ContentSize(maxBytes);
  }

  get state(): ExecutionState {
    return this.#state;
  }

  /** Contents of STDOUT and STDERR in order of arrival. */
  get output(): readonly string[] {
    return this.#output;
  }

  /** Reason of a failed execution, from its error replies if there are any; otherwise undefined. */
  get problem(): string | undefined {
    if (!this.#errorReply && !isFailureStatus(this.#state) && this.#exitCode === 0) return undefined;
    return this.#errors.join('\n') || `the execution ended as ${this.#state} with exit code ${this.#exitCode}`;
  }

  /** OpenTelemetry's `error.type` of a failed execution. */
  get errorType(): string {
    if (this.#state === 'TIMEOUT') return TIMEOUT;
    return this.#state === 'CANCELLED' ? CANCELED : TOOL_ERROR;
  }

  /** Applies the next reply. Throws ServiceError if the output becomes too large. */
  apply({ isError, content, outputType, status, exitCode }: CodeExecutionReply__Output): AppliedReply {
    const states = expandTransition(this.#state, status);
    this.#state = states?.at(-1) ?? this.#state;
    // An exit code belongs to the state of its reply. Without a transition, 0 does not reset it: it is also the default of
    // a reply without exit code.
    if (states && (states.length > 0 || exitCode !== 0)) this.#exitCode = exitCode;
    if (isError) this.#errorReply = true;
    this.#addContent(content, outputType === 'STDOUT' || outputType === 'STDERR', isError);
    const texts = content.filter((text) => text !== '');
    if (texts.length > 0) return { updates: [texts.join('\n')], statusIgnored: !states };
    return { updates: outputType === 'STATUS' && states ? states : [], statusIgnored: !states };
  }

  #addContent(content: readonly string[], isOutput: boolean, isError: boolean): void {
    for (const text of content) {
      // Content that is only sent as progress counts too.
      if (!this.#size.add(text)) {
        throw new ServiceError('UNKNOWN', `the execution was canceled: its output has ${this.#size.excess}`);
      }
      if (isOutput) this.#output.push(text);
      if (isError) this.#errors.push(text);
    }
  }
}

/**
 * Sends the output of code to its client as progress notifications, numbered from 1, with the output as message
 * (2025-11-25, "Progress"). Only for clients that request progress and accept event streams.
 */
export class CodeProgress {
  readonly #sink: ResponseSink;
  readonly #token: string | undefined;
  readonly #signal: AbortSignal;
  readonly #deadline: number;
  #count = 0;

  /**
   * `token` is JSON text, undefined if the client requests no progress; `signal` aborts when the client disconnects. After
   * `forMs` nothing is sent, and a slow client no longer delays the execution.
   */
  constructor(sink: ResponseSink, token: string | undefined, signal: AbortSignal, forMs: number) {
    this.#sink = sink;
    this.#token = token;
    this.#signal = signal;
    this.#deadline = performance.now() + forMs;
  }

  /** Sends one notification. Resolves when the client can receive the next one, so that nothing is buffered here. */
  async report(text: string): Promise<void> {
    if (this.#token === undefined || this.#signal.aborted || performance.now() >= this.#deadline) return;
    this.#count++;
    const params = `{"progressToken":${this.#token},"progress":${this.#count},"message":${JSON.stringify(text)}}`;
    const message = `{"jsonrpc":"2.0","method":"notifications/progress","params":${params}}`;
    const isWritable = this.#sink.sendMessage(message);
    if (!isWritable) await this.#drained();
  }

  #drained(): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.#signal.removeEventListener('abort', done);
        resolve();
      };
      const timer = setTimeout(done, this.#deadline - performance.now());
      this.#sink.onDrain(done);
      this.#signal.addEventListener('abort', done, { once: true });
    });
  }
}

export interface CodeToolsOptions {
  readonly registry: Pick<Registry, 'current'>;
  readonly protocols: Protocols;
  readonly channels: Pick<GrpcChannels, 'get'>;
  readonly settings: CallSettings;
  readonly toolCalls: ToolCallSink;
  readonly log: TargetLogger;
}

/** Time for which a stream may continue after the timeout of its code, in milliseconds. */
const DEADLINE_GRACE_MS = 5_000;

/** Output that is processed without yielding to the event loop: a few milliseconds. A reply costs as much as 2 Ki characters. */
const CHARACTERS_PER_TURN = 256 * 1024;
const REPLY_CHARACTERS = 2 * 1024;

/** One call that executes code. */
interface CodeRun {
  readonly message: RequestMessage;
  readonly tool: Entry;
  readonly requestId: string;
  readonly execution: CodeExecution;
  readonly observer: CallObserver;
}

/**
 * Tools that execute code in a capability service: those with the uri `code-execution-engine://{engine}/{language}` (4.10).
 * Failures become results with `isError`.
 */
export class CodeTools {
  readonly #options: CodeToolsOptions;

  constructor(options: CodeToolsOptions) {
    this.#options = options;
  }

  /** Returns a factory of the operation that executes the code; undefined for tools with another uri. */
  operation(client: ClientFacts, message: RequestMessage, tool: Entry): (() => GrpcOperation) | undefined {
    const uri = stringMember(tool.members, 'uri');
    return isCodeUri(uri) ? () => this.#createOperation(client, message, tool, parseCodeUri(uri)) : undefined;
  }

  #createOperation(
    client: ClientFacts,
    message: RequestMessage,
    tool: Entry,
    target: CodeTarget | undefined,
  ): GrpcOperation {
    const { registry, toolCalls } = this.#options;
    const service = target && findCodeService(registry.current.services, target.engine, target.language);
    const requestId = serviceRequestId(client.correlation.requestId);
    const observer = toolCalls.of(
      toolCallIdentity(client, tool, {
        transport: 'code',
        toolName: target && codeToolName(target.engine, target.language),
        serviceId: service?.name,
        serviceAddress: service && serviceAddress(service),
        serviceRequestId: service && requestId,
      }),
      client.facts,
    );
    const execution = new CodeExecution();
    return {
      name: tool.name,
      service,
      requestId,
      execute: async (context) => {
        const found = service ?? throwServiceNotFound(tool, target);
        await this.#processStream({ message, tool, requestId, execution, observer }, found, context);
        const { problem, output } = execution;
        if (problem === undefined) observer.completed(false, contentOfTexts(output));
        else observer.failed('EXECUTION_ERROR', problem, execution.errorType);
        // An error result needs a text.
        const content = problem !== undefined && output.length === 0 ? [problem] : output;
        return toolResult(client.era, content, problem !== undefined);
      },
      onFailure({ category, message, errorType }) {
        const { problem, output } = execution;
        // A failure of the code takes precedence over one of the stream.
        if (problem === undefined) observer.failed(category, message, errorType);
        else observer.failed('EXECUTION_ERROR', problem, execution.errorType);
        return toolResult(client.era, [...output, message], true);
      },
    };
  }

  /** Executes the code and processes its stream to the end. */
  async #processStream(
    call: CodeRun,
    service: ServiceEntry,
    { sink, clientDisconnected, signal }: OperationContext,
  ): Promise<void> {
    const { message, tool, requestId, execution, observer } = call;
    const { protocols, channels, settings, log } = this.#options;
    const { serviceSubType: engine = '', languageName: language = '' } = service;
    const request = codeRequest(tool, { engine, language }, parseArguments(message));
    observer.begin(codeSummary(Object.keys(request.arguments).length));
    const deadlineMs = request.timeout + DEADLINE_GRACE_MS;
    const progress = new CodeProgress(
      sink,
      sink.client.accepts.sse ? progressTokenText(message.text) : undefined,
      AbortSignal.any([signal, clientDisconnected]),
      deadlineMs,
    );
    const { ExecuteCode } = protocols.codeExecutor;
    const address = serviceAddress(service);
    const trace = observer.send(describeUpstreamRequest(ExecuteCode, tool, address));
    const replies = callStream(
      channels.get(address),
      ExecuteCode,
      request,
      { requestId, trace, signal },
      { ...settings, deadlineMs },
    );
    let isReported = false;
    let unyielded = 0;
    for await (const reply of replies) {
      const applied = execution.apply(reply);
      if (applied.statusIgnored && !isReported) {
        isReported = true;
        log.warn('invalid execution status ignored', {
          service: service.name,
          service_request_id: requestId,
          state: execution.state,
          status: reply.status,
        });
      }
      for (const update of applied.updates) await progress.report(update);
      unyielded += reply.content.reduce((sum, { length }) => sum + length + BLOCK_CHARACTERS, REPLY_CHARACTERS);
      if (unyielded < CHARACTERS_PER_TURN) continue;
      unyielded = 0;
      await nextTurn();
    }
  }
}

/** Throws for a tool without a service for its code; `target` is undefined if its uri is invalid. */
function throwServiceNotFound(tool: Entry, target: CodeTarget | undefined): never {
  if (target) {
    const { engine, language } = target;
    throw new ServiceError('SERVICE_UNAVAILABLE', `There is no code execution service for ${engine}/${language}`);
  }
  throw new ServiceError(
    'TOOL_DEFINITION_ERROR',
    `tool ${tool.name}: its uri must be code-execution-engine://{engine}/{language}`,
  );
}
