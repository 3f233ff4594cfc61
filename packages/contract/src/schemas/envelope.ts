import { z } from 'zod';
import { ERROR_CODES } from '../values.ts';
import { jsonValue } from './json.ts';

/** Error codes of the management API. */
export const errorCode = z.enum(ERROR_CODES);

/** One of the codes of {@link errorCode}. */
export type ErrorCode = z.infer<typeof errorCode>;

/** Details of a validation error, one item per issue. `path` is dotted and empty for the whole body. */
export const validationDetails = z.array(z.object({ path: z.string(), message: z.string() }));

/** Error member of the envelope. `details` is an object for conflicts, else {@link validationDetails}. */
export const errorObject = z.object({
  code: errorCode,
  message: z.string(),
  details: z.union([validationDetails, z.record(z.string(), jsonValue)]).optional(),
});

export type ErrorObject = z.infer<typeof errorObject>;

/** Envelope of an error. */
export const errorResponse = z.object({ data: z.null(), error: errorObject });

/** Envelope of a payload. */
export function successResponse<T extends z.ZodType>(data: T) {
  return z.object({ data, error: z.null() });
}

/** Position of a page within its list. */
export const pageInfo = z
  .object({
    next: z.string().optional().describe('`cursor` of the next page; missing on the last one.'),
    total: z.number().int().describe('Number of matching elements on all pages.'),
  })
  .meta({ id: 'PageInfo' });

export type PageInfo = z.infer<typeof pageInfo>;

/** Response of a deletion: the name of the deleted object. */
export const deleteResult = z.object({ removed: z.string() }).meta({ id: 'Removed' });

/** Warnings of a deletion. */
export const deleteWarnings = z.array(
  z.object({
    code: z.literal('RETURNS_WITH_DISCOVERY').describe('The next discovery of its forward registers the entry again.'),
    message: z.string(),
  }),
);

export type DeleteWarning = z.infer<typeof deleteWarnings>[number];
