import type { SpanExporter } from '@opentelemetry/sdk-trace';
import type { TargetLogger } from '../log.ts';
import type { TraceSettings } from '../otlp.ts';
import type { Span, SpanStart } from './span.ts';
import type { TraceContext } from './trace-context.ts';

/** Records and exports traces (OTLP). */
export interface Tracing {
  /** Starts a span that continues the trace of `parent`, or a new trace. */
  begin(start: SpanStart, parent: TraceContext | undefined): Span;
  /** Exports the ended spans, for at most `graceMs` milliseconds, and stops. Never rejects. */
  close(graceMs: number): Promise<void>;
}

/** Starts exporting traces. OpenTelemetry's packages are loaded only here: without export they cost nothing. */
export async function openTracing(settings: TraceSettings, log: TargetLogger): Promise<Tracing> {
  const [{ BatchSpanProcessor }, { reportingExporter, Tracer }, { settleWithin, telemetryResource }] =
    await Promise.all([import('@opentelemetry/sdk-trace'), import('./tracer.ts'), import('../otlp.ts')]);
  const exporter = reportingExporter(await createExporter(settings), log);
  const processor = new BatchSpanProcessor({ ...settings.batch, exporter });
  const tracer = new Tracer(telemetryResource(), settings.sampler, processor);
  return {
    begin: (start, parent) => tracer.begin(start, parent),
    close: (graceMs) => settleWithin(graceMs, processor.shutdown()),
  };
}

const GRPC_METHOD = '/opentelemetry.proto.collector.trace.v1.TraceService/Export';

/** The library reads endpoint, headers, certificates, compression and timeout from the environment. */
async function createExporter({ protocol }: TraceSettings): Promise<SpanExporter> {
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
