import { serviceAddress } from '@sluice/contract';
import type { CallAnswer } from '../answer/call-answer.ts';
import type { Caller } from '../forwards/relay.ts';
import { readsStreams } from '../mcp/accept.ts';
import type { RequestMessage } from '../mcp/message.ts';
import { progressTokenText } from '../mcp/params-text.ts';
import type { Entry, ServiceEntry } from '../registry/entries.ts';
import type { Services } from '../registry/services.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import { textIn } from './arguments.ts';
import { type BridgedAnswer, type BridgedWork, whyEnded } from './bridged-call.ts';
import type { BridgedCalls } from './bridged-calls.ts';
import { argumentsOf } from './call-arguments.ts';
import type { Channels } from './channels.ts';
import { CodeExecution } from './code-execution.ts';
import { CodeProgress } from './code-progress.ts';
import { codeRequest } from './code-request.ts';
import type { CodeStep, WatchCode } from './code-steps.ts';
import { callStream, GRACE_MS } from './code-stream.ts';
import { codeTarget, isCodeUri } from './code-uri.ts';
import type { Protocols } from './protocols.ts';
import { requestIdOf } from './request-id.ts';
import { serviceOfCode } from './resolution.ts';
import { ServiceError } from './service-error.ts';
import { toolResult } from './tool-result.ts';
import type { CallSettings } from './unary.ts';
import { toServiceError } from './unavailable.ts';

/** What {@link CodeTools} works with. */
export interface CodeToolsOptions {
  /** Those that are registered now. */
  readonly services: () => Services;
  readonly protocols: Pick<Protocols, 'codeExecutor'>;
  readonly channels: Pick<Channels, 'to'>;
  readonly calls: Pick<BridgedCalls, 'begin'>;
  readonly settings: Pick<CallSettings, 'maxRetries' | 'retryDelayMs'>;
  readonly log: TargetLogger;
  /** Is told of each call; nobody when absent. */
  readonly watch?: WatchCode | undefined;
  /** How long a stream may go on after the code's own timeout, in milliseconds. */
  readonly graceMs?: number | undefined;
}

/** An outcome that answers as the execution goes on. */
interface CodeOutcome {
  readonly kind: 'stream';
  start(client: CallAnswer): void;
}

/** One call on its way. */
interface CodeCall {
  readonly caller: Caller;
  readonly tool: Entry;
  readonly message: RequestMessage;
  readonly requestId: string;
  readonly client: CallAnswer;
  readonly signal: AbortSignal;
  /** The client has left, which need not end the call. */
  readonly left: AbortSignal;
  readonly report: (step: CodeStep) => void;
}

/**
 * Tools that have a capability service execute code: those of the uri `code-execution-engine://{engine}/{language}`
 * (decisions 4.7 "Dispatch" 1, 4.10). What goes wrong becomes a result with `isError`.
 */
export class CodeTools {
  readonly #options: CodeToolsOptions;

  constructor(options: CodeToolsOptions) {
    this.#options = options;
  }

  /** The outcome that has the code executed; undefined for tools of another uri. */
  call(caller: Caller, message: RequestMessage, tool: Entry): CodeOutcome | undefined {
    const uri = textIn(tool.members, 'uri');
    if (!isCodeUri(uri)) return undefined;
    const { calls, watch } = this.#options;
    const start = (client: CallAnswer): void => {
      const requestId = requestIdOf(caller.headers);
      const report = watch?.({ caller, tool, target: codeTarget(uri), requestId }) ?? (() => undefined);
      const left = new AbortController();
      const work: BridgedWork = (signal) =>
        this.#execute({ caller, tool, message, requestId, client, signal, left: left.signal, report });
      calls.begin(caller, client, work, () => left.abort());
    };
    return { kind: 'stream', start };
  }

  async #execute(call: CodeCall): Promise<BridgedAnswer> {
    const { caller, tool, signal, report } = call;
    const execution = new CodeExecution();
    let service: ServiceEntry | undefined;
    const answer = (text: string | undefined): BridgedAnswer => {
      const content = text === undefined ? execution.output : [...execution.output, text];
      return {
        kind: 'result',
        json: toolResult(caller.era, content, execution.problem !== undefined || text !== undefined),
      };
    };
    try {
      service = this.#serviceOf(tool);
      await this.#follow(call, service, execution);
    } catch (error) {
      const failed = signal.aborted ? ended(signal, error) : toFailure(error, service);
      // What the code did wrong is told first, whatever became of the stream then.
      const { problem } = execution;
      if (problem === undefined) report({ kind: 'failed', category: failed.category, message: failed.message });
      else report({ kind: 'failed', category: 'EXECUTION_ERROR', message: problem });
      return answer(failed.message);
    }
    const { problem, output } = execution;
    if (problem === undefined) report({ kind: 'completed', content: output });
    else report({ kind: 'failed', category: 'EXECUTION_ERROR', message: problem });
    // A result that is an error says something.
    return answer(output.length === 0 ? problem : undefined);
  }

  /** Has the service execute the code, and follows it to the end of its stream. */
  async #follow(call: CodeCall, service: ServiceEntry, execution: CodeExecution): Promise<void> {
    const { caller, tool, message, requestId, client, signal, left, report } = call;
    const { protocols, channels, settings, log, graceMs = GRACE_MS } = this.#options;
    const { serviceSubType: engine = '', languageName: language = '' } = service;
    const request = codeRequest(tool, { engine, language }, argumentsOf(message));
    report({ kind: 'started', service, argumentCount: Object.keys(request.arguments).length });
    const progress = new CodeProgress(
      client,
      readsStreams(caller.headers.accept) ? progressTokenText(message.text) : undefined,
      AbortSignal.any([signal, left]),
    );
    const replies = callStream(
      channels.to(serviceAddress(service)),
      protocols.codeExecutor.ExecuteCode,
      request,
      { requestId, signal },
      { ...settings, deadlineMs: request.timeout + graceMs },
    );
    let ignored = false;
    for await (const reply of replies) {
      const taken = execution.take(reply);
      if (taken.ignored && !ignored) {
        ignored = true;
        log.warn(`service ${service.name} named a status that an execution cannot come to; it is ignored`, {
          x_request_id: requestId,
          state: execution.state,
          status: reply.status,
        });
      }
      for (const news of taken.news) await progress.tell(news);
    }
  }

  #serviceOf(tool: Entry): ServiceEntry {
    const target = codeTarget(textIn(tool.members, 'uri'));
    if (!target) {
      throw new ServiceError(
        'TOOL_DEFINITION_ERROR',
        `tool ${tool.name}: its uri must be code-execution-engine://{engine}/{language}`,
      );
    }
    const { engine, language } = target;
    const service = serviceOfCode(this.#options.services(), engine, language);
    if (service) return service;
    throw new ServiceError('SERVICE_UNAVAILABLE', `There is no code execution service for ${engine}/${language}`);
  }
}

function toFailure(error: unknown, service: ServiceEntry | undefined): ServiceError {
  if (error instanceof ServiceError) return error;
  return service ? toServiceError(error, service) : new ServiceError('UNKNOWN', 'internal error', { cause: error });
}

/** Nothing is wrong with the service: nobody waits any more. */
function ended(signal: AbortSignal, cause: unknown): ServiceError {
  return new ServiceError('UNKNOWN', whyEnded(signal), { cause });
}
