import type { Attributes } from '@opentelemetry/api';
import { isJsonObject } from '@sluice/protocol/json/parse';
import { AccessLog } from './access-log.ts';
import { type CallerIdentity, callerOf } from './caller.ts';
import type { Logger, LogTarget } from './log.ts';
import { serverAddress } from './metrics/instruments.ts';
import { MCP_METHODS, type RequestMetrics } from './metrics/request-metrics.ts';
import { boundedSubject, loggableMethod, type Subject } from './redaction.ts';
import type { Decision, ObservedContext, ObservedRequest, ObservedResponse, RequestRecord } from './request-record.ts';
import {
  AttributeCache,
  completeServerSpan,
  completionSpan,
  type RecordedCompletion,
  serverSpan,
  subjectAttributes,
} from './request-spans.ts';
import type { ToolCallRecord } from './tool-calls/event.ts';
import type { Span } from './tracing/span.ts';
import { type TraceContext, traceContextOf } from './tracing/trace-context.ts';
import type { Tracing } from './tracing/tracing.ts';

/** Shared by the observations of one listener. */
export interface ObservationParts {
  /** Name of the listener. */
  readonly listener: string;
  readonly metrics: RequestMetrics;
  readonly accessLog: AccessLog;
  /** Undefined if no traces are exported. */
  readonly tracing: Tracing | undefined;
  readonly attributes: AttributeCache;
}

/**
 * Telemetry of one request, from its arrival to its end: access log line, metrics and span. Part of the hot path: only
 * references are stored; text and objects are created for outputs that are enabled.
 */
export class RequestObservation implements RequestRecord {
  readonly startedAt: number = performance.now();
  readonly request: ObservedRequest;
  readonly caller: CallerIdentity;
  /** State that filters set; undefined until the request reaches the chain. */
  context: ObservedContext | undefined = undefined;
  /** The request was rejected. */
  rejected = false;
  filter: string | undefined = undefined;
  upstream: string | undefined = undefined;
  failure: string | undefined = undefined;
  answer: ObservedResponse | undefined = undefined;
  toolCall: ToolCallRecord | undefined = undefined;
  readonly #parts: ObservationParts;
  #span: Span | undefined = undefined;
  #resumesCall = false;
  #subject: Subject | undefined = undefined;

  constructor(parts: ObservationParts, request: ObservedRequest, caller: CallerIdentity = callerOf(request.headers)) {
    this.#parts = parts;
    this.request = request;
    this.caller = caller;
    if (!request.inBatch) parts.metrics.began(parts.listener);
  }

  get subject(): Subject | undefined {
    return this.#subject;
  }

  set subject(subject: Subject | undefined) {
    this.#subject = subject && boundedSubject(subject);
  }

