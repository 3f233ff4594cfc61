import {
  didYouMean,
  type EntryWarning,
  suggestMember,
  suggestUriMember,
  unknownField,
  unknownMembers,
} from '@sluice/contract';
import type { JsonObject } from '@sluice/protocol/json/parse';
import { members } from '@sluice/protocol/json/text';
import type { Entry, Kind } from './entries.ts';
import { OperationError } from './operation-error.ts';

/** Unknown members that an error or a response lists. */
const MAX_LISTED = 20;

/** Receives the unknown members of a submitted entry; throws to reject them. */
export type OnUnknownMembers = (unknown: readonly string[]) => void;

/**
 * Passes the unknown members of a submitted MCP object to `onUnknown`. Members that the entry has already, or that its upstream
 * sends, are known: a PUT must be able to repeat them. OperationError BAD_REQUEST for misspelled names of the members with
 * configuration and secrets: the entry would silently do without them.
 */
export function checkUnknownMembers(
  kind: Kind,
  definition: JsonObject,
  onUnknown: OnUnknownMembers,
  entry?: Entry,
): void {
  const named = unknownMembers(kind, Object.keys(definition));
  const existing = named.length > 0 && entry ? existingMembers(entry) : new Set();
  const unknown = named.filter((member) => !existing.has(member));
  const isMisspelled = (member: string) => kind !== 'prompt' && suggestUriMember(member) !== undefined;
  rejectUnknownMembers(kind, unknown.filter(isMisspelled));
  onUnknown(unknown);
}

/** Members of the MCP object of an entry and of the upstream's, in any variant. */
function existingMembers({ rendered, discovered, definition }: Entry): Set<string> {
  const texts = [...rendered, ...(discovered?.variants ?? [])];
  return new Set([
    ...Object.keys(definition),
    ...texts.flatMap(({ json }) => [...members(json)].map(({ key }) => key)),
  ]);
}

/** Rejects unknown members. OperationError BAD_REQUEST with the likeliest right names. */
export function rejectUnknownMembers(kind: Kind, unknown: readonly string[]): void {
  const [first] = unknown;
  if (first === undefined) return;
  throw new OperationError(
    'BAD_REQUEST',
    `invalid ${kind}: ${first} ${rejection(kind, first)}`,
    unknown.slice(0, MAX_LISTED).map((member) => ({ path: member, message: rejection(kind, member) })),
  );
}

/** Warnings about unknown members that are stored; undefined without any. */
export function unknownMemberWarnings(kind: Kind, unknown: readonly string[]): EntryWarning[] | undefined {
  if (unknown.length === 0) return undefined;
  return unknown.slice(0, MAX_LISTED).map((member) => {
    const suggestion = suggestMember(kind, member);
    const advice = suggestion === undefined ? undefined : didYouMean(suggestion);
    return { code: 'UNKNOWN_MEMBER', member, message: `${member} ${unknownField(advice, 'is stored')}` };
  });
}

function rejection(kind: Kind, member: string): string {
  const suggestion = suggestMember(kind, member);
  return unknownField(suggestion === undefined ? 'names of additional fields begin with "x-"' : didYouMean(suggestion));
}
