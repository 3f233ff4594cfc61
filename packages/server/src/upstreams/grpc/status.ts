import type { ServiceError as StatusError } from '@grpc/grpc-js';

/** Names of the status codes of gRPC ("Status codes and their use in gRPC"), by code. The library is loaded only for calls. */
const NAMES: readonly string[] = [
  'OK',
  'CANCELLED',
  'UNKNOWN',
  'INVALID_ARGUMENT',
  'DEADLINE_EXCEEDED',
  'NOT_FOUND',
  'ALREADY_EXISTS',
  'PERMISSION_DENIED',
  'RESOURCE_EXHAUSTED',
  'FAILED_PRECONDITION',
  'ABORTED',
  'OUT_OF_RANGE',
  'UNIMPLEMENTED',
  'INTERNAL',
  'UNAVAILABLE',
  'DATA_LOSS',
  'UNAUTHENTICATED',
];

/** The codes that the service handles in different ways. */
export const status = {
  CANCELLED: 1,
  DEADLINE_EXCEEDED: 4,
  FAILED_PRECONDITION: 9,
  UNIMPLEMENTED: 12,
  UNAVAILABLE: 14,
} as const;

/** The gRPC status code of a failed call; undefined for other errors. */
export function statusCode(error: unknown): number | undefined {
  return isStatusError(error) ? error.code : undefined;
}

/** The name of a status code, or its number if it has no name. */
export function statusName(code: number): string {
  return NAMES[code] ?? String(code);
}

/** True for the errors with which the library rejects calls. */
export function isStatusError(error: unknown): error is StatusError {
  return error instanceof Error && 'code' in error && typeof error.code === 'number' && 'details' in error;
}

/** Details of a status; the text may come from the service. */
export function statusDetails({ details }: StatusError): string {
  // The library appends a note on name resolution, which is mostly empty.
  return details.replace(/\.? Resolution note: $/, '');
}
