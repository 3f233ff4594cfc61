import { getSystemErrorMap } from 'node:util';
import { serviceAddress } from '@sluice/contract';
import type { ServiceEntry } from '../../registry/entries.ts';
import type { TargetLogger } from '../../telemetry/log.ts';
import { TIMEOUT } from '../../telemetry/tool-calls/event.ts';
import { CallError } from '../operation.ts';
import { isStatusError, status, statusDetails, statusName } from './status.ts';

/** A request to a capability service. */
export interface ServiceRequest {
  /** Name of the tool or resource. */
  readonly name: string;
  readonly service: ServiceEntry;
  /** Sent to the service as `x-service-request-id`. */
  readonly requestId: string;
}

/** Name and address of a service for messages. */
export function describeService(service: ServiceEntry): string {
  return `service ${service.name} at ${serviceAddress(service)}`;
}

/** Texts for statuses whose names are not descriptive. */
const FAULT_TEXTS: ReadonlyMap<number, string> = new Map([
  [status.UNAVAILABLE, 'is not available'],
  [status.FAILED_PRECONDITION, 'cannot do this now'],
  [status.DEADLINE_EXCEEDED, 'did not answer in time'],
]);

/** Converts the error of a call for response and metrics: with name and address of the service if the service is at fault. */
function toServiceError(error: unknown, service: ServiceEntry): CallError {
  if (error instanceof CallError) return error;
  if (isUnreadable(error)) {
    return new CallError('SERVICE_UNAVAILABLE', `${describeService(service)} sent a reply that cannot be read`, {
      cause: error,
    });
  }
  if (!isStatusError(error)) return new CallError('UNKNOWN', 'internal error', { cause: error });
  const fault = FAULT_TEXTS.get(error.code);
  const details = statusDetails(error);
  const message =
    fault === undefined
      ? details || `status ${statusName(error.code)}`
      : `${describeService(service)} ${fault}: ${details}`;
  const errorType = error.code === status.DEADLINE_EXCEEDED ? TIMEOUT : undefined;
  return new CallError('SERVICE_UNAVAILABLE', message, { cause: error, ...(errorType && { errorType }) });
}

/** True for the library's error for a reply that it cannot decompress: a status without code and description. */
function isUnreadable(error: unknown): boolean {
  return error instanceof Error && 'metadata' in error && 'code' in error && error.code === undefined;
}

/**
 * Logs the failure of a call to a capability service: of a status its name and the system's error code, but not the text
 * of the service, which may contain an argument.
 */
export function logFailure(log: TargetLogger, { name, service, requestId }: ServiceRequest, error: unknown): void {
  // Reported by response and event.
  if (error instanceof CallError) return;
  const fields = {
    called: name,
    service: service.name,
    service_address: serviceAddress(service),
    service_request_id: requestId,
  };
  if (!isStatusError(error)) return log.error('call failed', { ...fields, error });
  if (!log.enabled('debug')) return;
  log.debug('call failed', { ...fields, status: statusName(error.code), code: findSystemCode(error.details) });
}

/** Finds the system's error code in a text: `ECONNREFUSED`. */
function findSystemCode(details: string): string | undefined {
  const codes = new Set(['ENOTFOUND', ...[...getSystemErrorMap().values()].map(([code]) => code)]);
  return details.match(/\bE[A-Z_0-9]+\b/g)?.find((code) => codes.has(code));
}

/** Sends a request; what fails is logged, and thrown as the {@link CallError} for its client. */
export async function sendRequest<Result>(
  request: ServiceRequest,
  { log, signal }: { readonly log: TargetLogger; readonly signal: AbortSignal },
  send: () => Promise<Result>,
): Promise<Result> {
  try {
    return await send();
  } catch (error) {
    // After the end, the error is a consequence of the cancellation.
    if (!signal.aborted) logFailure(log, request, error);
    throw toServiceError(error, request.service);
  }
}
