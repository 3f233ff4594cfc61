import type { Attributes, HrTime, Link, SpanContext, SpanStatus, TraceState } from '@opentelemetry/api';
import type { InstrumentationScope } from '@opentelemetry/core';
import type { Resource } from '@opentelemetry/resources';
import type { ReadableSpan, SpanExporter, TimedEvent } from '@opentelemetry/sdk-trace';
import type { TraceSettings } from '../../app/config/environment.ts';
import type { TargetLogger } from '../log.ts';
import type { TraceContext } from './trace-context.ts';

const GRPC_METHOD = '/opentelemetry.proto.collector.trace.v1.TraceService/Export';

/** Traces, recorded and exported (OTLP). */
export interface Tracing {
  /** A span that goes on with the trace of `parent`, or begins one. */
  begin(start: SpanStart, parent: TraceContext | undefined): Span;
  /** Exports what has ended, for `graceMs` at most, and nothing from then on. Never rejects. */
  close(graceMs: number): Promise<void>;
}

/**
 * Starts exporting traces. OpenTelemetry's packages are loaded here and not before: who exports nothing does not pay for
 * them.
 */
export async function openTracing(settings: TraceSettings, log: TargetLogger): Promise<Tracing> {
  const [{ BatchSpanProcessor }, { Tracer }, { telemetryResource }, { reportingExporter }] = await Promise.all([
    import('@opentelemetry/sdk-trace'),
    import('./tracer.ts'),
    import('../telemetry-resource.ts'),
    import('./tracer.ts'),
  ]);
  const exporter = reportingExporter(await newExporter(settings), log);
  const processor = new BatchSpanProcessor({ ...settings.batch, exporter });
  const tracer = new Tracer(telemetryResource(), settings.sampler, processor);
  return {
    begin: (start, parent) => tracer.begin(start, parent),
    async close(graceMs) {
      const late = Promise.withResolvers<void>();
      const timer = setTimeout(late.resolve, graceMs);
      await Promise.race([processor.shutdown().catch(() => undefined), late.promise]);
      clearTimeout(timer);
    },
  };
}

/** Endpoint, headers, certificates, compression and time-out are read from the environment by the library itself. */
async function newExporter({ protocol }: TraceSettings): Promise<SpanExporter> {
  if (protocol === 'http/json') {
    const { OTLPTraceExporter } = await import('@opentelemetry/exporter-trace-otlp-http');
    return new OTLPTraceExporter();
  }
  const [{ OTLPExporterBase }, { TraceExporterMetricsHelper }, { SpanEncoder }] = await Promise.all([
    import('@opentelemetry/otlp-exporter-base'),
    import('@opentelemetry/otlp-transformer'),
    import('./otlp-span-encoder.ts'),
  ]);
  const encoder = new SpanEncoder();
  if (protocol === 'grpc') {
    const grpc = await import('@opentelemetry/otlp-grpc-exporter-base');
    const options = grpc.convertLegacyOtlpGrpcOptions({}, 'TRACES');
    const kind = 'otlp_grpc_span_exporter';
    const helper = TraceExporterMetricsHelper;
    return new OTLPExporterBase(
      grpc.createOtlpGrpcExportDelegate(options, encoder, kind, helper, undefined, 'TraceExportService', GRPC_METHOD),
    );
  }
  const http = await import('@opentelemetry/otlp-exporter-base/node-http');
  const options = http.convertLegacyHttpOptions({}, 'TRACES', 'v1/traces', {
    'Content-Type': 'application/x-protobuf',
  });
  const kind = 'otlp_http_span_exporter';
  return new OTLPExporterBase(
    http.createOtlpHttpExportDelegate(options, encoder, kind, TraceExporterMetricsHelper, undefined),
  );
}

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
  /** On the clock of `performance` (default: now). */
  readonly startedAt?: number;
}

const KIND = { internal: 0, server: 1, client: 2 } as const;
const UNSET: SpanStatus = { code: 0 };
const NONE: never[] = [];
const NO_ATTRIBUTES: Attributes = {};

/**
 * One piece of a trace: something that was asked of us, or that we asked of somebody.
 *
 * Handed to OpenTelemetry's processor and exporters as it is. Not made by the library's tracer: measured, one of its spans
 * costs 2.6 µs without being exported, and every call has two. What exporters want in another form is made when they ask.
 */
export class Span implements ReadableSpan {
  readonly #origin: SpanOrigin;
  readonly #parent: TraceContext | undefined;
  readonly #startedAt: number;
  #endedAt = 0;
  /** Where it stands: what it causes goes on from here. */
  readonly context: TraceContext;
  readonly kind: 0 | 1 | 2;
  name: string;
  /** Attributes that many spans have, all of one kind; not changed. */
  common: Attributes = NO_ATTRIBUTES;
  /** Its own attributes besides, of other names. */
  readonly own: Attributes = {};
  status: SpanStatus = UNSET;
  ended = false;
  readonly links: Link[] = NONE;
  readonly events: TimedEvent[] = NONE;
  readonly droppedAttributesCount = 0;
  readonly droppedEventsCount = 0;
  readonly droppedLinksCount = 0;

  /** `context`: its own. `parent`: undefined for the first of its trace. */
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

  get attributes(): Attributes {
    return { ...this.common, ...this.own };
  }

  get startTime(): HrTime {
    return timeAt(this.#startedAt);
  }

  get endTime(): HrTime {
    return timeAt(this.#endedAt);
  }

  get duration(): HrTime {
    return hrTime(this.#endedAt - this.#startedAt);
  }

  spanContext(): SpanContext {
    return spanContext(this.context);
  }

  get parentSpanContext(): SpanContext | undefined {
    // Requests come from others, and what they cause comes from them.
    return this.#parent && { ...spanContext(this.#parent), isRemote: this.kind === KIND.server };
  }

  /** Something that this causes. It is recorded when this is. */
  child(start: SpanStart): Span {
    const { traceId, sampled, state } = this.context;
    const context = { traceId, spanId: this.#origin.newSpanId(), sampled, state };
    return new Span(this.#origin, start, context, this.context);
  }

  /** Whether what it says is wanted at all. */
  get recorded(): boolean {
    return this.context.sampled;
  }

  /** What has ended with an error of this type, low in cardinality; `message` says more and repeats nobody's secrets. */
  failed(errorType: string, message?: string): void {
    if (this.ended) return;
    this.own['error.type'] = errorType;
    this.status = message === undefined ? { code: 2 } : { code: 2, message };
  }

  /** Ends it, once. */
  end(at: number = performance.now()): void {
    if (this.ended) return;
    this.ended = true;
    this.#endedAt = Math.max(at, this.#startedAt);
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

/** A reading of `performance` as time since the epoch. */
function timeAt(reading: number): HrTime {
  return hrTime(performance.timeOrigin + reading);
}

/** Milliseconds as seconds and nanoseconds. */
function hrTime(ms: number): HrTime {
  const seconds = Math.floor(ms / 1000);
  return [seconds, Math.floor((ms - seconds * 1000) * 1e6)];
}
