import type { SpanExporter } from '@opentelemetry/sdk-trace';
import type { TraceSettings } from '../../config/open-telemetry.ts';
import type { TargetLogger } from '../log.ts';
import type { Span, SpanStart } from './span.ts';
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
    import('./reporting-exporter.ts'),
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
    import('./span-encoder.ts'),
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
