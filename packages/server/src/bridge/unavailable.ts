import { status } from '@grpc/grpc-js';
import { serviceAddress } from '@sluice/contract';
import type { ServiceEntry } from '../registry/entries.ts';
import { ServiceError } from './service-error.ts';
import { isStatusError } from './unary.ts';

/** What a service is said to be where the status alone says little (decisions 4.10). */
const NAMED: ReadonlyMap<status, string> = new Map([
  [status.UNAVAILABLE, 'is not available'],
  [status.FAILED_PRECONDITION, 'cannot do this now'],
  [status.DEADLINE_EXCEEDED, 'did not answer in time'],
]);

/** A failed call as it is answered and counted: names service and address where it is the service that is at fault. */
export function toServiceError(error: unknown, service: ServiceEntry): ServiceError {
  if (error instanceof ServiceError) return error;
  if (isUnreadable(error)) {
    const message = `service ${service.name} at ${serviceAddress(service)} sent a reply that cannot be read`;
    return new ServiceError('SERVICE_UNAVAILABLE', message, { cause: error });
  }
  if (!isStatusError(error)) return new ServiceError('UNKNOWN', 'internal error', { cause: error });
  const named = NAMED.get(error.code);
  const message =
    named === undefined
      ? error.details || `status ${status[error.code] ?? error.code}`
      : `service ${service.name} at ${serviceAddress(service)} ${named}: ${error.details}`;
  return new ServiceError('SERVICE_UNAVAILABLE', message, { status: error.code, cause: error });
}

/** True for what the library makes of a reply that it cannot decompress: a status without code and description. */
function isUnreadable(error: unknown): boolean {
  return error instanceof Error && 'metadata' in error && 'code' in error && error.code === undefined;
}
