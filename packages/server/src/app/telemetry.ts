import { RequestMetrics } from '../telemetry/metrics/request-metrics.ts';
import { TimeSeries } from '../telemetry/time-series.ts';
import { ToolCallEvents } from '../telemetry/tool-calls/events.ts';
import type { Core } from './core.ts';

/** The layer that records requests and calls: see {@link addTelemetry}. */
export type WithTelemetry = Awaited<ReturnType<typeof addTelemetry>>;

/** Adds metrics, tool-call events, time series and traces. OpenTelemetry's packages are loaded only for export. */
export async function addTelemetry(core: Core) {
  const { config, logger, interactions, closing, open, lastExportMs } = core;
  const { proxies, openTelemetry, pipeline } = config;
  const secure = new Set(pipeline.listeners.filter(({ tls }) => tls !== undefined).map(({ name }) => name));
  const metrics = new RequestMetrics(secure);
  const isCompletion = (id: string) => interactions.completion(id) !== undefined;
  const toolCalls = new ToolCallEvents(logger, { isCompletion, metrics });
  const timeSeries = closing(
    new TimeSeries({ toolCalls, requests: metrics, completions: () => interactions.recorded }),
  );
  timeSeries.start();
  const { traces } = openTelemetry;
  const log = logger.target('service');
  const proxyFor = (url: URL) => proxies.for(url)?.href();
  const tracing =
    traces && (await (await import('../telemetry/tracing/tracing.ts')).openTracing(traces, log, proxyFor));
  open.defer(() => tracing?.close(lastExportMs()));
  return { ...core, requests: { metrics, logger, tracing }, toolCalls, timeSeries, tracing };
}
