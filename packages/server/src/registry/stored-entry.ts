import { isJsonObject, type JsonObject, type JsonValue, parseJson, parseLossless } from '@sluice/protocol/json/parse';
import { elements, members } from '@sluice/protocol/json/scan';
import type { Entry, Kind, Labels, Offer } from './entries.ts';
import { joined, mcpName, registryMembers, restMembers } from './json.ts';
import { DEFAULT_NAMESPACE, parseNamespace } from './names.ts';
import { render } from './render.ts';

/**
 * Entries as `registry.json` keeps them (decisions 1.5): the management API's view, which others read, and beside it
 * what the registry itself comes back from. Of a discovered entry that is `upstream` and `overrides`, and `offers` for
 * further variants of the upstream's object, `catalogues` for who lists it, `position` for where, `copied` for a copy.
 */

/** Members of a stored hand-made entry that are not the operator's: one that has its own of these names is in `kept`. */
const RESERVED = ['source', 'kept'];
/** Members of the registry's own that an entry keeps in places of their own. */
const SEPARATE = ['name', 'namespace', 'labels', 'forward', 'upstreamName', 'shadowed', 'location'];
/** By these a resource is addressed on MCP; here it has a `location`. */
const ADDRESSES = ['uri', 'uriTemplate'];
/** Registration numbers are smaller: a larger one was not given by the registry, and counting on from it would go wrong. */
export const LARGEST_SOURCE = 10 ** 15;

/** The entry as the journal keeps it: one line, its place among those who claim its key being that of the line. */
export function storedEntry(entry: Entry): string {
  return joined(storedMembers(entry));
}

/** The entry as `registry.json` keeps it: each member on a line of its own, and marked where another holds its key. */
export function picturedEntry(entry: Entry, shadowed: boolean): string {
  const stored = storedMembers(entry);
  if (shadowed) stored.set('shadowed', 'true');
  return joined(stored, true);
}

function storedMembers(entry: Entry): Map<string, string> {
  const stored = restMembers(entry);
  if (entry.discovered) {
    const [first, ...others] = entry.discovered.offers;
    stored.set('upstream', first?.json ?? '{}');
    stored.set('overrides', JSON.stringify(entry.discovered.overrides));
    // An upstream's own members of these names are in its object above, and must not be taken for ours.
    stored.delete('catalogues');
    stored.delete('offers');
    if (first?.catalogues) stored.set('catalogues', JSON.stringify(first.catalogues));
    if (others.length > 0) {
      const offers = others.map((o) => `{"catalogues":${JSON.stringify(o.catalogues ?? null)},"upstream":${o.json}}`);
      stored.set('offers', `[${offers.join(',')}]`);
    }
    stored.set('position', String(entry.position));
    if (entry.discovered.copied) stored.set('copied', 'true');
  }
  if (RESERVED.some((member) => Object.hasOwn(entry.definition, member))) {
    stored.set('kept', JSON.stringify(entry.definition));
  }
  stored.set('source', String(entry.source));
  return stored;
}

/** What loading needs to know of an entry's forward: its registration number. */
export type SourceOfForward = (forward: string) => number | undefined;

/** An entry that was read. `shadowed`: another held its key, so that it comes back after that one. */
export interface ReadEntry {
  readonly entry: Entry;
  readonly shadowed: boolean;
}

/**
 * Reads an entry of `registry.json` or the journal. `next` numbers a hand-made entry that carries no number of its own
 * (a file written by hand). Returns why not, as text, for an entry that cannot be one. SyntaxError where something is
 * nested too deeply.
 */
export function readEntry(kind: Kind, json: string, sourceOf: SourceOfForward, next: () => number): ReadEntry | string {
  const found = textOfMembers(json);
  const namespace = parseNamespace(textIn(found, 'namespace') ?? DEFAULT_NAMESPACE);
  if (!namespace) return `invalid namespace ${found.get('namespace')}`;
  const name = textIn(found, 'name');
  if (name === undefined) return 'no name';
  const key = kind === 'resource' ? (textIn(found, 'location') ?? textIn(found, 'uri')) : name;
  if (key === undefined) return `no location for resource ${JSON.stringify(name)}`;
  const base = {
    kind,
    namespace,
    key,
    name,
    labels: readLabels(found.get('labels')),
    members: ownMembers(kind, found),
  };
  const forward = textIn(found, 'forward');
  const upstream = found.get('upstream');
  const shadowed = found.get('shadowed') === 'true';
  if (forward === undefined || upstream === undefined) {
    const source = readSource(found) ?? next();
    const definition = readDefinition(kind, found);
    return { entry: render({ ...base, source, position: 0, discovered: undefined, definition }), shadowed };
  }
  const sourceOfForward = sourceOf(forward);
  if (sourceOfForward === undefined) return `its forward ${JSON.stringify(forward)} is not registered`;
  const source = sourceOfCopy(found, sourceOfForward);
  const position: unknown = JSON.parse(found.get('position') ?? '0');
  const discovered = {
    forward,
    upstreamKey: kind === 'resource' ? key : (textIn(found, 'upstreamName') ?? name),
    offers: readOffers(upstream, found.get('catalogues'), found.get('offers')),
    overrides: readObject(found.get('overrides')),
    ...(source !== undefined && { copied: true as const }),
  };
  const place = typeof position === 'number' ? position : 0;
  const own = source ?? sourceOfForward;
  return { entry: render({ ...base, source: own, position: place, discovered, definition: {} }), shadowed };
}

