import { serviceAddress } from '@sluice/contract';
import { readsStreams } from '@sluice/protocol/mcp/era';
import { progressTokenText, type RequestMessage } from '@sluice/protocol/mcp/message';
import type { Caller } from '../forwards/relay.ts';
import type { Entry, ServiceEntry } from '../registry/entries.ts';
import { type OutgoingCall, TOOL_ERROR } from '../telemetry/requests/outgoing-call.ts';
import { contentOfTexts } from '../telemetry/tool-calls/event-content.ts';
import { codeSummary } from '../telemetry/tool-calls/request-summary.ts';
import { codeToolName, toolCallIdentity } from '../telemetry/tool-calls/tool-call-identity.ts';
import type { ToolCallReport } from '../telemetry/tool-calls/tool-call-report.ts';
import type { TraceContext } from '../telemetry/tracing/trace-context.ts';
import { textIn } from './as-text.ts';
import { asked } from './asked.ts';
import type { BridgeOptions } from './bridge.ts';
import type { BridgedSides, BridgedWork } from './bridged-call.ts';
import { argumentsOf } from './call-arguments.ts';
import { CodeExecution } from './code-execution.ts';
import { CodeProgress } from './code-progress.ts';
import { codeRequest } from './code-request.ts';
import { callStream, GRACE_MS } from './code-stream.ts';
import { type CodeTarget, codeTarget, isCodeUri } from './code-uri.ts';
import { serviceRequestId } from './request-id.ts';
import { serviceOfCode } from './resolution.ts';
import { ServiceError } from './service-error.ts';
import { toolResult } from './tool-result.ts';

/** One call that has code executed. */
interface CodeCall {
  readonly caller: Caller;
  readonly message: RequestMessage;
  readonly tool: Entry;
  readonly requestId: string;
  readonly execution: CodeExecution;
  readonly report: ToolCallReport;
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
  work(caller: Caller, message: RequestMessage, tool: Entry): (() => BridgedWork) | undefined {
    const uri = textIn(tool.members, 'uri');
    return isCodeUri(uri) ? () => this.#work(caller, message, tool, codeTarget(uri)) : undefined;
  }

  #work(caller: Caller, message: RequestMessage, tool: Entry, target: CodeTarget | undefined): BridgedWork {
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
  async #follow(call: CodeCall, service: ServiceEntry, { client, left, signal }: BridgedSides): Promise<void> {
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
