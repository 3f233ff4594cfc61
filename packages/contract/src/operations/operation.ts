import type { z } from 'zod';
import type { ErrorCode } from '../schemas/envelope.ts';

/** Optional query parameter. Unknown ones are ignored (decisions 2.2). */
export interface QueryParameter {
  readonly description: string;
  /** Accepted values; others are ignored. Any string if undefined. */
  readonly values?: readonly string[];
}

/** Response of a successful request. */
export interface SuccessResponse {
  readonly description: string;
  /** Schema of the payload. */
  readonly data: z.ZodType;
  /** Sends the URL of the created object in `Location`. */
  readonly location?: true;
  /** Description of the `ETag` that it sends. */
  readonly etag?: string;
  /** Schema of the optional `warnings` member of the envelope. */
  readonly warnings?: z.ZodType;
  /** Sends the payload without the envelope. */
  readonly raw?: true;
  /** Sends an event stream; `data` is the payload of each event. */
  readonly eventStream?: true;
}

/** Request body. */
export interface RequestBody {
  /** Kind of object for error messages, such as `tool`. */
  readonly kind: string;
  readonly schema: z.ZodType;
  /** A missing body is equivalent to `{}`. */
  readonly optional?: true;
}

/**
 * Operation of the management API. The service's routes, the OpenAPI document and the typed client are derived from it.
 */
export interface Operation {
  /** Unique operation id. */
  readonly id: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Path template: `/api/v1/tools/{name}`. */
  readonly path: string;
  /** Schema of the path parameter; a name if undefined. */
  readonly pathParameter?: z.ZodType;
  /** Group in the API reference. */
  readonly tag: string;
  /** One line in the imperative. */
  readonly summary: string;
  readonly description?: string;
  readonly query?: Readonly<Record<string, QueryParameter>>;
  readonly body?: RequestBody;
  /** Successful responses by HTTP status. */
  readonly responses: Readonly<Record<number, SuccessResponse>>;
  /** Error codes in addition to {@link commonErrors}. */
  readonly errors: readonly ErrorCode[];
}

/** Returns the error codes that any operation with this method can respond with. */
export function commonErrors(method: Operation['method']): readonly ErrorCode[] {
  return method === 'GET'
    ? ['BAD_REQUEST', 'FORBIDDEN', 'INTERNAL']
    : ['BAD_REQUEST', 'FORBIDDEN', 'PAYLOAD_TOO_LARGE', 'INTERNAL'];
}

/** Returns the operation with the types of its schemas preserved. */
export function defineOperation<const Defined extends Operation>(defined: Defined): Defined {
  return defined;
}
