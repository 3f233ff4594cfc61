import { isJsonObject, type JsonObject, type JsonValue, tryParseJson } from '@sluice/protocol/json/parse';
import type { StoredBody } from './stored-body.ts';

/** What a completion says of itself, beside its text. */
export interface CompletionUsage {
  readonly inputTokens: number | undefined;
  readonly outputTokens: number | undefined;
  /** Why each choice ended; empty where nothing is said of it. */
  readonly finishReasons: readonly string[];
}

const NOTHING: CompletionUsage = { inputTokens: undefined, outputTokens: undefined, finishReasons: [] };
/** Larger ones are not parsed for this: that would hold everybody up. */
const MOST_BYTES = 256 * 1024;
const MOST_REASONS = 8;
const LONGEST_REASON = 64;

/** Reads it in the body of an answer. */
export function completionUsage(body: StoredBody | undefined): CompletionUsage {
  if (!body?.isJson || body.bytes.length > MOST_BYTES) return NOTHING;
  const completion = tryParseJson(body.bytes.toString());
  if (!isJsonObject(completion)) return NOTHING;
  const usage = isJsonObject(completion.usage) ? completion.usage : {};
  return {
    inputTokens: tokens(usage, 'prompt_tokens', 'input_tokens'),
    outputTokens: tokens(usage, 'completion_tokens', 'output_tokens'),
    finishReasons: Array.isArray(completion.choices) ? completion.choices.slice(0, MOST_REASONS).flatMap(reason) : [],
  };
}

function tokens(usage: JsonObject, ...names: readonly string[]): number | undefined {
  for (const name of names) {
    const value = usage[name];
    if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
  }
  return undefined;
}

function reason(choice: JsonValue): string[] {
  const said = isJsonObject(choice) ? choice.finish_reason : undefined;
  return typeof said === 'string' ? [said.slice(0, LONGEST_REASON)] : [];
}
