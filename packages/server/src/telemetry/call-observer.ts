import type { Attributes } from '@opentelemetry/api';
import type { ToolCallErrorCategory } from '@sluice/contract';
import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { truncateCharacters } from '@sluice/protocol/text';
import { z } from 'zod';
import type { EventTask, ExchangeFacts, ObservedCall } from '../exchange/facts.ts';
import { serverAddress } from './metrics/instruments.ts';
import type { RequestMetrics } from './metrics/request-metrics.ts';
import { boundedSubject, loggableMethod, type Subject } from './redaction.ts';
import { setSubjectAttributes, spanOf } from './request-spans.ts';
import {
  CANCELED,
  contentOfResult,
  type EventContent,
  type EventDetails,
  isErrorResult,
  type LastEventDetails,
  NO_CONTENT,
  outcomeOf,
  outcomeOfFailure,
  type RequestSummary,
  TOOL_ERROR,
  type ToolCallIdentity,
  type ToolCallRecord,
} from './tool-calls/event.ts';
import type { Span } from './tracing/span.ts';
import type { TraceContext } from './tracing/trace-context.ts';

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

/** Records the events of tool calls. */
export interface ToolCallRecorder {
  record(eventId: string, identity: ToolCallIdentity, details: EventDetails): ToolCallRecord;
}

/** Metrics of requests to upstreams. */
export type UpstreamMetrics = Pick<RequestMetrics, 'mcpClient' | 'rpcClient'>;

/** A tool call whose events are recorded. */
export interface ObservedToolCall {
  readonly eventId: string;
  readonly events: ToolCallRecorder;
  readonly identity: ToolCallIdentity;
  /** Start, in milliseconds since the Unix epoch, of a call whose STARTED event is already recorded. */
  readonly startedAt?: number;
}

/** What is stored of a call with the task that continues it, as far as its last event needs it. */
export const storedCall = z.object({
  toolType: z.string(),
  conversationId: z.string().optional(),
  requestId: z.string().optional(),
  via: z.literal('console').optional(),
  /** In milliseconds since the Unix epoch. */
  startedAt: z.number(),
  /** Context of the span of the request upstream; undefined if no traces are exported. */
  trace: z
    .object({ traceId: z.string(), spanId: z.string(), sampled: z.boolean(), state: z.string().optional() })
    .optional(),
});
/** See {@link storedCall}. */
export type StoredCall = Readonly<z.output<typeof storedCall>>;

const JSON_RPC_CODE = /^-?\d+$/;
const MAX_MESSAGE_CHARACTERS = 1000;

/**
 * Observes one call to an upstream MCP server or a capability service. The request upstream, between `send` and the end, is
 * reported to metrics and as a client span. A tool call has a STARTED event and one at its end; one that fails before its start
 * has only the FAILED event. Only the first end counts.
 */
export class CallObserver implements ObservedCall {
  readonly #facts: ExchangeFacts | undefined;
  readonly #metrics: UpstreamMetrics | undefined;
  readonly #tool: ObservedToolCall | undefined;
  #started: ToolCallRecord | undefined = undefined;
  /** `performance.now()` at the STARTED event. */
  #startedAt: number | undefined = undefined;
  #request: UpstreamRequestInfo | undefined = undefined;
  /** `performance.now()` when the request was sent. */
  #sentAt = 0;
  #span: Span | undefined = undefined;
  #ended = false;
  #last: ToolCallRecord | undefined = undefined;
  task: (() => EventTask) | undefined = undefined;

  /**
   * `facts` are those of the client's request; undefined for a call without one, whose request upstream is not reported. `tool`
   * for tool calls.
   */
  constructor(facts?: ExchangeFacts, metrics?: UpstreamMetrics, tool?: ObservedToolCall) {
    this.#facts = facts;
    this.#metrics = metrics;
    this.#tool = tool;
    if (tool?.startedAt !== undefined) this.#startedAt = tool.startedAt - performance.timeOrigin;
    if (facts && tool) facts.call = this;
  }

  /** Last event of the tool call of a request; undefined until that has ended, or a task continues it. */
  static lastEventOf({ call }: Pick<ExchangeFacts, 'call'>): ToolCallRecord | undefined {
    return call instanceof CallObserver ? call.#last : undefined;
  }

  /** Id of the events; undefined for a call without. */
  get eventId(): string | undefined {
    return this.#tool?.eventId;
  }

  /** Trace context of the request upstream; undefined before it is sent, and if no traces are exported. */
  get trace(): TraceContext | undefined {
    return this.#span?.context;
  }