  /** Creates the observation of one message of the batch that this request is. */
  member(): RequestObservation {
    return new RequestObservation(this.#parts, { ...this.request, inBatch: true }, this.caller);
  }

  /** Records that the request resumes a call that is already in flight upstream. */
  continues(): void {
    this.#resumesCall = true;
  }

  get decision(): Decision {
    if (this.upstream !== undefined || this.#resumesCall) return 'forwarded';
    return this.rejected ? 'refused' : 'answered';
  }

  /**
   * The span of the request, created on first use. Undefined if no traces are exported, and for requests without a span: a
   * preflight request, a stream that is opened, a body that cannot be parsed.
   */
  get span(): Span | undefined {
    const { tracing } = this.#parts;
    if (!tracing || this.#span) return this.#span;
    const start = serverSpan(this);
    if (!start) return undefined;
    const message = this.context?.message;
    const meta = message && 'params' in message ? message.params._meta : undefined;
    this.#span = tracing.begin(start, traceContextOf(this.request.headers, isJsonObject(meta) ? meta : undefined));
    return this.#span;
  }

  get traceId(): string | undefined {
    return this.span?.context.traceId;
  }

  /** Starts the telemetry of an upstream request on behalf of this one. */
  ask(request: UpstreamRequestInfo): OutgoingCall {
    this.upstream = request.server;
    return new OutgoingCall(this, this.#parts, request);
  }

  /** Records the completion that the request was answered with, possibly after {@link end}. */
  completed(completion: RecordedCompletion): void {
    const { span, upstream: server = '' } = this;
    const { requestModel, responseModel, inputTokens, outputTokens, statusCode, endedAt } = completion;
    const errorType = statusCode === 0 ? 'cancelled' : statusCode >= 400 ? String(statusCode) : this.failure;
    const seconds = (endedAt - this.startedAt) / 1000;
    this.#parts.metrics.completion({
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
    const { listener, metrics, accessLog, tracing, attributes } = this.#parts;
    const { request, context } = this;
    const subject = this.#subject;
    const seconds = (performance.now() - this.startedAt) / 1000;
    const code = this.answer?.errorCode;
    const errorType =
      code === undefined ? (this.failure ?? (status >= 400 ? String(status) : undefined)) : String(code);
    if (!request.inBatch) {
      metrics.ended(listener);
      metrics.http({ listener, method: request.method, status, seconds });
    }
    const message = context?.message;
    if (message && message.kind !== 'response') {
      metrics.mcpServer({
        method: message.method,
        tool: subject?.kind === 'tool' ? subject.name : undefined,
        prompt: subject?.kind === 'prompt' ? subject.name : undefined,
        namespace: context.namespace?.name,
        errorType,
        seconds,
      });
    }
    const span = tracing && this.span;
    if (span) {
      if (span.recorded) completeServerSpan(span, this, status, attributes);
      if (errorType !== undefined) span.failed(errorType);
      span.end();
    }
    accessLog.write(this, status, seconds * 1000, completed);
    // An upstream request may outlive this one; it must not keep the client's request in memory.
    this.context = undefined;
    this.answer = undefined;
  }
}

/** An upstream request on behalf of a client. */
export interface UpstreamRequestInfo {
  /** MCP method, or full name of a gRPC method. */
  readonly method: string;
  readonly protocol: 'mcp' | 'grpc';
  /** Tool or prompt under its name at the upstream. */
  readonly subject: Subject | undefined;
  /** `host:port`. */
  readonly server: string;
}

/** Error type of a tool result with `isError` (OpenTelemetry's conventions for MCP, `error.type`). */
export const TOOL_ERROR = 'tool_error';

const JSON_RPC_CODE = /^-?\d+$/;

/** Telemetry of one request to an upstream MCP server or a capability service. */
export class OutgoingCall {
  readonly #observation: RequestObservation;
  readonly #metrics: RequestMetrics;
  readonly #request: UpstreamRequestInfo;
  readonly #subject: Subject | undefined;
  readonly #span: Span | undefined;
  readonly #startedAt = performance.now();
  #ended = false;

  constructor(
    observation: RequestObservation,
    { metrics, tracing, attributes }: ObservationParts,
    request: UpstreamRequestInfo,
  ) {
    this.#observation = observation;
    this.#metrics = metrics;
    this.#request = request;
    const subject = request.subject && boundedSubject(request.subject);
    this.#subject = subject;
    const parent = tracing && observation.span;
    this.#span = parent?.child({ name: spanName(request, subject), role: 'client' });
    if (this.#span?.recorded) this.#span.common = clientAttributes(request, subject, attributes);
  }

  /** Trace context for the upstream; undefined if no traces are exported. */
  get trace(): TraceContext | undefined {
    return this.#span?.context;
  }

  /** Ends the request; further calls are ignored. `errorType` is OpenTelemetry's `error.type` of a failure. */
  end(errorType?: string): void {
    if (this.#ended) return;
    this.#ended = true;
    if (errorType === TOOL_ERROR) this.#observation.failure = TOOL_ERROR;
    const now = performance.now();
    const { method, protocol, server } = this.#request;
    const subject = this.#subject;
    const seconds = (now - this.#startedAt) / 1000;
    if (protocol === 'grpc') this.#metrics.rpcClient({ method, server, errorType, seconds });
    else {
      this.#metrics.mcpClient({
        method,
        tool: subject?.kind === 'tool' ? subject.name : undefined,
        prompt: subject?.kind === 'prompt' ? subject.name : undefined,
        server,
        errorType,
        seconds,
      });
    }
    if (!this.#span) return;
    if (errorType !== undefined) {
      // The only error types of MCP that are numbers are JSON-RPC codes.
      if (protocol === 'mcp' && JSON_RPC_CODE.test(errorType)) this.#span.own['rpc.response.status_code'] = errorType;
      this.#span.failed(errorType);
    }
    this.#span.end(now);
  }
}

function spanName({ method, protocol }: UpstreamRequestInfo, subject: Subject | undefined): string {
  return protocol === 'mcp' && subject ? `${method} ${subject.name}` : loggableMethod(method);
}

/** Attributes by OpenTelemetry's conventions for MCP ("Client") and for gRPC. */
function clientAttributes(
  { method, protocol, server }: UpstreamRequestInfo,
  subject: Subject | undefined,
  cache: AttributeCache,
): Attributes {
  // Keys must be unique; attributes with values that clients make up are not cached.
  const cacheable = protocol === 'grpc' || MCP_METHODS.has(method);
  const key = cacheable ? `${server} ${method} ${subject?.kind} ${subject?.name}` : undefined;
  return cache.get(key, () => ({
    ...serverAddress(server),
    ...(protocol === 'mcp'
      ? { 'mcp.method.name': loggableMethod(method), 'network.protocol.name': 'http' }
      : { 'rpc.system.name': 'grpc', 'rpc.method': method }),
    'network.transport': 'tcp',
    ...(subject && subjectAttributes(subject)),
  }));
}

/** Shared by the listeners. */
export interface RequestTelemetryParts {
  readonly metrics: RequestMetrics;
  readonly logger: Logger;
  readonly tracing: Tracing | undefined;
}

/** Starts the observation of a request of one listener. */
export type ObserveRequest = (request: ObservedRequest) => RequestObservation;

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
    attributes: new AttributeCache(),
    accessLog: new AccessLog(logger.target(target), probes),
  };
  return (request) => new RequestObservation(parts, request);
}
