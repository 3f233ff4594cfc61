import type { status } from '@grpc/grpc-js';

/** What a failed call is counted as in events (specification, "Events"; decisions 6). */
export type ErrorCategory =
  | 'SERVICE_UNAVAILABLE'
  | 'TOOL_DEFINITION_ERROR'
  | 'INVALID_ARGUMENTS'
  | 'EXECUTION_ERROR'
  | 'UNKNOWN';

/** A call that capability services cannot, or could not, carry out. The message is answered. */
export class ServiceError extends Error {
  override readonly name = 'ServiceError';
  readonly category: ErrorCategory;
  /** The gRPC status, when the call got that far. */
  readonly status: status | undefined;

  constructor(category: ErrorCategory, message: string, details: { status?: status; cause?: unknown } = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.category = category;
    this.status = details.status;
  }
}
