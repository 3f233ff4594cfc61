import type { ServerResponse } from 'node:http';
import type { FastifyRequest } from 'fastify';
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
    const { statusCode, headersSent, writableFinished } = response;
    if (statusCode >= 400) observation.refused();
    observation.end(headersSent ? statusCode : CLIENT_LEFT, writableFinished);
  });
  return observation;
}

/** The status that logs have for a request whose client left before it was answered. */
const CLIENT_LEFT = 499;
