import type { ToolCallOutcome } from '@sluice/contract';
import { isJsonObject } from '@sluice/protocol/json/parse';
import { type Correlation, correlationOf } from '../exchange/correlation.ts';
import type { RequestHead } from '../exchange/head.ts';
import { ANONYMOUS, type Principal } from '../identity/principal.ts';
import { AccessLog } from './access-log.ts';
import type { Logger, LogTarget } from './log.ts';
import { CLIENT_CLOSED_REQUEST, type RequestMetrics, type UpDownCounter } from './metrics/request-metrics.ts';
import type { Subject } from './redaction.ts';
import type { Decision, ObservedContext, ObservedResponse, PolicyRejection, RequestRecord } from './request-record.ts';
import { completeServerSpan, completionSpan, type RecordedCompletion, serverSpan } from './request-spans.ts';
import {
  type CallOrigin,
  type EventTask,
  NO_EVALUATIONS,
  type PassedEvaluation,
  type ToolCallRecord,
} from './tool-calls/event.ts';
import type { Span } from './tracing/span.ts';
import { traceContextOf } from './tracing/trace-context.ts';
import type { Tracing } from './tracing/tracing.ts';

/** Shared by the observations of one listener. */
export interface ObservationParts {
  /** Name of the listener. */
  readonly listener: string;
  readonly metrics: RequestMetrics;
  readonly accessLog: AccessLog;
  /** Undefined if no traces are exported. */
  readonly tracing: Tracing | undefined;
}

/**
 * Telemetry of one request, from its arrival to its end: access log line, metrics and span. Part of the hot path: only
 * references are stored; text and objects are created for outputs that are enabled.
 */
export class RequestObservation implements RequestRecord {
  readonly startedAt: number = performance.now();
  readonly head: RequestHead;
  readonly correlation: Correlation;
  /** Set by the server once the request is authenticated; requests that it rejects before have none. */
  principal: Principal = ANONYMOUS;
  /** State that filters set; undefined until the request reaches the chain. */
  context: ObservedContext | undefined = undefined;
  /** The request was rejected. */
  rejected = false;
  filter: string | undefined = undefined;
  upstream: string | undefined = undefined;
  failure: string | undefined = undefined;
  outcome: ToolCallOutcome | undefined = undefined;
  answer: ObservedResponse | undefined = undefined;
  toolCall: ToolCallRecord | undefined = undefined;
  /** Id of the events of the tool call that the request has made. */
  eventId: string | undefined = undefined;
  /** Set once the call has become a task: returns what its last event says about that. */
  task: (() => EventTask) | undefined = undefined;
  policyRejection: PolicyRejection | undefined = undefined;
  /** Evaluations that the request has passed; a new list for each. */
  evaluations: readonly PassedEvaluation[] = NO_EVALUATIONS;
  subject: Subject | undefined = undefined;
  /** Set for a request to an MCP endpoint that is not on an MCP listener: its headers are not copied upstream. */
  via: CallOrigin | undefined = undefined;
  /** The request resumes a call that is already in flight upstream. */
  resumesCall = false;
  readonly parts: ObservationParts;
  /** Undefined for a message of a batch. */
  readonly #active: UpDownCounter | undefined;
  #span: Span | undefined = undefined;

