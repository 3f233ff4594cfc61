import type { SpanExporter } from '@opentelemetry/sdk-trace';
import type { TargetLogger } from '../log.ts';

const FAILED = 1;

/** The exporter, with a line in the log when it begins to fail and when it works again. */
export function reportingExporter(exporter: SpanExporter, log: TargetLogger): SpanExporter {
  let failing = false;
  return {
    export(spans, done) {
      exporter.export(spans, (result) => {
        const failed = result.code === FAILED;
        if (failed && !failing) {
          log.warn('traces cannot be exported; they are lost until they can', { reason: result.error?.message });
        } else if (!failed && failing) {
          log.info('traces are exported again');
        }
        failing = failed;
        done(result);
      });
    },
    shutdown: () => exporter.shutdown(),
    forceFlush: () => exporter.forceFlush?.() ?? Promise.resolve(),
  };
}
