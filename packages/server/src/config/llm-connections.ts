import { z } from 'zod';
import { baseUrl } from './addresses.ts';
import { ConfigError } from './config-error.ts';
import { firstProblem, listAt, type Warn, warnOfStrangers, wrongType } from './file-entry.ts';
import { InvalidSettingError, quote } from './setting.ts';
import type { YamlFile } from './yaml-file.ts';

/**
 * An endpoint that evaluators ask (specification, "LLM connection"). Only its name is ever answered, stored or logged;
 * the rest stays in this process.
 */
export interface LlmConnection {
  readonly name: string;
  readonly model: string;
  /** Without a slash at its end: paths are appended to it. */
  readonly url: string;
  /** Sent as a bearer token; undefined for none. */
  readonly apiKey?: string;
}

const filled = z.string().trim().min(1, 'must not be empty');

/** What a header can carry, and nothing that would end it. */
const API_KEY = /^[\x21-\x7e]*$/;

const entry = z.object(
  {
    name: filled.max(256, 'must have at most 256 characters').refine((name) => !/\p{Cc}/u.test(name), {
      error: 'must not contain control characters',
    }),
    model: filled,
    url: filled.superRefine((url, context) => {
      try {
        baseUrl.parse(url);
      } catch (error) {
        if (!(error instanceof InvalidSettingError)) throw error;
        context.addIssue(`${error.message}; accepted: ${baseUrl.accepts}`);
      }
    }),
    // A key that a template put there has a line break at its end, or is empty.
    api_key: z.string().trim().regex(API_KEY, 'must be printable ASCII without blanks').nullish(),
  },
  { error: 'is not a map with name, model and url' },
);

/**
 * What stands under `llm_connections` (decisions 1.3). Throws {@link ConfigError} for the first thing that is wrong: an
 * evaluator that silently asks nobody would be a hole in the policy.
 */
export function parseLlmConnections(file: YamlFile, warn: Warn): LlmConnection[] {
  const byName = new Map<string, LlmConnection>();
  listAt(file, 'llm_connections').forEach((item, index) => {
    const path = ['llm_connections', index];
    const refuse = (at: readonly PropertyKey[], problem: string): ConfigError =>
      new ConfigError(`${file.where([...path, ...at])}: llm_connections[${index}]: ${problem}`);
    const parsed = entry.safeParse(item, { error: wrongType });
    if (!parsed.success) {
      const { at, problem } = firstProblem(parsed.error);
      throw refuse(at, problem);
    }
    warnOfStrangers(item, entry, path, warn);
    const { name, model, url, api_key: apiKey } = parsed.data;
    const warnOf = (member: string, warning: string) =>
      warn([...path, member], `llm_connections[${index}]: ${member} ${warning}`);
    if (/\/chat\/completions\/*$/.test(url)) {
      warnOf('url', 'ends in /chat/completions, which is appended to it: write what stands before that');
    }
    // Never with the key, which may begin so.
    if (apiKey?.startsWith('$')) {
      warnOf('api_key', 'begins with $ and is sent as it stands here: nothing puts environment variables in its place');
    }
    if (byName.has(name)) throw refuse(['name'], `the name ${quote(name)} is taken by an earlier entry`);
    byName.set(name, { name, model, url: baseUrl.parse(url), ...(apiKey && { apiKey }) });
  });
  return [...byName.values()];
}
