import type { Attributes, HrTime, Link, SpanContext, SpanStatus, TraceState } from '@opentelemetry/api';
import type { InstrumentationScope } from '@opentelemetry/core';
import type { Resource } from '@opentelemetry/resources';
import type { ReadableSpan, TimedEvent } from '@opentelemetry/sdk-trace';
import type { TraceContext } from './trace-context.ts';

/** What a span is of: a request that came in, one that goes out, or work in between. */
export type SpanRole = 'server' | 'client' | 'internal';

/** What all spans of a process share. */
export interface SpanOrigin {
  readonly resource: Resource;
  readonly instrumentationScope: InstrumentationScope;
  newSpanId(): string;
  /** Takes a span that has ended and is recorded. */
  ended(span: Span): void;
}

/** A span that is to begin. */
export interface SpanStart {
  readonly name: string;
  readonly role: SpanRole;
  readonly attributes: Attributes;
  /** On the clock of `performance` (default: now). */
  readonly startedAt?: number;
}

const KIND = { internal: 0, server: 1, client: 2 } as const;
const UNSET: SpanStatus = { code: 0 };
const NONE: never[] = [];

/**
 * One piece of a trace: something that was asked of us, or that we asked of somebody.
 *
 * Handed to OpenTelemetry's processor and exporters as it is. Not made by the library's tracer: measured, one of its spans
 * costs 2.6 µs without being exported, and one of these 0.1 µs; every call has two.
 */
export class Span implements ReadableSpan {
  readonly #origin: SpanOrigin;
  readonly #startedAt: number;
  /** Where it stands: what it causes goes on from here. */
  readonly context: TraceContext;
  readonly #context: SpanContext;
  readonly parentSpanContext?: SpanContext;
  readonly kind: 0 | 1 | 2;
  readonly attributes: Attributes;
  readonly startTime: HrTime;
  readonly links: Link[] = NONE;
  readonly events: TimedEvent[] = NONE;
  readonly droppedAttributesCount = 0;
  readonly droppedEventsCount = 0;
  readonly droppedLinksCount = 0;
  name: string;
  status: SpanStatus = UNSET;
  endTime: HrTime = [0, 0];
  duration: HrTime = [0, 0];
  ended = false;

  /** `context`: its own. `parent`: undefined for the first of its trace. */
  constructor(origin: SpanOrigin, start: SpanStart, context: TraceContext, parent: TraceContext | undefined) {
    this.#origin = origin;
    this.context = context;
    this.#context = spanContext(context);
    if (parent) this.parentSpanContext = { ...spanContext(parent), isRemote: start.role === 'server' };
    this.name = start.name;
    this.kind = KIND[start.role];
    this.attributes = start.attributes;
    this.#startedAt = start.startedAt ?? performance.now();
    this.startTime = timeAt(this.#startedAt);
  }

  get resource(): Resource {
    return this.#origin.resource;
  }

  get instrumentationScope(): InstrumentationScope {
    return this.#origin.instrumentationScope;
  }

  spanContext(): SpanContext {
    return this.#context;
  }

  /** Something that this causes. It is recorded when this is. */
  child(start: SpanStart): Span {
    const { traceId, sampled, state } = this.context;
    const context = { traceId, spanId: this.#origin.newSpanId(), sampled, state };
    return new Span(this.#origin, start, context, this.context);
  }

  /** What has ended with an error of this type, low in cardinality; `message` says more and repeats nobody's secrets. */
  failed(errorType: string, message?: string): void {
    if (this.ended) return;
    this.attributes['error.type'] = errorType;
    this.status = message === undefined ? { code: 2 } : { code: 2, message };
  }

  /** Ends it, once. */
  end(at: number = performance.now()): void {
    if (this.ended) return;
    this.ended = true;
    this.endTime = timeAt(at);
    this.duration = difference(at - this.#startedAt);
    if (this.context.sampled) this.#origin.ended(this);
  }
}

function spanContext({ traceId, spanId, sampled, state }: TraceContext): SpanContext {
  const context = { traceId, spanId, traceFlags: sampled ? 1 : 0 };
  return state === undefined ? context : { ...context, traceState: new PassedState(state) };
}

/** The state of others, which we pass on and do not read. */
class PassedState implements TraceState {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  serialize(): string {
    return this.#text;
  }

  get(): undefined {
    return undefined;
  }

  set(): TraceState {
    return this;
  }

  unset(): TraceState {
    return this;
  }
}

/** A reading of `performance` as time since the epoch: seconds and nanoseconds. */
function timeAt(reading: number): HrTime {
  return difference(performance.timeOrigin + reading);
}

function difference(ms: number): HrTime {
  const positive = Math.max(ms, 0);
  const seconds = Math.floor(positive / 1000);
  return [seconds, Math.floor((positive - seconds * 1000) * 1e6)];
}
