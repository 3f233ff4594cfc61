import type { SpanExporter } from '@opentelemetry/sdk-trace';
import { ExportReport } from '../export-report.ts';
import type { TargetLogger } from '../log.ts';

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
