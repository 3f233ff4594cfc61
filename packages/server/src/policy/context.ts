import { setImmediate as nextTurn } from 'node:timers/promises';
import { compactJson } from '@sluice/protocol/json/compact';
import { findMemberProblem } from '@sluice/protocol/json/duplicates';
import { type Member, stringValue } from '@sluice/protocol/json/text';
import { MESSAGE_LIMITS, type Message, type RequestMessage } from '@sluice/protocol/mcp/message';
import { truncateCharacters } from '@sluice/protocol/text';
import { TimeSlicer } from '@sluice/protocol/time-slicer';
import type { Correlation } from '../exchange/correlation.ts';
import type { RequestHead } from '../exchange/exchange.ts';
import type { ExchangeFacts } from '../exchange/facts.ts';
import type { Principal } from '../identity/principal.ts';
import type { NamespaceState } from '../registry/snapshot.ts';
import type { CancelableInput } from '../upstreams/in-flight-calls.ts';
import type { EvaluationContext } from './sandbox/action.ts';

/** A request to evaluate, and the members that evaluation sets. */
export interface EvaluationInput extends CancelableInput {
  readonly message: Message | undefined;
  readonly correlation: Correlation;
  readonly principal: Principal;
  readonly head: Pick<RequestHead, 'address' | 'listener'>;
  readonly facts: ExchangeFacts;
  readonly metadata: Map<string, string>;
  namespace: NamespaceState | undefined;
  /** Set if evaluators run for the request. */
  evaluated: boolean;
  /** Names to which the visible tools of a list are limited. */
  selection: ReadonlySet<string> | undefined;
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
 * Builds the context for prompts and actions. Its arguments are the arguments of a tool call, or else the params without `_meta`,
 * in the order of the text. Strings are unchanged; other values are JSON whose numbers are unchanged. Arguments that are not an
 * object are one pair named `arguments`. Lone surrogates become U+FFFD, as in the action.
 *
 * Throws {@link UnevaluableRequestError} for more than 1000 arguments and for duplicate names, since upstreams differ in
 * which of the two they use; {@link checkNestedMembers} finds those within values. Names are compared up to U+0000, where
 * readers written in C end them. Yields to the event loop while it converts large values.
 */
export async function evaluatedRequest(
  { text, method, params, paramsRange, paramMembers }: RequestMessage,
  namespace: string,
  conversationId: string | undefined,
): Promise<EvaluatedRequest> {
  const isCall = method === 'tools/call';
  const request = {
    method: method.toWellFormed(),
    namespace,
    ...(isCall && typeof params.name === 'string' && { toolName: params.name.toWellFormed() }),
    ...(conversationId !== undefined && { conversationId: conversationId.toWellFormed() }),
  };
  if (paramsRange === undefined) return { ...request, arguments: [] };
  if (!isCall) return { ...request, arguments: await toPairs(text, paramMembers, '_meta') };
  const args = paramMembers.find(({ key }) => key === 'arguments');
  if (!args || args.kind === 'null') return { ...request, arguments: [] };
  if (args.members) return { ...request, arguments: await toPairs(text, args.members) };
  // Not valid for a tool, but an upstream may still read it.
  return { ...request, arguments: [[args.key, await valueText(text.slice(args.start, args.end))]] };
}

/** The context of a request without duplicate or too many members; the problem of any other one as text. */
export async function evaluableRequest(
  message: RequestMessage,
  { namespace, conversationId }: { readonly namespace: string; readonly conversationId: string | undefined },
  maxMembers: number,
): Promise<EvaluatedRequest | string> {
  try {
    const request = await evaluatedRequest(message, namespace, conversationId);
    await checkNestedMembers(message, maxMembers);
    return request;
  } catch (error) {
    if (error instanceof UnevaluableRequestError) return error.message;
    throw error;
  }
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
  const slicer = new TimeSlicer();
  for (const { key, kind, start, end } of values) {
    if ((kind !== 'object' && kind !== 'array') || (key === '_meta' && method !== 'tools/call')) continue;
    const problem = await slicer.run(findMemberProblem(text, start, end, maxMembers));
    if (problem === undefined) continue;
    const argument = `argument ${JSON.stringify(truncateCharacters(key, MAX_NAME_CHARACTERS))}`;
    if (problem.kind === 'crowded') {
      const limit = `${maxMembers} members (SERVICE_MAX_JSON_MEMBERS)`;
      throw new UnevaluableRequestError(`an object in ${argument} exceeds the limit of ${limit}`);
    }
    const member = JSON.stringify(truncateCharacters(problem.key, MAX_NAME_CHARACTERS));
    throw new UnevaluableRequestError(`duplicate member ${member} in ${argument}`);
  }
}

async function toPairs(
  text: string,
  members: Iterable<Member>,
  excluded?: string,
): Promise<[name: string, value: string][]> {
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
    pairs.push([name, await valueText(text.slice(start, end))]);
  }
  return pairs;
}

/** Length in characters from which on a value is converted in a turn of its own. */
const LARGE_CHARACTERS = 64 * 1024;

async function valueText(json: string): Promise<string> {
  if (json.length > LARGE_CHARACTERS) await nextTurn();
  if (!json.startsWith('"')) return new TimeSlicer().run(compactJson(json));
  return stringValue(json).toWellFormed();
}
