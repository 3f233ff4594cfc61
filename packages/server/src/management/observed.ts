import type { ServerResponse } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { answeredStatus } from '../incoming/answered-status.ts';
import type { RequestObservation } from '../telemetry/requests/request-observation.ts';
import { type ObserveRequest, observing, type RequestTelemetryParts } from '../telemetry/requests/request-telemetry.ts';

/** Asked for every few seconds by whatever keeps the service running. */
const PROBES: ReadonlySet<string> = new Set(['/healthz', '/health', '/readyz', '/metrics']);

/** What sees the requests of the management API: what an operator did, and who it was where a proxy says so. */
export function observingManagement(parts: RequestTelemetryParts): ObserveRequest {
  return observing('management', 'service::mgmt::access', parts, PROBES);
}

/** Observes a request to the end of its answer. */
export function observed(
  { raw }: FastifyRequest,
  response: ServerResponse,
  observe: ObserveRequest,
): RequestObservation {
  const { method = '', url: target = '/', headers, socket } = raw;
  const observation = observe({ method, target, headers, client: socket.remoteAddress, inBatch: false });
  response.on('close', () => {
    if (response.statusCode >= 400) observation.refused();
    observation.end(answeredStatus(response), response.writableFinished);
  });
  return observation;
}
