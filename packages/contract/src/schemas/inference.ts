import { z } from 'zod';
import { unknownField } from '../validate.ts';
import { coerceRawNumber, jsonValue } from './json.ts';

const truncated = (direction: string) =>
  z.literal(true).optional().describe(`The ${direction} body was truncated to 4 MiB, or evicted from memory`);

/** A chat completion recorded by the inference listener. */
export const interaction = z
  .object({
    epoch_ms: z
      .number()
      .int()
      .nonnegative()
      .describe('Arrival time of the request, in milliseconds since the Unix epoch'),
    path: z.string().describe('Request path without the query string'),
    conversation_id: z.string().optional().describe('Request header `x-conversation-id`, or else `x-request-id`'),
    completion_id: z.string().optional().describe('`id` of the response'),
    model: z.string().optional().describe('`model` of the response'),
    request_body: jsonValue.optional().describe('JSON value, string or null; omitted with `?bodies=false`'),
    response_body: jsonValue
      .optional()
      .describe(
        'JSON value, string or null; omitted with `?bodies=false`. The chunks of a streamed completion are assembled',
      ),
    status_code: z.number().int().nonnegative().describe('HTTP status; 0 if the exchange ended before a response'),
    duration_ms: z
      .number()
      .nonnegative()
      .describe('Time until the response ended or the client disconnected, in milliseconds'),
    request_truncated: truncated('request'),
    response_truncated: truncated('response'),
  })
  .meta({ id: 'Interaction' });

/** Response of `DELETE /api/v1/interactions`. */
export const clearResult = z.object({ cleared: z.literal(true) });

const UPSTREAM = '^(?:(?:[A-Za-z0-9_.-]+|\\[[0-9A-Fa-f:.]+\\]):[0-9]{1,5}|[Hh][Tt][Tt][Pp][Ss]?://[^?#]+)$';

const MEMBERS = ['upstream', 'capacity'];

/** Body of `POST /api/v1/config/inference`: at least one of its members, and no others. */
export const inferenceConfigInput = z
  .looseObject({
    upstream: z
      .string()
      // Approximates the rules for hosts and ports, to stay readable.
      .meta({ pattern: UPSTREAM })
      .optional()
      .describe('`host:port`, `http://host[:port][/path]` or `https://host[:port][/path]`'),
    capacity: coerceRawNumber(z.number().int().min(0).max(1_000_000))
      .optional()
      .describe('Maximum number of stored interactions; 0 disables recording'),
  })
  .superRefine((config, context) => {
    const names = Object.keys(config);
    for (const name of names.filter((each) => !MEMBERS.includes(each)).slice(0, 10)) {
      context.addIssue({
        code: 'custom',
        path: [name],
        message: unknownField(MEMBERS),
      });
    }
    if (names.length > 0) return;
    context.addIssue({ code: 'custom', path: ['upstream'], message: 'or capacity is required' });
  })
  .meta({ minProperties: 1 });

/** Current configuration of the inference listener. */
export const inferenceConfig = z
  .object({
    upstream: z.string().describe('Upstream of new requests'),
    capacity: z.number().int().nonnegative().describe('Maximum number of stored interactions'),
  })
  .meta({ id: 'InferenceConfig' });