/**
 * The registration number of a copy; undefined for what is none. An upstream's own member may be called `copied` too, but
 * what is not copied has its forward's number.
 */
function sourceOfCopy(found: ReadonlyMap<string, string>, sourceOfForward: number): number | undefined {
  const source = readSource(found);
  return found.get('copied') === 'true' && source !== sourceOfForward ? source : undefined;
}

/** The registration number in a stored record. */
export function readSource(found: ReadonlyMap<string, string>): number | undefined {
  const source: unknown = JSON.parse(found.get('source') ?? 'null');
  return typeof source === 'number' && Number.isInteger(source) && source > 0 && source < LARGEST_SOURCE
    ? source
    : undefined;
}

/** Labels of a stored record; values that are no text are left out. */
export function readLabels(text: string | undefined): Labels {
  const value = parseJson(text ?? '{}');
  if (!isJsonObject(value)) return {};
  return Object.fromEntries(
    Object.entries(value).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  );
}

/** The text of each member of an object; of duplicates the last. */
export function textOfMembers(json: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const { key, start, end } of members(json)) found.set(key, json.slice(start, end));
  return found;
}

/** A member that is a text. */
export function textIn(found: ReadonlyMap<string, string>, key: string): string | undefined {
  const value: unknown = JSON.parse(found.get(key) ?? 'null');
  return typeof value === 'string' ? value : undefined;
}

/** Members of the registry's own, besides those that an entry keeps in places of their own. */
function ownMembers(kind: Kind, found: ReadonlyMap<string, string>): JsonObject {
  const names = registryMembers(kind);
  const own: [string, JsonValue][] = [];
  for (const [member, text] of found) {
    if (names.includes(member) && !SEPARATE.includes(member)) own.push([member, parseLossless(text)]);
  }
  return Object.fromEntries(own);
}

function readDefinition(kind: Kind, found: ReadonlyMap<string, string>): JsonObject {
  const kept = found.get('kept');
  if (kept !== undefined) return readObject(kept);
  const skip = new Set(registryMembers(kind));
  // A number is ours; anything else of this name was written by hand.
  if (readSource(found) !== undefined) skip.add('source');
  if (kind === 'resource') for (const member of ADDRESSES) skip.add(member);
  const definition: [string, JsonValue][] = [];
  for (const [member, text] of found) {
    if (!skip.has(member)) definition.push([mcpName(kind, member), parseLossless(text)]);
  }
  return Object.fromEntries(definition);
}

function readOffers(upstream: string, catalogues: string | undefined, others: string | undefined): Offer[] {
  const offers: Offer[] = [{ json: detached(upstream), catalogues: readVariantCatalogs(catalogues) }];
  if (others === undefined) return offers;
  for (const { start, end } of elements(others)) {
    const found = textOfMembers(others.slice(start, end));
    const json = found.get('upstream');
    if (json !== undefined)
      offers.push({ json: detached(json), catalogues: readVariantCatalogs(found.get('catalogues')) });
  }
  return offers;
}

function readVariantCatalogs(text: string | undefined): readonly string[] | undefined {
  if (text === undefined) return undefined;
  const value: unknown = JSON.parse(text);
  return Array.isArray(value) ? value.filter((key) => typeof key === 'string') : undefined;
}

function readObject(text: string | undefined): JsonObject {
  if (text === undefined || text === '{}') return {};
  const value = parseLossless(text);
  return isJsonObject(value) ? value : {};
}

/** A copy that does not keep the text alive which it was cut out of. */
export function detached(text: string): string {
  return Buffer.from(text).toString();
}
