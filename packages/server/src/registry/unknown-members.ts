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
 * Returns the unknown members of a submitted MCP object. Members that the entry has already, or that its upstream sends, are
 * known: a PUT must be able to repeat them.
 */
export function findUnknownMembers(kind: Kind, definition: JsonObject, entry?: Entry): string[] {
  const unknown = unknownMembers(kind, Object.keys(definition));
  if (unknown.length === 0 || entry === undefined) return unknown;
  const existing = existingMembers(entry);
  return unknown.filter((member) => !existing.has(member));
}

/** Members of the MCP object of an entry and of the upstream's, in any variant. */
function existingMembers({ rendered, discovered, definition }: Entry): Set<string> {
  const texts = [...rendered, ...(discovered?.variants ?? [])];
  return new Set([
    ...Object.keys(definition),
    ...texts.flatMap(({ json }) => [...members(json)].map(({ key }) => key)),
  ]);
}

/** Rejects misspelled names of the members with configuration and secrets: the entry would silently do without them. */
export function rejectMisspelledUris(kind: Kind, unknown: readonly string[]): void {
  if (kind === 'prompt') return;
  rejectUnknownMembers(
    kind,
    unknown.filter((member) => suggestUriMember(member) !== undefined),
  );
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
