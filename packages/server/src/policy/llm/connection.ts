import { z } from 'zod';
import { baseUrl } from '../../http/address.ts';

/**
 * LLM connection of evaluators (specification, "LLM connection"). Responses, revisions and logs contain its name only; the
 * other members never leave the process.
 */
export interface LlmConnection {
  readonly name: string;
  readonly model: string;
  /** Base URL without a trailing slash. */
  readonly url: string;
  /** Bearer token, if there is one. */
  readonly apiKey?: string;
}

const nonEmpty = z.string().trim().min(1, 'must not be empty');

/** Characters that are safe in a header value. */
const API_KEY = /^[\x21-\x7e]*$/;

/** An entry of `llm_connections` in the bootstrap file (decisions 1.3). */
export const llmConnectionEntry = z.object(
  {
    name: nonEmpty
      .max(256, 'must have at most 256 characters')
      .refine((name) => !/\p{Cc}/u.test(name), { error: 'must not contain control characters' }),
    model: nonEmpty,
    url: nonEmpty.pipe(baseUrl),
    // A key inserted by a template may end with a line break or be empty.
    api_key: z.string().trim().regex(API_KEY, 'must be printable ASCII without spaces').nullish(),
  },
  { error: 'must be a map with name, model and url' },
);
