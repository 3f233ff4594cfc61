import { serviceInput, validate } from '@sluice/contract';
import { isJsonObject, type JsonObject, type JsonValue, parseJson, parseLossless } from '@sluice/protocol/json/parse';
import { elements, members } from '@sluice/protocol/json/scan';
import {
  type CacheHint,
  DEFAULT_NAMESPACE,
  type Entry,
  type Forward,
  KINDS,
  type Kind,
  type KnownCatalogue,
  type Labels,
  type Namespace,
  type Offer,
  parseNamespace,
  SECTION,
  type ServiceEntry,
  type UnknownMembers,
} from './entries.ts';
import { joined, mcpName, registryMembers, render, restMembers, serviceMembers } from './serialize.ts';

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
export function snapshotEntry(entry: Entry, shadowed: boolean): string {
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

/**
 * Namespaces, forwards and services as `registry.json` keeps them (decisions 1.5), members that it does not know
 * included.
 */

interface StoredNamespace {
  readonly name: Namespace;
  readonly labels: Labels;
  readonly unknown?: UnknownMembers | undefined;
}

const HTTP: ReadonlySet<string> = new Set(['http:', 'https:']);

const OF_NAMESPACES = ['name', 'labels'];
const OF_FORWARDS = ['name', 'address', 'namespace', 'labels', 'prefix', 'source', 'upstream', 'absent'];
/** Members of a service that the API takes too, under each of their names. */
const OF_SERVICE_INPUT = [
  ...['name', 'serviceName', 'host', 'port', 'address', 'serviceType', 'service_type'],
  ...['serviceSubType', 'languageName', 'id'],
];
/** `health` is no member of ours: whoever copies what the API answers into the file has it there. */
const OF_SERVICES = [...OF_SERVICE_INPUT, 'labels', 'source', 'health'];

/** `lines` puts each member on a line of its own, here and below. */
export function storedNamespace({ name, labels, unknown = new Map() }: StoredNamespace, lines = false): string {
  const known: [string, string][] = [
    ['name', JSON.stringify(name)],
    ['labels', JSON.stringify(labels)],
  ];
  return joined(new Map([...known, ...unknown]), lines);
}

/** A forward as `registry.json` keeps it, as JSON text: its catalogues are spelled as the upstream spelled them. */
export function storedForward(forward: Forward, lines = false): string {
  const stored = new Map<string, string>();
  for (const member of ['name', 'address', 'namespace', 'labels'] as const) {
    stored.set(member, JSON.stringify(forward[member]));
  }
  if (forward.prefix !== '') stored.set('prefix', JSON.stringify(forward.prefix));
  stored.set('source', String(forward.source));
  // The upstream's own words are joined in as text: they are kept exactly as it sent them.
  const catalogues = forward.catalogues.map(
    ({ key, era, capabilities, identity, cache }) =>
      `${JSON.stringify({ key, era, capabilities, cache }).slice(0, -1)},"identity":${identity}}`,
  );
  stored.set('upstream', `[${catalogues.join(',')}]`);
  if (forward.absent && forward.absent.length > 0) stored.set('absent', storedAbsent(forward.absent));
  for (const [member, text] of forward.unknown ?? []) stored.set(member, text);
  return joined(stored, lines);
}

/** A service as `registry.json` keeps it: what the API shows of it, without its health. */
export function storedService(entry: ServiceEntry, lines = false): string {
  const stored = new Map<string, string>();
  for (const [member, value] of Object.entries(serviceMembers(entry))) stored.set(member, JSON.stringify(value));
  stored.set('source', String(entry.source));
  for (const [member, text] of entry.unknown ?? []) stored.set(member, text);
  return joined(stored, lines);
}

/** Reads a stored namespace; a text saying why not when it cannot be one. */
export function readNamespace(json: string): StoredNamespace | string {
  const found = textOfMembers(json);
  const name = parseNamespace(textIn(found, 'name') ?? '');
  if (!name) return `invalid namespace name ${found.get('name')}`;
  return { name, labels: readLabels(found.get('labels')), unknown: unknownIn(found, OF_NAMESPACES) };
}

/** Reads a stored forward; `next` numbers one that carries no number. A text saying why not when it cannot be one. */
export function readForward(json: string, next: () => number): Forward | string {
  const found = textOfMembers(json);
  const name = textIn(found, 'name');
  const address = textIn(found, 'address');
  if (name === undefined || address === undefined) return 'name and address are required';
  const url = URL.parse(address);
  if (!url) return `invalid address ${JSON.stringify(address)}`;
  // Forwards are spoken to over HTTP (decisions 2.4); at another address there is nothing that could be looked after.
  if (!HTTP.has(url.protocol)) return `invalid address ${JSON.stringify(address)}: only http and https are spoken`;
  const namespace = parseNamespace(textIn(found, 'namespace') ?? DEFAULT_NAMESPACE);
  if (!namespace) return `invalid namespace ${found.get('namespace')}`;
  const source = readSource(found) ?? next();
  return {
    name,
    address,
    namespace,
    labels: readLabels(found.get('labels')),
    prefix: textIn(found, 'prefix') ?? '',
    source,
    catalogues: readCatalogues(found.get('upstream')),
    absent: readAbsent(found.get('absent'), source),
    unknown: unknownIn(found, OF_FORWARDS),
  };
}

/**
 * Reads a stored service by the API's own rules, so that it may be written by hand as it is sent there; `next` numbers
 * one that carries no number. A text saying why not when it cannot be one.
 */
export function readService(json: string, next: () => number): ServiceEntry | string {
  const found = textOfMembers(json);
  const given = OF_SERVICE_INPUT.map((member): [string, unknown] => [member, JSON.parse(found.get(member) ?? 'null')]);
  const result = validate(serviceInput, Object.fromEntries(given.filter(([, value]) => value !== null)));
  if ('issues' in result) return `${result.issues[0]?.path} ${result.issues[0]?.message}`;
  const { name, host, port, serviceType, serviceSubType, languageName, id } = result.value;
  return {
    name,
    host,
    port,
    serviceType,
    serviceSubType,
    languageName,
    labels: readLabels(found.get('labels')),
    id,
    source: readSource(found) ?? next(),
    unknown: unknownIn(found, OF_SERVICES),
  };
}

function storedAbsent(absent: readonly Entry[]): string {
  const sections = new Map<string, string>();
  for (const kind of KINDS) {
    const entries = absent.filter((entry) => entry.kind === kind).map((entry) => storedEntry(entry));
    if (entries.length > 0) sections.set(SECTION[kind], `[${entries.join(',')}]`);
  }
  return joined(sections);
}

function readAbsent(text: string | undefined, source: number): readonly Entry[] | undefined {
  if (text === undefined) return undefined;
  const sections = textOfMembers(text);
  const absent: Entry[] = [];
  for (const kind of KINDS) {
    const list = sections.get(SECTION[kind]) ?? '[]';
    for (const { start, end } of elements(list)) {
      const read = readEntry(
        kind,
        list.slice(start, end),
        () => source,
        () => source,
      );
      if (typeof read !== 'string' && read.entry.discovered) absent.push(read.entry);
    }
  }
  return absent;
}

function unknownIn(found: ReadonlyMap<string, string>, known: readonly string[]): UnknownMembers | undefined {
  const unknown = [...found].filter(([member]) => !known.includes(member));
  return unknown.length > 0 ? new Map(unknown.map(([member, text]) => [member, detached(text)])) : undefined;
}

function readCatalogues(text: string | undefined): KnownCatalogue[] {
  const catalogues: KnownCatalogue[] = [];
  if (text === undefined) return catalogues;
  for (const { start, end } of elements(text)) {
    const found = textOfMembers(text.slice(start, end));
    const key = textIn(found, 'key');
    const era = textIn(found, 'era') === 'modern' ? 'modern' : 'legacy';
    const capabilities = parseLossless(found.get('capabilities') ?? '{}');
    const identity = found.get('identity');
    if (key === undefined || identity === undefined || !isJsonObject(capabilities)) continue;
    catalogues.push({ key, era, capabilities, identity: detached(identity), cache: readCache(found.get('cache')) });
  }
  return catalogues;
}

function readCache(text: string | undefined): Record<string, CacheHint> {
  const hints: [string, CacheHint][] = [];
  for (const [method, json] of textOfMembers(text ?? '{}')) {
    const hint: unknown = JSON.parse(json);
    if (typeof hint !== 'object' || hint === null || !('ttlMs' in hint) || !('cacheScope' in hint)) continue;
    if (typeof hint.ttlMs !== 'number') continue;
    hints.push([method, { ttlMs: hint.ttlMs, cacheScope: hint.cacheScope === 'private' ? 'private' : 'public' }]);
  }
  return Object.fromEntries(hints);
}
