import { z } from 'zod';
import { byValue } from './json.ts';

const UPSTREAM = '^(?:(?:[A-Za-z0-9_.-]+|\\[[0-9A-Fa-f:.]+\\]):[0-9]{1,5}|[Hh][Tt][Tt][Pp][Ss]?://[^?#]+)$';

const MEMBERS = ['upstream', 'capacity'];

/** Body of `POST /api/v1/config/inference` (decisions 4.4): at least one of its members, and no other. */
export const inferenceConfigInput = z
  .looseObject({
    upstream: z
      .string()
      // What else there is to hosts and ports a pattern could say, but nobody could read it.
      .meta({ pattern: UPSTREAM })
      .optional()
      .describe('`host:port`, `http://host[:port][/path]` or `https://host[:port][/path]`'),
    capacity: byValue(z.number().int().min(0).max(1_000_000))
      .optional()
      .describe('How many interactions are kept; 0 records nothing'),
  })
  .superRefine((given, context) => {
    const names = Object.keys(given);
    for (const name of names.filter((each) => !MEMBERS.includes(each)).slice(0, 10)) {
      context.addIssue({ code: 'custom', path: [name], message: `is not known; known are ${MEMBERS.join(' and ')}` });
    }
    if (names.length > 0) return;
    context.addIssue({ code: 'custom', path: ['upstream'], message: 'or capacity is required' });
  })
  .meta({ minProperties: 1 });

/** What the inference listener goes by now. */
export const inferenceConfig = z
  .object({
    upstream: z.string().describe('Where new requests go'),
    capacity: z.number().int().nonnegative().describe('How many interactions are kept'),
  })
  .meta({ id: 'InferenceConfig' });
