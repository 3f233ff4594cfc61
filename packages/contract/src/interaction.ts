import { z } from 'zod';
import { jsonValue } from './json.ts';

const truncated = (whose: string) =>
  z
    .literal(true)
    .optional()
    .describe(`There was more of the ${whose} than is kept (4 MiB), or its body is no longer kept`);

/** One completion that was asked for through the inference listener, as it was recorded (decisions 2.9). */
export const interaction = z
  .object({
    epoch_ms: z.number().int().nonnegative().describe('When the request arrived, in milliseconds since 1970'),
    path: z.string().describe('Without query'),
    conversation_id: z
      .string()
      .optional()
      .describe('The header `x-conversation-id` of the request, else `x-request-id`'),
    completion_id: z.string().optional().describe('The `id` of the answer'),
    model: z.string().optional().describe('The `model` of the answer'),
    request_body: jsonValue.optional().describe('JSON, else a text, else null; not there with `?bodies=false`'),
    response_body: jsonValue
      .optional()
      .describe(
        'JSON, else a text, else null; not there with `?bodies=false`. Of a streamed completion it is the whole that its chunks make',
      ),
    status_code: z.number().int().nonnegative().describe('0 when the exchange ended before an answer began'),
    duration_ms: z.number().nonnegative().describe('Until the answer ended, broke off, or the client left'),
    request_truncated: truncated('request'),
    response_truncated: truncated('answer'),
  })
  .meta({ id: 'Interaction' });

/** Answer of `DELETE /api/v1/interactions`. */
export const interactionsCleared = z.object({ cleared: z.literal(true) });
