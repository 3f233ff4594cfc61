import { ROOT_CONTEXT, SamplingDecision } from '@opentelemetry/api';
import type { InstrumentationScope } from '@opentelemetry/core';
import type { Resource } from '@opentelemetry/resources';
import {
  RandomIdGenerator,
  type SpanExporter,
  type SpanProcessor,
  TraceIdRatioBasedSampler,
} from '@opentelemetry/sdk-trace';
import type { SamplerSettings } from '../../app/config/environment.ts';
import type { TargetLogger } from '../log.ts';
import { ExportReport } from '../telemetry-resource.ts';
import { VERSION } from '../version.ts';
import type { TraceContext } from './trace-context.ts';
import { Span, type SpanOrigin, type SpanStart } from './tracing.ts';

/** Begins traces, and goes on with those of others. */
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

  /** A span that goes on with the trace of `parent`, or begins one. Whether it is recorded is settled here. */
  begin(start: SpanStart, parent: TraceContext | undefined): Span {
    const traceId = parent?.traceId ?? this.#ids.generateTraceId();
    const sampled = this.#parentBased && parent ? parent.sampled : this.#samples(traceId);
    return new Span(this, start, { traceId, spanId: this.newSpanId(), sampled, state: parent?.state }, parent);
  }

  newSpanId(): string {
    return this.#ids.generateSpanId();
  }

  ended(span: Span): void {
    this.#processor.onEnd(span);
  }

  #samples(traceId: string): boolean {
    if (this.#ratio === 1) return true;
    return this.#sampler.shouldSample(ROOT_CONTEXT, traceId).decision === SamplingDecision.RECORD_AND_SAMPLED;
  }
}

/** The exporter, with a line in the log when it begins to fail and when it works again. */
export function reportingExporter(exporter: SpanExporter, log: TargetLogger): SpanExporter {
  const report = new ExportReport(
    log,
    'traces cannot be exported; they are lost until they can',
    'traces are exported again',
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
