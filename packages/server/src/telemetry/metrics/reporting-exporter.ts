import type { PushMetricExporter } from '@opentelemetry/sdk-metrics';
import type { TargetLogger } from '../log.ts';

const FAILED = 1;

/**
 * The exporter, with a line in the log when it begins to fail and when it works again. What it says of the reason names
 * addresses and statuses; headers and URLs are not in it.
 */
export function reportingExporter(exporter: PushMetricExporter, log: TargetLogger): PushMetricExporter {
  let failing = false;
  return {
    export(metrics, done) {
      exporter.export(metrics, (result) => {
        const failed = result.code === FAILED;
        if (failed && !failing) {
          log.warn('metrics cannot be exported; the collector gets them when it can be reached', {
            reason: result.error?.message,
          });
        } else if (!failed && failing) {
          log.info('metrics are exported again');
        }
        failing = failed;
        done(result);
      });
    },
    selectAggregation: exporter.selectAggregation?.bind(exporter),
    selectAggregationTemporality: exporter.selectAggregationTemporality?.bind(exporter),
    forceFlush: () => exporter.forceFlush(),
    shutdown: () => exporter.shutdown(),
  };
}
