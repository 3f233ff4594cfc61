import type { IncomingHttpHeaders } from 'node:http';
import type { Attributes } from '@opentelemetry/api';
import { isJsonObject } from '@sluice/protocol/json/parse';
import type { Outcome, RequestContext } from '../http/context.ts';
import type { RecordedCompletion } from '../inference/recorder.ts';
import { AccessLog } from './access-log.ts';
import { redactedSubject, toldMethod } from './correlation.ts';
import type { Logger, LogTarget } from './log.ts';
import { serverAddress } from './metrics/instruments.ts';
import { MCP_METHODS, type RequestMetrics } from './metrics/request-metrics.ts';
import { CommonAttributes, completeSpan, completionSpan, serverSpan, subjectAttributes } from './request-spans.ts';
import { type TraceContext, traceContextOf } from './tracing/trace-context.ts';
import type { Span, Tracing } from './tracing/tracing.ts';

/** What is asked of whom. */
export interface UpstreamRequestInfo {
  /** A method of MCP, or the full name of one of gRPC. */
  readonly method: string;
  readonly protocol: 'mcp' | 'grpc';
  /** What it is about, under the name that the one who is asked has for it. */
  readonly subject: Subject | undefined;
  /** `host:port`. */
  readonly server: string;
}

/** What a tool that says itself that it failed is called (OpenTelemetry's conventions for MCP, `error.type`). */
export const TOOL_ERROR = 'tool_error';

const CODE = /^-?\d+$/;

/** One request of ours to somebody who carries out what a client has asked for: an upstream MCP server, a service. */
export class OutgoingCall {
  readonly #observation: RequestObservation;
  readonly #metrics: RequestMetrics;
  readonly #asked: UpstreamRequestInfo;
  readonly #subject: Subject | undefined;
  readonly #span: Span | undefined;
  readonly #startedAt = performance.now();
  #over = false;

  /** `observation`: of the request that it is for. */
  constructor(
    observation: RequestObservation,
    metrics: RequestMetrics,
    asked: UpstreamRequestInfo,
    attributes: CommonAttributes,
  ) {
    this.#observation = observation;
    this.#metrics = metrics;
    this.#asked = asked;
    const subject = asked.subject && redactedSubject(asked.subject);
    this.#subject = subject;
    const span = observation.span?.child({ name: nameOf(asked, subject), role: 'client' });
    if (span?.recorded) span.common = commonOf(asked, subject, attributes);
    this.#span = span;
  }

  /** Goes along, so that the other side goes on with the trace. */
  get trace(): TraceContext | undefined {
    return this.#span?.context;
  }

  /** It is over, once; `errorType` as OpenTelemetry's `error.type`, where it failed. */
  end(errorType?: string): void {
    if (this.#over) return;
    this.#over = true;
    if (errorType === TOOL_ERROR) this.#observation.failure = TOOL_ERROR;
    const now = performance.now();
    const { method, protocol, server } = this.#asked;
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
      // Of MCP only the code of a JSON-RPC error is a number.
      if (protocol === 'mcp' && CODE.test(errorType)) this.#span.own['rpc.response.status_code'] = errorType;
      this.#span.failed(errorType);
    }
    this.#span.end(now);
  }
}

function nameOf({ method, protocol }: UpstreamRequestInfo, subject: Subject | undefined): string {
  return protocol === 'mcp' && subject ? `${method} ${subject.name}` : toldMethod(method);
}

/** OpenTelemetry's conventions for MCP ("Client"), and for gRPC. */
function commonOf(
  { method, protocol, server }: UpstreamRequestInfo,
  subject: Subject | undefined,
  attributes: CommonAttributes,
): Attributes {
  // No two may have one key: of what clients make up none is remembered.
  const known = protocol === 'grpc' || MCP_METHODS.has(method);
  const key = known ? `${server} ${method} ${subject?.kind} ${subject?.name}` : undefined;
  return attributes.get(key, () => ({
    ...serverAddress(server),
    ...(protocol === 'mcp'
      ? { 'mcp.method.name': toldMethod(method), 'network.protocol.name': 'http' }
      : { 'rpc.system.name': 'grpc', 'rpc.method': method }),
    'network.transport': 'tcp',
    ...(subject && subjectAttributes(subject)),
  }));
}

/** Where what is seen of the requests of one listener goes. */
export interface ObservationParts {
  /** Its name. */
  readonly listener: string;
  readonly metrics: RequestMetrics;
  readonly accessLog: AccessLog;
  /** Undefined where no traces are exported. */
  readonly tracing: Tracing | undefined;
  readonly attributes: CommonAttributes;
}

/** What is known of a request before anything is looked at. */
export interface ObservedRequest {
  readonly method: string;
  /** With its query. */
  readonly target: string;
  readonly headers: IncomingHttpHeaders;
  readonly client: string | undefined;
  /** One message of a batch, which is a request of its own besides. */
  readonly inBatch: boolean;
}

/** How a JSON-RPC answer turned out, as far as the one who wrote it knows. */
export interface AnsweredWith {
  /** The code of the JSON-RPC error that it was; undefined for what was none. */
  readonly errorCode: number | undefined;
  /** What it said, where it was an error of ours. */
  readonly errorMessage: string | undefined;
}

/** What was done with a request: refused, carried out by somebody else, or answered here. */
export type Decision = 'refused' | 'forwarded' | 'answered';

