/**
 * Export of traces (OTLP). Imports OpenTelemetry's packages: to be imported only if traces are exported, so that they cost
 * nothing otherwise.
 */

import { ROOT_CONTEXT, SamplingDecision } from '@opentelemetry/api';
import type { Resource } from '@opentelemetry/resources';
import {
  BatchSpanProcessor,
  RandomIdGenerator,
  type SpanExporter,
  type SpanProcessor,
  TraceIdRatioBasedSampler,
} from '@opentelemetry/sdk-trace';
import { withTimeout } from '@sluice/protocol/timing';
import type { TargetLogger } from '../log.ts';
import {
  createExporter,
  logOutages,
  type ProxyFor,
  type SamplerSettings,
  type TraceSettings,
  telemetryResource,
} from '../otlp.ts';
import { exportedSpan } from './exported-span.ts';
import { Span, type SpanOrigin, type SpanStart } from './span.ts';
import type { TraceContext } from './trace-context.ts';

/** Starts exporting traces. */
export async function openTracing(settings: TraceSettings, log: TargetLogger, proxyFor?: ProxyFor): Promise<Tracing> {
  const exporter = await createExporter<SpanExporter>('TRACES', settings, proxyFor, {
    grpc: async () => (await import('@opentelemetry/exporter-trace-otlp-grpc')).OTLPTraceExporter,
    'http/json': async () => (await import('@opentelemetry/exporter-trace-otlp-http')).OTLPTraceExporter,
    'http/protobuf': async () => (await import('@opentelemetry/exporter-trace-otlp-proto')).OTLPTraceExporter,
  });
  logOutages(exporter, log, {
    failing: 'exporting traces failed; spans are lost until it succeeds',
    recovered: 'exporting traces succeeds again',
  });
  const processor = new BatchSpanProcessor({ ...settings.batch, exporter });
  return new Tracing(telemetryResource(), settings.sampler, processor);
}

/** Records and exports traces. */
export class Tracing implements SpanOrigin {
  readonly #resource: Resource;
  readonly #processor: Pick<SpanProcessor, 'onEnd' | 'shutdown'>;
  readonly #parentBased: boolean;
  readonly #sampler: TraceIdRatioBasedSampler;
  readonly #ids = new RandomIdGenerator();

  constructor(
    resource: Resource,
    { parentBased, ratio }: SamplerSettings,
    processor: Pick<SpanProcessor, 'onEnd' | 'shutdown'>,
  ) {
    this.#resource = resource;
    this.#processor = processor;
    this.#parentBased = parentBased;
    this.#sampler = new TraceIdRatioBasedSampler(ratio);
  }

  /** Starts a span in the trace of `parent`, or in a new trace, and decides whether it is sampled. */
  begin(start: SpanStart, parent: TraceContext | undefined): Span {
    const traceId = parent?.traceId ?? this.#ids.generateTraceId();
    const { RECORD_AND_SAMPLED } = SamplingDecision;
    const sampled =
      this.#parentBased && parent
        ? parent.sampled
        : this.#sampler.shouldSample(ROOT_CONTEXT, traceId).decision === RECORD_AND_SAMPLED;
    return new Span(this, start, { traceId, spanId: this.newSpanId(), sampled, state: parent?.state }, parent);
  }

  newSpanId(): string {
    return this.#ids.generateSpanId();
  }

  ended(span: Span): void {
    this.#processor.onEnd(exportedSpan(span, this.#resource));
  }

  /** Exports the ended spans, for at most `graceMs` milliseconds, and stops. Never rejects. */
  async close(graceMs: number): Promise<void> {
    await withTimeout(
      graceMs,
      this.#processor.shutdown().catch(() => undefined),
    );
  }
}
