import type { z } from 'zod';
import type { ErrorCode } from '../schemas/envelope.ts';
import { MAX_PAGE_SIZE } from '../values.ts';

/** Optional query parameter. Unknown parameters are ignored. */
export interface QueryParameter {
  readonly description: string;
  /**
   * Accepted values; others are rejected. Several, separated by commas, are accepted if one of these has a comma. Any string if
   * undefined.
   */
  readonly values?: readonly string[];
}

/** Query parameters of a list that can be read in pages. */
export const PAGE_QUERY = {
  limit: {
    description: `Number of elements of the page: a whole number from 1 to ${MAX_PAGE_SIZE}. Default: all.`,
  },
  cursor: {
    description: 'Continues the list: `page.next` of the previous page. It stays valid while the list changes.',
  },
  q: { description: 'Filter by a part of the name or description, in any case.' },
} satisfies Record<string, QueryParameter>;

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
  /** The envelope has the member `page` if the request has one of {@link PAGE_QUERY}. */
  readonly paged?: true;
  /** The payload is of all replicas: the envelope has the member `unanswered` if some have not answered. */
  readonly ofAllReplicas?: true;
  /** Sends the payload without the envelope. */
  readonly raw?: true;
  /** Media type of a payload that is not JSON; `data` is ignored. */
  readonly mediaType?: string;
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
  /** Maximum size, if it is not 1 MiB. */
  readonly maxBytes?: number;
}

/**
 * What a caller must be allowed to do, if the service has roles. `open`: nothing, not even to have a credential. `read`: the
 * registry and what the service does. `read_bodies`: what clients, upstreams and models exchange, and the prompts of evaluators.
 * `change_registry`: also what reaches upstreams or services for an operator. `administer`: everything else, such as evaluators.
 */
export type Right = 'open' | 'read' | 'read_bodies' | 'change_registry' | 'administer';

/**
 * Operation of the management API. The service's routes, the OpenAPI document and the typed client are derived from it.
 */
export interface Operation {
  /** Unique operation id. */
  readonly id: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Path template: `/api/v1/tools/{name}`. */
  readonly path: string;
  /** The right that it requires; parts of a request or response may require another one. */
  readonly right: Right;
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

/** Returns the error codes that any operation with this method and right can respond with. */
export function commonErrors({ method, right }: Pick<Operation, 'method' | 'right'>): readonly ErrorCode[] {
  return [
    'BAD_REQUEST',
    ...(right === 'open' ? [] : (['UNAUTHORIZED'] as const)),
    'FORBIDDEN',
    ...(method === 'GET' ? [] : (['PAYLOAD_TOO_LARGE'] as const)),
    'INTERNAL',
  ];
}

/** Returns the operation with the types of its schemas preserved. */
export function defineOperation<const Defined extends Operation>(defined: Defined): Defined {
  return defined;
}
