import { members } from '@sluice/protocol/json/scan';
import type { RequestMessage } from '@sluice/protocol/mcp/message';
import type { EvaluationContext } from './sandbox/action.ts';

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const SLASH = 0x2f;
const LETTER_U = 0x75;
const SPACE = 0x20;
const BLANK_OR_ESCAPE = /[ \t\n\r\\]/;

/**
 * JSON without blanks between its pieces, its strings written in the one way that `JSON.stringify` has, so that nothing
 * hides behind escapes; numbers stay as they are spelled. Members stay where they are, all of them. Expects text that
 * `JSON.parse` accepts.
 *
 * One pass over the bytes, since whoever sends the text chooses how many pieces it has: made of as many strings, one of
 * 4 MiB takes a second.
 */
export function compactJson(json: string): string {
  if (!BLANK_OR_ESCAPE.test(json)) return json;
  const bytes = Buffer.from(json);
  // No string is longer for being written in that way, so that it can be done in place.
  let made = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] ?? SPACE;
    // What is smaller outside of strings is a blank.
    if (byte <= SPACE) continue;
    if (byte !== QUOTE) {
      bytes[made++] = byte;
      continue;
    }
    const end = endOfString(bytes, at);
    made += end < 0 ? rewritten(bytes, at, -end, made) : bytes.copy(bytes, made, at, end);
    at = Math.abs(end) - 1;
  }
  return bytes.toString('utf8', 0, made);
}

/** The position after the string that begins at `start`: negative when it has escapes that may be needless. */
function endOfString(bytes: Buffer, start: number): number {
  let needless = false;
  let at = start + 1;
  for (; bytes[at] !== QUOTE && at < bytes.length; at++) {
    if (bytes[at] !== BACKSLASH) continue;
    const escaped = bytes[++at];
    needless ||= escaped === LETTER_U || escaped === SLASH;
  }
  return needless ? -at - 1 : at + 1;
}

/** Writes the string between these positions in its one way; returns how many bytes it has. */
function rewritten(bytes: Buffer, start: number, end: number, to: number): number {
  return bytes.write(JSON.stringify(JSON.parse(bytes.toString('utf8', start, end))), to);
}

/** What is known of a request before the LLM is asked. */
export type EvaluatedRequest = Omit<EvaluationContext, 'llmResult'>;

/** What is judged of one request, so that an LLM and an action can take all of it in (docs/evaluators.md). */
const MAX_ARGUMENTS = 1000;

/**
 * A request that cannot be judged, whatever its evaluators do about failures: nobody may get by one by being too large for
 * it, or by showing it something else than an upstream may see.
 */
export class UnevaluableRequestError extends Error {}

/**
 * What prompts and actions are told of a request (spec "Evaluation context", decisions 2.11): its arguments, or the
 * members of its params but for `_meta`, as pairs in the order of the text. Strings are as they are; other values are
 * JSON in which numbers are spelled as the client spelled them. Arguments that are no object are one pair, of the name
 * `arguments`.
 *
 * Surrogates without their other half become U+FFFD, as on their way to an action.
 *
 * Throws {@link UnevaluableRequestError} for more than 1000 of them, and for a name that is there twice: nobody knows which of the two
 * an upstream obeys. Readers written in C end names at U+0000, so that what differs behind it is one name.
 */
export function evaluatedRequest(
  { text, method, params, paramsRange }: RequestMessage,
  namespace: string,
  conversationId: string | undefined,
): EvaluatedRequest {
  const isCall = method === 'tools/call';
  const request = {
    method: method.toWellFormed(),
    namespace,
    ...(isCall && typeof params.name === 'string' && { toolName: params.name.toWellFormed() }),
    ...(conversationId !== undefined && { conversationId: conversationId.toWellFormed() }),
  };
  if (paramsRange === undefined) return { ...request, arguments: [] };
  if (!isCall) return { ...request, arguments: pairsOf(text, paramsRange.start, '_meta') };
  // Of params no member is there twice: such requests are refused.
  for (const { key, start, end } of members(text, paramsRange.start)) {
    if (key !== 'arguments') continue;
    if (text[start] === '{') return { ...request, arguments: pairsOf(text, start) };
    // None that a tool can have; but an upstream may see something in it.
    if (text[start] === 'n') break;
    return { ...request, arguments: [[key, asText(text.slice(start, end))]] };
  }
  return { ...request, arguments: [] };
}

function pairsOf(text: string, start: number, besides?: string): [name: string, value: string][] {
  const pairs: [string, string][] = [];
  const names = new Set<string>();
  for (const { key, start: from, end } of members(text, start)) {
    if (key === besides) continue;
    if (pairs.length === MAX_ARGUMENTS) {
      throw new UnevaluableRequestError(
        `too many arguments: a request that evaluators judge has at most ${MAX_ARGUMENTS}`,
      );
    }
    const name = key.toWellFormed();
    const [read = ''] = name.split('\0');
    if (names.has(read))
      throw new UnevaluableRequestError(`argument ${JSON.stringify(read)} is there twice: leave one out`);
    names.add(read);
    pairs.push([name, asText(text.slice(from, end))]);
  }
  return pairs;
}

function asText(json: string): string {
  if (!json.startsWith('"')) return compactJson(json);
  const text: unknown = JSON.parse(json);
  return String(text).toWellFormed();
}
