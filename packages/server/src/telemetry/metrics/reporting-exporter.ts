import type { PushMetricExporter } from '@opentelemetry/sdk-metrics';
import { ExportReport } from '../export-report.ts';
import type { TargetLogger } from '../log.ts';

/** The exporter, with a line in the log when it begins to fail and when it works again. */
export function reportingExporter(exporter: PushMetricExporter, log: TargetLogger): PushMetricExporter {
  const report = new ExportReport(
    log,
    'metrics cannot be exported; the collector gets them when it can be reached',
    'metrics are exported again',
  );
  return {
    export(metrics, done) {
      exporter.export(metrics, (result) => {
        report.ended(result);
        done(result);
      });
    },
    selectAggregation: exporter.selectAggregation?.bind(exporter),
    selectAggregationTemporality: exporter.selectAggregationTemporality?.bind(exporter),
    forceFlush: () => exporter.forceFlush(),
    shutdown: () => exporter.shutdown(),
  };
}
