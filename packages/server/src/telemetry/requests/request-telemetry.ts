import type { LogTarget } from '../../config/log-targets.ts';
import type { Logger } from '../log.ts';
import type { RequestMetrics } from '../metrics/request-metrics.ts';
import { CommonAttributes } from '../tracing/common-attributes.ts';
import type { Tracing } from '../tracing/tracing.ts';
import { AccessLog } from './access-log.ts';
import { type ObservationParts, type ObservedRequest, RequestObservation } from './request-observation.ts';

/** What the requests of all listeners are observed with. */
export interface RequestTelemetryParts {
  readonly metrics: RequestMetrics;
  readonly logger: Logger;
  readonly tracing: Tracing | undefined;
}

/** Sees the requests of one listener. */
export type ObserveRequest = (request: ObservedRequest) => RequestObservation;

/** What sees the requests of the listener of this name; its access log is at `target`, see {@link AccessLog}. */
export function observing(
  listener: string,
  target: LogTarget,
  { metrics, logger, tracing }: RequestTelemetryParts,
  probes?: ReadonlySet<string>,
): ObserveRequest {
  const parts: ObservationParts = {
    listener,
    metrics,
    tracing,
    attributes: new CommonAttributes(),
    accessLog: new AccessLog(logger.target(target), probes),
  };
  return (request) => new RequestObservation(parts, request);
}
