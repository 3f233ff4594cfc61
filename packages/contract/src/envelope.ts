import { z } from 'zod';
import { jsonValue } from './json.ts';

/** Error codes of the management API (decisions 2.1; FORBIDDEN: mcp 6). */
export const errorCode = z.enum([
  'BAD_REQUEST',
  'FORBIDDEN',
  'NOT_FOUND',
  'METHOD_NOT_ALLOWED',
  'CONFLICT',
  'PAYLOAD_TOO_LARGE',
  'UNPROCESSABLE',
  'INTERNAL',
  'BAD_GATEWAY',
  'UNAVAILABLE',
]);

/** One of the codes of {@link errorCode}. */
export type ErrorCode = z.infer<typeof errorCode>;

/** The HTTP status that each code goes with. */
export const ERROR_STATUS = {
  BAD_REQUEST: 400,
  FORBIDDEN: 403,
  NOT_FOUND: 404,
  METHOD_NOT_ALLOWED: 405,
  CONFLICT: 409,
  PAYLOAD_TOO_LARGE: 413,
  UNPROCESSABLE: 422,
  INTERNAL: 500,
  BAD_GATEWAY: 502,
  UNAVAILABLE: 503,
} as const satisfies Record<ErrorCode, number>;

/** Details of a validation error: one item per member that was refused. `path` is dotted and empty for the whole body. */
export const validationDetails = z.array(z.object({ path: z.string(), message: z.string() }));

/** The error object of the envelope (decisions 2.1): {@link validationDetails}, or for conflicts an object. */
export const errorObject = z.object({
  code: errorCode,
  message: z.string(),
  details: z.union([validationDetails, z.record(z.string(), jsonValue)]).optional(),
});

export type ErrorObject = z.infer<typeof errorObject>;

/** The answer to a request that failed. */
export const failure = z.object({ data: z.null(), error: errorObject });

/** The answer to a request that went well, around its payload (specification, "Response envelope"). */
export function success<T extends z.ZodType>(data: T) {
  return z.object({ data, error: z.null() });
}