  /** Called before the request is sent, at `now`. Returns {@link trace}. */
  send(request: UpstreamRequestInfo, now: number = performance.now()): TraceContext | undefined {
    const { method, protocol, subject: given, server } = request;
    const facts = this.#facts;
    if (!facts) return undefined;
    facts.upstream = server;
    const subject = given && boundedSubject(given);
    this.#request = { method, protocol, subject, server };
    this.#sentAt = now;
    const parent = spanOf(facts);
    if (!parent) return undefined;
    const name = protocol === 'mcp' && subject ? `${method} ${subject.name}` : loggableMethod(method);
    const span = parent.child({ name, role: 'client' });
    if (span.recorded) setClientAttributes(span.attributes, this.#request);
    this.#span = span;
    return span.context;
  }

  /** A tool call starts, at `now` (`performance.now()`). Ignored after the first time. */
  begin(summary: RequestSummary, now: number = performance.now()): void {
    if (!this.#tool || this.#ended || this.#startedAt !== undefined) return;
    this.#startedAt = now;
    const { events, eventId, identity } = this.#tool;
    this.#started = events.record(eventId, identity, { type: 'STARTED', summary });
  }

  /** The call as a task continues it; undefined for one without events. */
  get continued(): { readonly eventId: string; readonly call: StoredCall } | undefined {
    if (!this.#tool || !this.#started) return undefined;
    const { eventId, identity } = this.#tool;
    const { toolType, correlation } = identity;
    const { conversationId, requestId, via } = correlation;
    const trace = this.trace && { ...this.trace };
    return { eventId, call: { toolType, conversationId, requestId, via, startedAt: this.#started.at, trace } };
  }

  /** The request has ended, and a task continues the call: its last event follows at the end of the task. */
  continuedAsTask(): void {
    if (this.#ended) return;
    this.#end(undefined);
    this.#last = this.#started;
  }

  /** The upstream sent a JSON-RPC response. */
  responded({ result, error }: JsonObject): void {
    if (result !== undefined) {
      return this.completed(isErrorResult(result), this.#tool ? contentOfResult(result) : NO_CONTENT);
    }
    const { code, message }: JsonObject = isJsonObject(error) ? error : {};
    // Upstreams may send codes of any type and length.
    const errorType = typeof code === 'number' && Number.isInteger(code) ? String(code) : '_OTHER';
    this.failed('UNKNOWN', typeof message === 'string' ? message : 'an error without a message', errorType);
  }

  /** The call has a result; ignored for a tool call that has not started. `isError`: the tool reported a failure. */
  completed(isError: boolean, content: EventContent): void {
    if (this.#tool && this.#startedAt === undefined) return;
    const now = performance.now();
    const durationMs = now - (this.#startedAt ?? this.#sentAt);
    const details = { type: 'COMPLETED', durationMs, isError, content } as const;
    this.#end(details, isError ? TOOL_ERROR : undefined, now);
  }

  /**
   * The call has no usable result. The message is truncated to 1000 characters. `errorType` is OpenTelemetry's `error.type`.
   */
  failed(category: ToolCallErrorCategory, message: string, errorType: string = category): void {
    const durationMs = this.#startedAt === undefined ? 0 : performance.now() - this.#startedAt;
    const text = truncateCharacters(message, MAX_MESSAGE_CHARACTERS);
    const outcome = outcomeOfFailure(category, errorType);
    this.#end({ type: 'FAILED', durationMs, outcome, category, message: text }, errorType);
  }

  /** An evaluator rejected the call for this reason. */
  rejected(category: ToolCallErrorCategory, evaluator: string, reason: string): void {
    const message = truncateCharacters(reason, MAX_MESSAGE_CHARACTERS);
    const outcome = outcomeOfFailure(category, category);
    this.#end({ type: 'FAILED', durationMs: 0, outcome, category, message, evaluator }, category);
  }

  /** The client canceled the call, or disconnected. */
  canceled(reason: string): void {
    this.failed('UNKNOWN', reason, CANCELED);
  }

  /** Ends the call; without an event, a task continues it. `now`: `performance.now()`, if that was just read. */
  #end(lastEvent: LastEventDetails | undefined, errorType?: string, now: number = performance.now()): void {
    if (this.#ended) return;
    this.#ended = true;
    if (this.#facts) this.#facts.outcome = lastEvent ? outcomeOf(lastEvent) : 'completed';
    if (this.#request) this.#endRequest(this.#request, errorType, now);
    if (!this.#tool || !lastEvent) return;
    const { events, eventId, identity } = this.#tool;
    const task = this.task?.();
    this.#last = events.record(eventId, identity, task ? { ...lastEvent, task } : lastEvent);
  }

  #endRequest(
    { method, protocol, subject, server }: UpstreamRequestInfo,
    errorType: string | undefined,
    now: number,
  ): void {
    const facts = this.#facts;
    if (!facts) return;
    if (errorType === TOOL_ERROR) facts.failure = TOOL_ERROR;
    const seconds = (now - this.#sentAt) / 1000;
    if (protocol === 'grpc') this.#metrics?.rpcClient.record({ method, server, errorType, seconds });
    else this.#metrics?.mcpClient.record({ method, subject, server, errorType, seconds });
    const span = this.#span;
    if (!span) return;
    if (errorType !== undefined) {
      // The only error types of MCP that are numbers are JSON-RPC codes.
      if (protocol === 'mcp' && JSON_RPC_CODE.test(errorType)) span.attributes['rpc.response.status_code'] = errorType;
      span.failed(errorType);
    }
    span.end(now);
  }
}

/** Sets attributes by OpenTelemetry's conventions for MCP ("Client") and for gRPC. */
function setClientAttributes(attributes: Attributes, { method, protocol, subject, server }: UpstreamRequestInfo): void {
  if (protocol === 'mcp') {
    attributes['mcp.method.name'] = loggableMethod(method);
    attributes['network.protocol.name'] = 'http';
  } else {
    attributes['rpc.system.name'] = 'grpc';
    attributes['rpc.method'] = method;
  }
  attributes['network.transport'] = 'tcp';
  Object.assign(attributes, serverAddress(server));
  if (subject) setSubjectAttributes(attributes, subject);
}
