import { isDeepStrictEqual } from 'node:util';
import { getNodeValue, parse } from 'jsonc-parser';
import { DocumentError, type Member, memberOf, membersOf, parseDocument } from './document.ts';
import { addMember, removeMember, replaceValue } from './members.ts';
import type { Existing } from './programs.ts';

/** Where a server's entry is in a program's configuration: the member with all servers, and the server's name. */
export interface Place {
  readonly servers: string;
  readonly name: string;
}

/** Members of an entry; one that is undefined is not to be there. */
export type Entry = Readonly<Record<string, unknown>>;

/**
 * The text of a configuration file with the entry in it, everything else as it was: comments, order, indentation, line
 * breaks. Members of an entry that is there already stay when `entry` does not name them. An empty text becomes a new
 * document. Throws {@link DocumentError} for a text that is not understood.
 */
export function withEntry(text: string, place: Place, entry: (existing: Existing) => Entry): string {
  const before = text.trim() === '' ? '{}\n' : text;
  const existing = find(before, place);
  const wanted = entry(existingOf(existing.entry));
  const result =
    existing.entry?.value.type === 'object'
      ? merged(before, [place.servers, place.name], wanted)
      : added(before, place, wanted);
  verify(result, place, wanted);
  return result;
}

/** The text without the entry; the same text when it has none. Throws like {@link withEntry}. */
export function withoutEntry(text: string, place: Place): string {
  if (text.trim() === '') return text;
  const { servers, entry } = find(text, place);
  return servers === undefined || entry === undefined ? text : removeMember(text, servers.value, entry);
}

function find(text: string, { servers: key, name }: Place) {
  const root = parseDocument(text);
  const servers = memberOf(text, root, key);
  if (servers !== undefined && servers.value.type !== 'object') {
    throw new DocumentError(text, servers.value.offset, `"${key}" is not an object`);
  }
  return { root, servers, entry: servers && memberOf(text, servers.value, name) };
}

function added(text: string, place: Place, wanted: Entry): string {
  const { root, servers, entry } = find(text, place);
  const value = JSON.parse(JSON.stringify(wanted));
  if (entry !== undefined) return replaceValue(text, entry, value);
  return servers === undefined
    ? addMember(text, root, place.servers, { [place.name]: value })
    : addMember(text, servers.value, place.name, value);
}

/** One member after the other, each found anew, since the one before has moved it. */
function merged(text: string, path: readonly string[], wanted: Entry): string {
  return Object.entries(wanted).reduce((result, [key, value]) => {
    const object = path.reduce((node, name) => memberOf(result, node, name)?.value ?? node, parseDocument(result));
    const member = memberOf(result, object, key);
    if (value === undefined) return member === undefined ? result : removeMember(result, object, member);
    if (member === undefined) return addMember(result, object, key, value);
    if (isRecord(value) && member.value.type === 'object') return merged(result, [...path, key], value);
    // A value that says the same already stays as it is written.
    return isDeepStrictEqual(getNodeValue(member.value), value) ? result : replaceValue(result, member, value);
  }, text);
}

/** What has been made must say what was meant, before it is shown to anyone. */
function verify(text: string, { servers, name }: Place, wanted: Entry): void {
  const entry: unknown = parse(text, [], { allowTrailingComma: true })?.[servers]?.[name];
  if (!says(entry, wanted)) throw new Error(`the entry "${name}" was not written as it should be`);
}

function says(value: unknown, wanted: unknown): boolean {
  if (!isRecord(wanted)) return isDeepStrictEqual(value, wanted);
  return isRecord(value) && Object.entries(wanted).every(([key, member]) => says(value[key], member));
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function existingOf(entry: Member | undefined): Existing {
  const namesIn = (key: string): readonly string[] =>
    (entry === undefined ? [] : membersOf(entry.value))
      .filter((member) => member.key === key)
      .flatMap(({ value }) => membersOf(value).map((member) => member.key));
  return { headers: namesIn('headers'), env: namesIn('env') };
}