  constructor(parts: ObservationParts, head: RequestHead, correlation: Correlation = correlationOf(head.headers)) {
    this.parts = parts;
    this.head = head;
    this.correlation = correlation;
    this.#active = head.inBatch ? undefined : parts.metrics.activeRequests(parts.listener);
    if (this.#active) this.#active.value++;
  }

  /** Creates the observation of one message of the batch that this request is. */
  member(): RequestObservation {
    const member = new RequestObservation(this.parts, { ...this.head, inBatch: true }, this.correlation);
    member.principal = this.principal;
    member.via = this.via;
    return member;
  }

  get decision(): Decision {
    if (this.upstream !== undefined || this.resumesCall) return 'forwarded';
    return this.rejected ? 'refused' : 'answered';
  }

  /**
   * The span of the request, created on first use. Undefined if no traces are exported, and for requests without a span: a
   * preflight request, a stream that is opened, a body that cannot be parsed.
   */
  get span(): Span | undefined {
    const { tracing } = this.parts;
    if (!tracing || this.#span) return this.#span;
    const start = serverSpan(this);
    if (!start) return undefined;
    const message = this.context?.message;
    const meta = message && 'params' in message ? message.params._meta : undefined;
    this.#span = tracing.begin(start, traceContextOf(this.head.headers, isJsonObject(meta) ? meta : undefined));
    return this.#span;
  }

  get traceId(): string | undefined {
    return this.parts.tracing && this.span?.context.traceId;
  }

  /** Records the completion in the response, possibly after {@link end}. */
  completed(completion: RecordedCompletion): void {
    const { span, upstream: server = '' } = this;
    const { requestModel, responseModel, inputTokens, outputTokens, statusCode, endedAt } = completion;
    const inResponse = this.failure ?? completion.errorType;
    const errorType = statusCode === 0 ? 'cancelled' : statusCode >= 400 ? String(statusCode) : inResponse;
    const seconds = (endedAt - this.startedAt) / 1000;
    this.parts.metrics.completion({
      operation: 'chat',
      requestModel,
      responseModel,
      inputTokens,
      outputTokens,
      errorType,
      seconds,
      server,
    });
    if (!span) return;
    const child = completionSpan(this, span, completion);
    if (errorType !== undefined) child.failed(errorType);
    child.end(endedAt);
  }

  /** Ends the observation: the response is complete, or the client has disconnected (`completed` is false). */
  end(status: number, completed: boolean): void {
    const { listener, metrics, accessLog, tracing } = this.parts;
    const { head, context, subject } = this;
    const seconds = (performance.now() - this.startedAt) / 1000;
    const code = this.answer?.errorCode;
    const errorType =
      code === undefined ? (this.failure ?? (status >= 400 ? String(status) : undefined)) : String(code);
    const outcome = this.outcome ?? outcomeOfRequest(status, errorType);
    this.outcome = outcome;
    if (this.#active) {
      this.#active.value--;
      metrics.http({ listener, method: head.method, status, seconds });
    }
    const message = context?.message;
    if (message && message.kind !== 'response') {
      metrics.mcpServer({
        method: message.method,
        subject,
        namespace: context.namespace?.name,
        errorType,
        outcome,
        seconds,
      });
    }
    const span = tracing && this.span;
    if (span) {
      if (span.recorded) completeServerSpan(span, this, status);
      if (errorType !== undefined) span.failed(errorType);
      span.end();
    }
    accessLog.write(this, status, seconds * 1000, completed);
    // An upstream request may outlive this one; it must not retain the client's request.
    this.context = undefined;
    this.answer = undefined;
  }
}

/** The outcome of a request that was neither rejected by an evaluator nor sent upstream. */
function outcomeOfRequest(status: number, errorType: string | undefined): ToolCallOutcome {
  if (status === CLIENT_CLOSED_REQUEST) return 'canceled';
  return errorType === undefined ? 'completed' : 'failed';
}

/** Shared by the listeners. */
export interface RequestTelemetryParts {
  readonly metrics: RequestMetrics;
  readonly logger: Logger;
  readonly tracing: Tracing | undefined;
}

/** Starts the observation of a request of one listener. */
export type ObserveRequest = (head: RequestHead) => RequestObservation;

/** Creates the observer of a listener. The access log is written to `target`; for `probes` see {@link AccessLog}. */
export function requestObserver(
  listener: string,
  target: LogTarget,
  { metrics, logger, tracing }: RequestTelemetryParts,
  probes?: ReadonlySet<string>,
): ObserveRequest {
  const parts: ObservationParts = {
    listener,
    metrics,
    tracing,
    accessLog: new AccessLog(logger.lines(target), probes),
  };
  return (head) => new RequestObservation(parts, head);
}
