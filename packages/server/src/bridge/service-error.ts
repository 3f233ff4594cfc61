import type { status } from '@grpc/grpc-js';
import type { ToolCallErrorCategory } from '@sluice/contract';

/** A call that capability services cannot, or could not, carry out. The message is answered. */
export class ServiceError extends Error {
  override readonly name = 'ServiceError';
  readonly category: ToolCallErrorCategory;
  /** The gRPC status, when the call got that far. */
  readonly status: status | undefined;

  constructor(category: ToolCallErrorCategory, message: string, details: { status?: status; cause?: unknown } = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.category = category;
    this.status = details.status;
  }
}
