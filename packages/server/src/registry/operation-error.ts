import type { ErrorCode } from '@sluice/contract';

/** A rejected operation of the management API, which changed nothing. The message is returned to clients. */
export class OperationError extends Error {
  override readonly name = 'OperationError';
  /** Code of the response. */
  readonly code: ErrorCode;
  /** JSON value with counts, candidates or invalid members; undefined for none. */
  readonly details: unknown;

  constructor(code: ErrorCode, message: string, details?: unknown) {
    super(message);
    this.code = code;
    this.details = details;
  }
}