/** What a request is about, once that is known to exist. */
export type Subject = { readonly kind: 'tool' | 'prompt'; readonly name: string };

/**
 * One request as an operator sees it: from its arrival to its end, with what was decided. Ends as a line of the access log,
 * in the metrics, and as the span of its trace. Part of the hot path: it keeps references, and makes text and objects of
 * them only for who wants them.
 */
export class RequestObservation {
  readonly startedAt: number = performance.now();
  readonly request: ObservedRequest;
  readonly #parts: ObservationParts;
  #span: Span | undefined = undefined;
  #refused = false;
  #continues = false;
  #subject: Subject | undefined = undefined;
  /** What filters find out about it; undefined as long as it has not got to them. */
  context: RequestContext | undefined = undefined;
  /** The filter that answered. */
  filter: string | undefined = undefined;
  /** Who carries the request out, where it is not us: `host:port`. */
  upstream: string | undefined = undefined;
  /** Why it failed although it was answered, low in cardinality: `tool_error`, or how an upstream broke off. */
  failure: string | undefined = undefined;
  /** Knows what became of it. */
  answer: AnsweredWith | undefined = undefined;

  constructor(parts: ObservationParts, request: ObservedRequest) {
    this.#parts = parts;
    this.request = request;
    if (!request.inBatch) parts.metrics.began(parts.listener);
  }

  /** What the request is about, where it is registered here; of a long name the beginning. */
  get subject(): Subject | undefined {
    return this.#subject;
  }

  set subject(subject: Subject | undefined) {
    this.#subject = subject && redactedSubject(subject);
  }

  /** One message of the batch that this request is. */
  member(): RequestObservation {
    return new RequestObservation(this.#parts, { ...this.request, inBatch: true });
  }

  /** What the chain came to. */
  decided(outcome: Outcome): void {
    this.#refused = outcome.kind === 'error' || (outcome.kind === 'plain' && outcome.status >= 400);
  }

  /** It did not get as far as the chain. */
  refused(): void {
    this.#refused = true;
  }

  /** It goes on with a call that somebody else has been carrying out. */
  continues(): void {
    this.#continues = true;
  }

  get decision(): Decision {
    if (this.upstream !== undefined || this.#continues) return 'forwarded';
    return this.#refused ? 'refused' : 'answered';
  }

  /**
   * The span of the request: what it causes are children of it. Undefined where no traces are exported, and for what is no
   * operation: a preflight, a stream that is opened, a message that cannot be read.
   */
  get span(): Span | undefined {
    const { tracing } = this.#parts;
    if (!tracing || this.#span) return this.#span;
    const start = serverSpan(this);
    if (!start) return undefined;
    const message = this.context?.message;
    const meta = message && 'params' in message ? message.params._meta : undefined;
    const parent = traceContextOf(this.request.headers, isJsonObject(meta) ? meta : undefined);
    this.#span = tracing.begin(start, parent);
    return this.#span;
  }

  /** Somebody else carries it out: what is to be told of that. */
  ask(asked: UpstreamRequestInfo): OutgoingCall {
    this.upstream = asked.server;
    return new OutgoingCall(this, this.#parts.metrics, asked, this.#parts.attributes);
  }

  /** It was answered with a completion, which was recorded; said when that is done, which may be after its end. */
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

  /** The answer has gone out, or its client has left. */
  end(status: number, completed: boolean): void {
    const { listener, metrics, accessLog } = this.#parts;
    const { request, subject, context } = this;
    const seconds = (performance.now() - this.startedAt) / 1000;
    const errorType = this.errorType(status);
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
        namespace: context?.namespace?.name,
        errorType,
        seconds,
      });
    }
    this.#endSpan(status, errorType);
    accessLog.write(this, status, seconds * 1000, completed);
    // What is asked of others may go on without its client, and is not to keep the request with it.
    this.context = undefined;
    this.answer = undefined;
  }

  /** Low in cardinality (OpenTelemetry's `error.type`); undefined where nothing failed. */
  errorType(status: number): string | undefined {
    const code = this.answer?.errorCode;
    if (code !== undefined) return String(code);
    return this.failure ?? (status >= 400 ? String(status) : undefined);
  }

  #endSpan(status: number, errorType: string | undefined): void {
    const { span } = this;
    if (!span) return;
    if (span.recorded) completeSpan(span, this, status, this.#parts.attributes);
    if (errorType !== undefined) span.failed(errorType);
    span.end();
  }
}

/** What the requests of all listeners are observed with. */
export interface RequestTelemetryParts {
  readonly metrics: RequestMetrics;
  readonly logger: Logger;
  readonly tracing: Tracing | undefined;
}

/** Sees the requests of one listener. */
export type ObserveRequest = (request: ObservedRequest) => RequestObservation;

/** What sees the requests of the listener of this name; its access log is at `target`, see {@link AccessLog}. */
export function observing(
  listener: string,
  target: LogTarget,
  { metrics, logger, tracing }: RequestTelemetryParts,
  probes?: ReadonlySet<string>,
): ObserveRequest {
  const parts: ObservationParts = {
    listener,
    metrics,
    tracing,
    attributes: new CommonAttributes(),
    accessLog: new AccessLog(logger.target(target), probes),
  };
  return (request) => new RequestObservation(parts, request);
}
