import { setImmediate as nextTurn } from 'node:timers/promises';
import { serviceAddress } from '@sluice/contract';
import type { Entry, ServiceEntry } from '../../registry/entries.ts';
import {
  CANCELED,
  codeSummary,
  codeToolName,
  contentOfTexts,
  TIMEOUT,
  TOOL_ERROR,
} from '../../telemetry/tool-calls/event.ts';
import { CallError, type OperationContext } from '../operation.ts';
import type { CallFailure } from '../response-sink.ts';
import { type CodeTarget, codeRequest } from './code-request.ts';
import { BLOCK_CHARACTERS, contentOutcome, toolResult } from './content-result.ts';
import type { CodeExecutionReply__Output } from './generated/codeexecution/CodeExecutionReply.ts';
import { ExecutionStatus, type ExecutionStatus__Output } from './generated/codeexecution/ExecutionStatus.ts';
import type { GrpcParts, ServiceExecutor } from './service-call.ts';
import { sendRequest } from './service-error.ts';
import { findCodeService } from './services.ts';
import { ContentSize, describeUpstreamRequest, parseArguments } from './tool-operation.ts';

/** State of an execution. */
export type ExecutionState = ExecutionStatus__Output;

/** Transitions of each state. Other states are final. */
const TRANSITIONS: Readonly<Partial<Record<ExecutionState, readonly ExecutionState[]>>> = {
  PENDING: ['RUNNING', 'FAILED', 'CANCELLED', 'TIMEOUT'],
  RUNNING: ['COMPLETED', 'FAILED', 'CANCELLED', 'TIMEOUT'],
};

export const INITIAL_STATE: ExecutionState = ExecutionStatus.PENDING;

/**
 * States that an execution passes through on a status from its service: none if it is the current state, undefined if the
 * transition is invalid and the status is ignored.
 */
export function expandTransition(state: ExecutionState, status: ExecutionState): readonly ExecutionState[] | undefined {
  if (status === state) return [];
  if (TRANSITIONS[state]?.includes(status)) return [status];
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

  /** Applies the next reply. Throws CallError if the output becomes too large. */
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
        throw new CallError('UNKNOWN', `the execution was canceled: its output has ${this.#size.excess}`);
      }
      if (isOutput) this.#output.push(text);
      if (isError) this.#errors.push(text);
    }
  }
}

/** Time for which a stream may continue after the timeout of its code, in milliseconds. */
const DEADLINE_GRACE_MS = 5_000;

/** Output that is processed without yielding to the event loop: a few milliseconds. A reply costs as much as 2 Ki characters. */
const CHARACTERS_PER_TURN = 256 * 1024;
const REPLY_CHARACTERS = 2 * 1024;

interface CodeRun {
  readonly request: ReturnType<typeof codeRequest>;
  readonly service: ServiceEntry;
  readonly requestId: string;
  readonly execution: CodeExecution;
}

/** Executes the code of a tool with the uri `code-execution-engine://{engine}/{language}`. Failures are results with `isError`. */
export function codeExecutor(parts: GrpcParts, tool: Entry, code: CodeTarget | undefined): ServiceExecutor {
  const { registry, log } = parts;
  const found = code && findCodeService(registry.current.services, code.engine, code.language);
  return {
    target: {
      transport: 'code',
      toolName: code && codeToolName(code.engine, code.language),
      service: found && { id: found.name, address: serviceAddress(found) },
    },
    call(permit, client, requestId) {
      const service = found ?? throwServiceNotFound(tool, code);
      const { serviceSubType: engine = '', languageName: language = '' } = service;
      const request = codeRequest(tool, { engine, language }, parseArguments(permit.message));
      const execution = new CodeExecution();
      return {
        request: describeUpstreamRequest('codeexecution.CodeExecutor/ExecuteCode', tool, serviceAddress(service)),
        summary: codeSummary(Object.keys(request.arguments).length),
        execute: (context) =>
          sendRequest({ name: tool.name, service, requestId }, { log, signal: context.signal }, async () => {
            await processStream(parts, { request, service, requestId, execution }, context);
            const failure = failureOf(execution);
            const { output } = execution;
            // An error result needs a text.
            const content = failure && output.length === 0 ? [failure.message] : output;
            const outcome = await contentOutcome(toolResult(client.era, content, failure !== undefined));
            return { ...outcome, report: failure ?? { isError: false, content: contentOfTexts(output) } };
          }),
        onFailure: ({ message }) => {
          const outcome = () => contentOutcome(toolResult(client.era, [...execution.output, message], true));
          const failure = failureOf(execution);
          // A failure of the code takes precedence over one of the stream.
          return failure ? { outcome, report: failure } : { outcome };
        },
      };
    },
  };
}

/** Executes the code and processes its stream to the end. */
async function processStream(
  { loadGrpc, settings, log }: GrpcParts,
  { request, service, requestId, execution }: CodeRun,
  { progress, trace, signal }: OperationContext,
): Promise<void> {
  const deadlineMs = request.timeout + DEADLINE_GRACE_MS;
  const report = progress(deadlineMs);
  const { channels, protocols, callStream } = await loadGrpc();
  const replies = callStream(
    channels.get(serviceAddress(service)),
    protocols.codeExecutor.ExecuteCode,
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
    for (const update of applied.updates) await report(update);
    unyielded += reply.content.reduce((sum, { length }) => sum + length + BLOCK_CHARACTERS, REPLY_CHARACTERS);
    if (unyielded < CHARACTERS_PER_TURN) continue;
    unyielded = 0;
    await nextTurn();
  }
}

/** What is recorded of code that has failed; undefined for other code. */
function failureOf({ problem, errorType }: CodeExecution): CallFailure | undefined {
  return problem === undefined ? undefined : { category: 'EXECUTION_ERROR', message: problem, errorType };
}

/** Throws for a tool without a service for its code; `target` is undefined if its uri is invalid. */
function throwServiceNotFound(tool: Entry, target: CodeTarget | undefined): never {
  if (target) {
    const { engine, language } = target;
    throw new CallError('SERVICE_UNAVAILABLE', `There is no code execution service for ${engine}/${language}`);
  }
  throw new CallError(
    'TOOL_DEFINITION_ERROR',
    `tool ${tool.name}: its uri must be code-execution-engine://{engine}/{language}`,
  );
}
