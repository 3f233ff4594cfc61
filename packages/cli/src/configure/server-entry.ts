import { isDeepStrictEqual } from 'node:util';
import { getNodeValue, parse } from 'jsonc-parser';
import {
  addMember,
  findMember,
  JsoncError,
  type Member,
  membersOf,
  parseJsonc,
  removeMember,
  replaceValue,
} from './jsonc.ts';
import type { ExistingNames } from './programs.ts';

/** Path of a server entry: the member that contains all servers, and the server name. */
export interface EntryPath {
  readonly servers: string;
  readonly name: string;
}

/** Members of an entry; undefined members are removed. */
export type ServerEntry = Readonly<Record<string, unknown>>;

/**
 * Adds or updates an entry and leaves everything else unchanged: comments, order, indentation, line breaks. Members of
 * an existing entry that `entry` does not name are kept. Empty text becomes a new document. Throws {@link JsoncError}
 * for invalid text.
 */
export function setEntry(text: string, place: EntryPath, entry: (existing: ExistingNames) => ServerEntry): string {
  const before = text.trim() === '' ? '{}\n' : text;
  const existing = findEntry(before, place);
  const wanted = entry(existingNames(existing.entry));
  const result =
    existing.entry?.value.type === 'object'
      ? mergeEntry(before, [place.servers, place.name], wanted)
      : addEntry(before, place, wanted);
  verifyEntry(result, place, wanted);
  return result;
}

/** Removes an entry; returns the same text when there is none. Throws like {@link setEntry}. */
export function removeEntry(text: string, place: EntryPath): string {
  if (text.trim() === '') return text;
  const { servers, entry } = findEntry(text, place);
  return servers === undefined || entry === undefined ? text : removeMember(text, servers.value, entry);
}

function findEntry(text: string, { servers: key, name }: EntryPath) {
  const root = parseJsonc(text);
  const servers = findMember(text, root, key);
  if (servers !== undefined && servers.value.type !== 'object') {
    throw new JsoncError(text, servers.value.offset, `"${key}" is not an object`);
  }
  return { root, servers, entry: servers && findMember(text, servers.value, name) };
}

function addEntry(text: string, place: EntryPath, wanted: ServerEntry): string {
  const { root, servers, entry } = findEntry(text, place);
  const value = JSON.parse(JSON.stringify(wanted));
  if (entry !== undefined) return replaceValue(text, entry, value);
  return servers === undefined
    ? addMember(text, root, place.servers, { [place.name]: value })
    : addMember(text, servers.value, place.name, value);
}

/** Sets one member at a time and parses again, because each edit moves the following offsets. */
function mergeEntry(text: string, path: readonly string[], wanted: ServerEntry): string {
  return Object.entries(wanted).reduce((result, [key, value]) => {
    const object = path.reduce((node, name) => findMember(result, node, name)?.value ?? node, parseJsonc(result));
    const member = findMember(result, object, key);
    if (value === undefined) return member === undefined ? result : removeMember(result, object, member);
    if (member === undefined) return addMember(result, object, key, value);
    if (isRecord(value) && member.value.type === 'object') return mergeEntry(result, [...path, key], value);
    // Equal values keep their notation.
    return isDeepStrictEqual(getNodeValue(member.value), value) ? result : replaceValue(result, member, value);
  }, text);
}

/** Verifies the result before it is shown or written. */
function verifyEntry(text: string, { servers, name }: EntryPath, wanted: ServerEntry): void {
  const entry: unknown = parse(text, [], { allowTrailingComma: true })?.[servers]?.[name];
  if (!contains(entry, wanted)) throw new Error(`the entry "${name}" was not written correctly`);
}

function contains(value: unknown, wanted: unknown): boolean {
  if (!isRecord(wanted)) return isDeepStrictEqual(value, wanted);
  return isRecord(value) && Object.entries(wanted).every(([key, member]) => contains(value[key], member));
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function existingNames(entry: Member | undefined): ExistingNames {
  const namesIn = (key: string): readonly string[] =>
    (entry === undefined ? [] : membersOf(entry.value))
      .filter((member) => member.key === key)
      .flatMap(({ value }) => membersOf(value).map((member) => member.key));
  return { headers: namesIn('headers'), env: namesIn('env') };
}
