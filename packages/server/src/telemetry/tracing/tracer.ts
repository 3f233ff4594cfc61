import { ROOT_CONTEXT, SamplingDecision } from '@opentelemetry/api';
import type { InstrumentationScope } from '@opentelemetry/core';
import type { Resource } from '@opentelemetry/resources';
import {
  RandomIdGenerator,
  type SpanExporter,
  type SpanProcessor,
  TraceIdRatioBasedSampler,
} from '@opentelemetry/sdk-trace';
import type { TargetLogger } from '../log.ts';
import type { SamplerSettings } from '../otlp.ts';
import { ExportReport } from '../otlp.ts';
import { VERSION } from '../version.ts';
import { Span, type SpanOrigin, type SpanStart } from './span.ts';
import type { TraceContext } from './trace-context.ts';

/** Starts spans, in new or existing traces. */
export class Tracer implements SpanOrigin {
  readonly resource: Resource;
  readonly instrumentationScope: InstrumentationScope = { name: 'sluice', version: VERSION };
  readonly #processor: Pick<SpanProcessor, 'onEnd'>;
  readonly #parentBased: boolean;
  readonly #ratio: number;
  readonly #sampler: TraceIdRatioBasedSampler;
  readonly #ids = new RandomIdGenerator();

  constructor(resource: Resource, { parentBased, ratio }: SamplerSettings, processor: Pick<SpanProcessor, 'onEnd'>) {
    this.resource = resource;
    this.#processor = processor;
    this.#parentBased = parentBased;
    this.#ratio = ratio;
    this.#sampler = new TraceIdRatioBasedSampler(ratio);
  }

  /** Starts a span in the trace of `parent`, or in a new trace, and decides whether it is sampled. */
  begin(start: SpanStart, parent: TraceContext | undefined): Span {
    const traceId = parent?.traceId ?? this.#ids.generateTraceId();
    const sampled = this.#parentBased && parent ? parent.sampled : this.#isSampled(traceId);
    return new Span(this, start, { traceId, spanId: this.newSpanId(), sampled, state: parent?.state }, parent);
  }

  newSpanId(): string {
    return this.#ids.generateSpanId();
  }

  ended(span: Span): void {
    this.#processor.onEnd(span);
  }

  #isSampled(traceId: string): boolean {
    if (this.#ratio === 1) return true;
    return this.#sampler.shouldSample(ROOT_CONTEXT, traceId).decision === SamplingDecision.RECORD_AND_SAMPLED;
  }
}

/** Wraps an exporter to log when it begins to fail and when it succeeds again. */
export function reportingExporter(exporter: SpanExporter, log: TargetLogger): SpanExporter {
  const report = new ExportReport(
    log,
    'exporting traces failed; spans are lost until it succeeds',
    'exporting traces succeeds again',
  );
  return {
    export(spans, done) {
      exporter.export(spans, (result) => {
        report.ended(result);
        done(result);
      });
    },
    shutdown: () => exporter.shutdown(),
    forceFlush: () => exporter.forceFlush?.() ?? Promise.resolve(),
  };
}
