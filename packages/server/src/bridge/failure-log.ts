import { getSystemErrorMap } from 'node:util';
import { serviceAddress } from '@sluice/contract';
import type { TargetLogger } from '../telemetry/log.ts';
import type { BridgedWork } from './bridged-call.ts';
import { isStatusError, statusName } from './grpc-call.ts';
import { ServiceError } from './service-error.ts';

/**
 * Logs what a call to a capability service failed of. Of a status its name, and what the system said of the connection,
 * but not the service's own words: they may repeat an argument.
 */
export function logFailure(
  log: TargetLogger,
  { name, service, requestId }: Pick<BridgedWork, 'name' | 'service' | 'requestId'>,
  error: unknown,
): void {
  // Its category and message are the answer's, and the event's.
  if (error instanceof ServiceError) return;
  const called = {
    called: name,
    service: service?.name,
    service_address: service && serviceAddress(service),
    service_request_id: requestId,
  };
  if (!isStatusError(error)) return log.error('call failed', { ...called, error });
  if (!log.enabled('debug')) return;
  log.debug('call failed', { ...called, status: statusName(error.code), code: systemCodeIn(error.details) });
}

/** What a system calls the error that a text tells of: `ECONNREFUSED`. */
function systemCodeIn(details: string): string | undefined {
  const known = new Set(['ENOTFOUND', ...[...getSystemErrorMap().values()].map(([code]) => code)]);
  return details.match(/\bE[A-Z_0-9]+\b/g)?.find((code) => known.has(code));
}
