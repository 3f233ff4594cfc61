import { status } from '@grpc/grpc-js';
import { serviceAddress, type ToolCallErrorCategory } from '@sluice/contract';
import type { ServiceEntry } from '../registry/entries.ts';
import { detailsOf, isStatusError, statusName } from './grpc-call.ts';

/** A call that capability services cannot, or could not, carry out. The message is answered. */
export class ServiceError extends Error {
  override readonly name = 'ServiceError';
  readonly category: ToolCallErrorCategory;

  constructor(category: ToolCallErrorCategory, message: string, options?: ErrorOptions) {
    super(message, options);
    this.category = category;
  }
}

/** What a service is called in messages. */
export function named(service: ServiceEntry): string {
  return `service ${service.name} at ${serviceAddress(service)}`;
}

/** What a service is said to be where the status alone says little (decisions 4.10). */
const FAULTS: ReadonlyMap<status, string> = new Map([
  [status.UNAVAILABLE, 'is not available'],
  [status.FAILED_PRECONDITION, 'cannot do this now'],
  [status.DEADLINE_EXCEEDED, 'did not answer in time'],
]);

/**
 * A failed call as it is answered and counted: names service and address where it is the service that is at fault.
 * `service` is undefined where none is registered.
 */
export function toServiceError(error: unknown, service: ServiceEntry | undefined): ServiceError {
  if (error instanceof ServiceError) return error;
  if (service && isUnreadable(error)) {
    return new ServiceError('SERVICE_UNAVAILABLE', `${named(service)} sent a reply that cannot be read`, {
      cause: error,
    });
  }
  if (!service || !isStatusError(error)) {
    return new ServiceError('UNKNOWN', 'internal error', { cause: error });
  }
  const fault = FAULTS.get(error.code);
  const details = detailsOf(error);
  const message =
    fault === undefined ? details || `status ${statusName(error.code)}` : `${named(service)} ${fault}: ${details}`;
  return new ServiceError('SERVICE_UNAVAILABLE', message, { cause: error });
}

/** True for what the library makes of a reply that it cannot decompress: a status without code and description. */
function isUnreadable(error: unknown): boolean {
  return error instanceof Error && 'metadata' in error && 'code' in error && error.code === undefined;
}
