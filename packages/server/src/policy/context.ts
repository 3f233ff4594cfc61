import { setImmediate as nextTurn } from 'node:timers/promises';
import { findMemberProblem } from '@sluice/protocol/json/duplicates';
import { type Member, stringValue } from '@sluice/protocol/json/text';
import { MESSAGE_LIMITS, type Message, type RequestMessage } from '@sluice/protocol/mcp/message';
import { truncateCharacters } from '@sluice/protocol/text';
import type { NamespaceState } from '../registry/snapshot.ts';
import type { Correlation } from '../telemetry/caller.ts';
import type { RequestObservation } from '../telemetry/request-telemetry.ts';
import type { CancelableInput } from '../upstreams/mcp/relay/in-flight-calls.ts';
import type { EvaluationContext } from './sandbox/action.ts';

/** A request to evaluate, and the members that evaluation sets. */
export interface EvaluationInput extends CancelableInput {
  readonly message: Message | undefined;
  readonly correlation: Correlation;
  /** The user that an authenticating proxy names. */
  readonly user: string | undefined;
  readonly observation: RequestObservation | undefined;
  readonly metadata: Map<string, string>;
  namespace: NamespaceState | undefined;
  /** Set if evaluators run for the request. */
  evaluated: boolean;
  /** Names of the tools that `tools/list` returns. */
  onlyTools: ReadonlySet<string> | undefined;
}

/** The evaluation context without the output of the LLM. */
export type EvaluatedRequest = Omit<EvaluationContext, 'llmResult'>;

/** Limit for LLMs and actions (docs/evaluators.md). */
const MAX_ARGUMENTS = 1000;

/**
 * A request that cannot be evaluated, and is rejected regardless of `on_error`: a client must not bypass an evaluator with
 * a request that is too large for it, or that an upstream may read differently.
 */
export class UnevaluableRequestError extends Error {}

/**
 * Builds the context for prompts and actions (spec "Evaluation context", decisions 2.11). Its arguments are the arguments
 * of a tool call, or else the params without `_meta`, in the order of the text. Strings are unchanged; other values are
 * JSON whose numbers are unchanged. Arguments that are not an object are one pair named `arguments`. Lone surrogates
 * become U+FFFD, as in the action.
 *
 * Throws {@link UnevaluableRequestError} for more than 1000 arguments and for duplicate names, since upstreams differ in
 * which of the two they use; {@link checkNestedMembers} finds those within values. Names are compared up to U+0000, where
 * readers written in C end them.
 */
export function evaluatedRequest(
  { text, method, params, paramsRange, paramMembers }: RequestMessage,
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
  if (!isCall) return { ...request, arguments: toPairs(text, paramMembers, '_meta') };
  const args = paramMembers.find(({ key }) => key === 'arguments');
  if (!args || args.kind === 'null') return { ...request, arguments: [] };
  if (args.members) return { ...request, arguments: toPairs(text, args.members) };
  // Not valid for a tool, but an upstream may still read it.
  return { ...request, arguments: [[args.key, valueText(text.slice(args.start, args.end))]] };
}

/** Names in messages, which the client chooses. */
const MAX_NAME_CHARACTERS = 100;

/**
 * Throws {@link UnevaluableRequestError} if an object at any depth of the arguments has a member twice, since the action
 * would see one of them and the upstream might use the other, or more than `maxMembers` members. Yields to the event loop,
 * since the client chooses how many members there are.
 */
export async function checkNestedMembers(
  { text, method, paramMembers }: RequestMessage,
  maxMembers: number = MESSAGE_LIMITS.members,
): Promise<void> {
  const args = method === 'tools/call' ? paramMembers.find(({ key }) => key === 'arguments') : undefined;
  const values = method === 'tools/call' ? (args?.members ?? (args ? [args] : [])) : paramMembers;
  for (const { key, kind, start, end } of values) {
    if ((kind !== 'object' && kind !== 'array') || (key === '_meta' && method !== 'tools/call')) continue;
    const search = findMemberProblem(text, start, end, maxMembers);
    let result = search.next();
    while (!result.done) {
      await nextTurn();
      result = search.next();
    }
    if (result.value === undefined) continue;
    const argument = `argument ${JSON.stringify(truncateCharacters(key, MAX_NAME_CHARACTERS))}`;
    if (result.value.kind === 'crowded') {
      const limit = `${maxMembers} members (SERVICE_MAX_JSON_MEMBERS)`;
      throw new UnevaluableRequestError(`an object in ${argument} exceeds the limit of ${limit}`);
    }
    const member = JSON.stringify(truncateCharacters(result.value.key, MAX_NAME_CHARACTERS));
    throw new UnevaluableRequestError(`duplicate member ${member} in ${argument}`);
  }
}

function toPairs(text: string, members: Iterable<Member>, excluded?: string): [name: string, value: string][] {
  const pairs: [string, string][] = [];
  const names = new Set<string>();
  for (const { key, start, end } of members) {
    if (key === excluded) continue;
    if (pairs.length === MAX_ARGUMENTS) {
      throw new UnevaluableRequestError(`too many arguments: evaluated requests may have at most ${MAX_ARGUMENTS}`);
    }
    const name = key.toWellFormed();
    const [comparedName = ''] = name.split('\0');
    if (names.has(comparedName)) {
      throw new UnevaluableRequestError(`duplicate argument ${JSON.stringify(comparedName)}`);
    }
    names.add(comparedName);
    pairs.push([name, valueText(text.slice(start, end))]);
  }
  return pairs;
}

function valueText(json: string): string {
  if (!json.startsWith('"')) return compactJson(json);
  return stringValue(json).toWellFormed();
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const SLASH = 0x2f;
const LETTER_U = 0x75;
const SPACE = 0x20;
const WHITESPACE_OR_ESCAPE = /[ \t\n\r\\]/;

/**
 * Removes whitespace from JSON and writes its strings as `JSON.stringify` does, so that escapes hide nothing. Numbers and
 * the order of members are unchanged, and duplicates remain. Expects valid JSON.
 *
 * One pass over the bytes, since the sender chooses the number of values: with a string for each, 4 MiB take a
 * second.
 */
export function compactJson(json: string): string {
  if (!WHITESPACE_OR_ESCAPE.test(json)) return json;
  const bytes = Buffer.from(json);
  // No string becomes longer, so it is rewritten in place.
  let length = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] ?? SPACE;
    // Smaller bytes outside of strings are whitespace.
    if (byte <= SPACE) continue;
    if (byte !== QUOTE) {
      bytes[length++] = byte;
      continue;
    }
    const end = endOfString(bytes, at);
    length += end < 0 ? rewriteString(bytes, at, -end, length) : bytes.copy(bytes, length, at, end);
    at = Math.abs(end) - 1;
  }
  return bytes.toString('utf8', 0, length);
}

/** Returns the position after the string that starts at `start`, negated if it may have unnecessary escapes. */
function endOfString(bytes: Buffer, start: number): number {
  let mayBeShorter = false;
  let at = start + 1;
  for (; bytes[at] !== QUOTE && at < bytes.length; at++) {
    if (bytes[at] !== BACKSLASH) continue;
    const escaped = bytes[++at];
    mayBeShorter ||= escaped === LETTER_U || escaped === SLASH;
  }
  return mayBeShorter ? -at - 1 : at + 1;
}

/** Writes the string between `start` and `end` to `target`; returns its new length in bytes. */
function rewriteString(bytes: Buffer, start: number, end: number, target: number): number {
  return bytes.write(JSON.stringify(JSON.parse(bytes.toString('utf8', start, end))), target);
}
