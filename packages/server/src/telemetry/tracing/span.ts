import type { Attributes, HrTime, Link, SpanContext, SpanStatus, TraceState } from '@opentelemetry/api';
import { type InstrumentationScope, millisToHrTime } from '@opentelemetry/core';
import type { Resource } from '@opentelemetry/resources';
import type { ReadableSpan, TimedEvent } from '@opentelemetry/sdk-trace';
import type { TraceContext } from './trace-context.ts';

/** Kinds of spans: internal work, an incoming request, or an outgoing request. */
const KIND = { internal: 0, server: 1, client: 2 } as const;

/** Shared by all spans of the process. */
export interface SpanOrigin {
  readonly resource: Resource;
  readonly instrumentationScope: InstrumentationScope;
  newSpanId(): string;
  /** Called when a sampled span has ended. */
  ended(span: Span): void;
}

/** Start of a span. */
export interface SpanStart {
  readonly name: string;
  readonly role: keyof typeof KIND;
  /** `performance.now()` at the start (default: now). */
  readonly startedAt?: number;
}

const UNSET: SpanStatus = { code: 0 };
const NONE: never[] = [];

/**
 * A span, passed to OpenTelemetry's processor and exporters. It is not created by the library's tracer, whose spans take
 * 2.6 µs each without export (measured); every call has two. Other representations are created when an exporter reads them.
 */
export class Span implements ReadableSpan {
  readonly #origin: SpanOrigin;
  readonly #parent: TraceContext | undefined;
  readonly #startedAt: number;
  #endedAt = 0;
  /** Context for child spans and upstream requests. */
  readonly context: TraceContext;
  readonly kind: 0 | 1 | 2;
  name: string;
  readonly attributes: Attributes = {};
  status: SpanStatus = UNSET;
  ended = false;
  readonly links: Link[] = NONE;
  readonly events: TimedEvent[] = NONE;
  readonly droppedAttributesCount = 0;
  readonly droppedEventsCount = 0;
  readonly droppedLinksCount = 0;

  /** `parent` is undefined for the root span of a trace. */
  constructor(origin: SpanOrigin, start: SpanStart, context: TraceContext, parent: TraceContext | undefined) {
    this.#origin = origin;
    this.#parent = parent;
    this.#startedAt = start.startedAt ?? performance.now();
    this.context = context;
    this.kind = KIND[start.role];
    this.name = start.name;
  }

  get resource(): Resource {
    return this.#origin.resource;
  }

  get instrumentationScope(): InstrumentationScope {
    return this.#origin.instrumentationScope;
  }

  get startTime(): HrTime {
    return timeAt(this.#startedAt);
  }

  get endTime(): HrTime {
    return timeAt(this.#endedAt);
  }

  get duration(): HrTime {
    return millisToHrTime(this.#endedAt - this.#startedAt);
  }

  spanContext(): SpanContext {
    return spanContext(this.context);
  }

  get parentSpanContext(): SpanContext | undefined {
    // The parents of server spans are remote, those of other spans are local.
    return this.#parent && { ...spanContext(this.#parent), isRemote: this.kind === KIND.server };
  }

  /** Starts a child span, which is recorded if this span is. */
  child(start: SpanStart): Span {
    const { traceId, sampled, state } = this.context;
    const context = { traceId, spanId: this.#origin.newSpanId(), sampled, state };
    return new Span(this.#origin, start, context, this.context);
  }

  /** Whether the span is sampled. */
  get recorded(): boolean {
    return this.context.sampled;
  }

  /** Sets the status to error. `errorType` has low cardinality; `message` must not contain secrets. */
  failed(errorType: string, message?: string): void {
    if (this.ended) return;
    this.attributes['error.type'] = errorType;
    this.status = message === undefined ? { code: 2 } : { code: 2, message };
  }

  /** Ends the span; further calls are ignored. */
  end(at: number = performance.now()): void {
    if (this.ended) return;
    this.ended = true;
    this.#endedAt = Math.max(at, this.#startedAt);
    if (this.context.sampled) this.#origin.ended(this);
  }
}

function spanContext({ traceId, spanId, sampled, state }: TraceContext): SpanContext {
  const context = { traceId, spanId, traceFlags: sampled ? 1 : 0 };
  return state === undefined ? context : { ...context, traceState: opaqueTraceState(state) };
}

/** Wraps the trace state of other systems, which is exported unread. */
function opaqueTraceState(text: string): TraceState {
  const state = { serialize: () => text, get: () => undefined, set: () => state, unset: () => state };
  return state;
}

/** Converts `performance.now()` to time since the epoch. */
function timeAt(reading: number): HrTime {
  return millisToHrTime(performance.timeOrigin + reading);
}
