import { isJsonObject, type JsonObject, type JsonValue, parseLossless } from '../json/lossless.ts';
import { members, memberText } from '../json/scan.ts';
import { type Discovered, type Entry, FORWARD_TYPE, type Kind, type Labels, type Offer } from './entries.ts';
import { DEFAULT_NAMESPACE, parseNamespace } from './names.ts';
import { render } from './render.ts';

/**
 * Entries as JSON text: what the management API answers and `registry.json` keeps (decisions 1.5, 2.5 to 2.7). Works on
 * text, so that what an upstream or an operator spelled stays spelled so, and 100,000 entries cost no parsing.
 */

/** How the members of one kind's MCP object and of its registry entry are called over REST. */
interface Spelling {
  /** Members of the registry's own, besides name, namespace, labels, forward, upstreamName and shadowed. */
  readonly registry: readonly string[];
  /** MCP name to REST name, where they differ. */
  readonly rename: Readonly<Record<string, string>>;
  /** REST members that are always there, with the text of their default. */
  readonly defaults: Readonly<Record<string, string>>;
}

const SPELLING: Readonly<Record<Kind, Spelling>> = {
  tool: {
    registry: ['uri', 'toolType', 'configurationURI', 'secretsURI', 'id'],
    rename: { inputSchema: 'input_schema', outputSchema: 'output_schema' },
    defaults: { description: '""', input_schema: '{}' },
  },
  resource: {
    registry: ['location', 'type', 'params', 'configurationURI', 'secretsURI', 'id'],
    rename: {},
    defaults: { description: '""', mimeType: '""' },
  },
  prompt: {
    registry: ['configurationURI', 'id', 'messages'],
    rename: {},
    defaults: { description: '""', arguments: '[]', messages: '[]' },
  },
};

const COMMON = ['name', 'namespace', 'labels', 'forward', 'upstreamName', 'shadowed'];
/**
 * Members of stored entries that the API does not emit. `offers` holds further variants of an upstream's object, `kept`
 * a hand-made entry's members of these same names.
 */
const STORED = ['upstream', 'overrides', 'catalogues', 'offers', 'source', 'position', 'kept'];

/** REST's own names of one kind's registry members: what an upstream's members of these names give way to. */
export function registryMembers(kind: Kind): readonly string[] {
  return [...COMMON, ...SPELLING[kind].registry];
}

/** REST's name of an MCP member. */
export function restName(kind: Kind, member: string): string {
  const { rename } = SPELLING[kind];
  return (Object.hasOwn(rename, member) ? rename[member] : undefined) ?? member;
}

/** MCP's name of a REST member. */
export function mcpName(kind: Kind, member: string): string {
  for (const [mcp, rest] of Object.entries(SPELLING[kind].rename)) if (rest === member) return mcp;
  return member;
}

/** The entry as the management API shows it: JSON text of one object. */
export function entryJson(entry: Entry, shadowed = false): string {
  const shown = restMembers(entry);
  if (shadowed) shown.set('shadowed', 'true');
  return joined(shown, ',');
}

/** The entry as the journal keeps it: one line, its place among those who claim its key being that of the line. */
export function storedEntry(entry: Entry): string {
  return joined(storedMembers(entry), ',');
}

/** The entry as `registry.json` keeps it: each member on a line of its own, and marked where another holds its key. */
export function picturedEntry(entry: Entry, shadowed: boolean): string {
  const stored = storedMembers(entry);
  if (shadowed) stored.set('shadowed', 'true');
  return joined(stored, ',\n');
}

/** True for the stored text of an entry that another keeps from its key: it comes back after the holder. */
export function isStoredShadowed(json: string): boolean {
  return memberText(json, 'shadowed') === 'true';
}

function storedMembers(entry: Entry): Map<string, string> {
  const stored = restMembers(entry);
  if (entry.discovered) {
    const [first, ...others] = entry.discovered.offers;
    stored.set('upstream', first?.json ?? '{}');
    stored.set('overrides', JSON.stringify(entry.discovered.overrides));
    if (first?.catalogues) stored.set('catalogues', JSON.stringify(first.catalogues));
    if (others.length > 0) {
      const offers = others.map((o) => `{"catalogues":${JSON.stringify(o.catalogues ?? null)},"upstream":${o.json}}`);
      stored.set('offers', `[${offers.join(',')}]`);
    }
    stored.set('position', String(entry.position));
  }
  // An operator's own members of these names would be lost behind the registry's.
  const kept = Object.entries(entry.definition).filter(([member]) => STORED.includes(member));
  if (kept.length > 0) stored.set('kept', JSON.stringify(Object.fromEntries(kept)));
  stored.set('source', String(entry.source));
  return stored;
}

function joined(shown: Map<string, string>, separator: string): string {
  const parts: string[] = [];
  const space = separator === ',' ? '' : ' ';
  for (const [key, text] of shown) parts.push(`${space && '  '}${JSON.stringify(key)}:${space}${text}`);
  return space ? `{\n${parts.join(separator)}\n}` : `{${parts.join(separator)}}`;
}

function restMembers(entry: Entry): Map<string, string> {
  const { kind } = entry;
  const shown = new Map<string, string>([
    ['name', JSON.stringify(entry.name)],
    ['namespace', JSON.stringify(entry.namespace)],
  ]);
  for (const [key, text] of Object.entries(SPELLING[kind].defaults)) shown.set(key, text);
  const own = new Set(registryMembers(kind));
  // The upstream addresses a resource by `uri` or `uriTemplate`; over REST both are `location`.
  if (kind === 'resource') own.add('uri').add('uriTemplate');
  for (const [key, text] of mcpMembers(entry)) {
    const name = restName(kind, key);
    if (!own.has(name)) shown.set(name, text);
  }
  for (const [key, value] of Object.entries(entry.members)) shown.set(key, JSON.stringify(value));
  if (kind === 'resource') shown.set('location', JSON.stringify(entry.key));
  shown.set('labels', JSON.stringify(entry.labels));
  if (entry.discovered) {
    shown.set('forward', JSON.stringify(entry.discovered.forward));
    if (kind !== 'resource' && entry.discovered.upstreamKey !== entry.key) {
      shown.set('upstreamName', JSON.stringify(entry.discovered.upstreamKey));
    }
  }
  return shown;
}

/** Members of the served MCP object as text; a hand-made entry keeps empty ones too. */
function* mcpMembers(entry: Entry): Generator<[string, string]> {
  if (!entry.discovered) {
    for (const [key, value] of Object.entries(entry.definition)) yield [key, JSON.stringify(value)];
    return;
  }
  const json = entry.served[0]?.json ?? '{}';
  for (const { key, start, end } of members(json)) yield [key, json.slice(start, end)];
}

/** What loading needs to know of an entry's forward. */
export type SourceOfForward = (forward: string) => number | undefined;

/**
 * Reads an entry of `registry.json` or the journal. `next` numbers a hand-made entry that carries no number of its own
 * (a file written by hand). Returns why not, as text, for an entry that cannot be one.
 */
export function readEntry(kind: Kind, json: string, sourceOf: SourceOfForward, next: () => number): Entry | string {
  const found = new Map<string, string>();
  for (const { key, start, end } of members(json)) found.set(key, json.slice(start, end));
  const text = (key: string): string | undefined => {
    const value: unknown = JSON.parse(found.get(key) ?? 'null');
    return typeof value === 'string' ? value : undefined;
  };
  const namespace = parseNamespace(text('namespace') ?? DEFAULT_NAMESPACE);
  if (!namespace) return `invalid namespace ${found.get('namespace')}`;
  const name = text('name');
  if (name === undefined) return 'no name';
  const key = kind === 'resource' ? text('location') : name;
  if (key === undefined) return 'no location';
  const numberOf = (member: string): number | undefined => {
    const value: unknown = JSON.parse(found.get(member) ?? 'null');
    return typeof value === 'number' ? value : undefined;
  };
  const own: JsonObject = {};
  for (const member of SPELLING[kind].registry) {
    const value = found.get(member);
    if (value !== undefined && member !== 'location') own[member] = parseLossless(value);
  }
  const base = { kind, namespace, key, name, labels: readLabels(found.get('labels')), members: own };
  const forward = text('forward');
  const upstream = found.get('upstream');
  if (forward !== undefined && upstream !== undefined) {
    const source = sourceOf(forward);
    if (source === undefined) return `its forward ${JSON.stringify(forward)} is not registered`;
    const discovered: Discovered = {
      forward,
      upstreamKey: kind === 'resource' ? (uriOf(upstream) ?? key) : (text('upstreamName') ?? name),
      offers: readOffers(detached(upstream), found.get('catalogues'), found.get('offers')),
      overrides: readObject(found.get('overrides')),
    };
    return render({ ...base, source, position: numberOf('position') ?? 0, discovered, definition: {} });
  }
  const definition: JsonObject = {};
  const skip = new Set([...registryMembers(kind), ...STORED]);
  for (const [member, value] of found) {
    if (!skip.has(member)) definition[mcpName(kind, member)] = parseLossless(value);
  }
  Object.assign(definition, readObject(found.get('kept')));
  const source = numberOf('source') ?? next();
  return render({ ...base, source, position: 0, discovered: undefined, definition });
}

function uriOf(upstream: string): string | undefined {
  for (const { key, start, end } of members(upstream)) {
    if (key === 'uri' || key === 'uriTemplate') return String(JSON.parse(upstream.slice(start, end)));
  }
  return undefined;
}

function readOffers(upstream: string, catalogues: string | undefined, others: string | undefined): Offer[] {
  const offers: Offer[] = [{ json: upstream, catalogues: readCatalogues(catalogues) }];
  const more: JsonValue = parseLossless(others ?? '[]');
  for (const offer of Array.isArray(more) ? more : []) {
    if (!isJsonObject(offer)) continue;
    offers.push({ json: JSON.stringify(offer.upstream), catalogues: readCatalogues(JSON.stringify(offer.catalogues)) });
  }
  return offers;
}

function readCatalogues(text: string | undefined): readonly string[] | undefined {
  const value: unknown = JSON.parse(text ?? 'null');
  return Array.isArray(value) ? value.filter((key) => typeof key === 'string') : undefined;
}

function readObject(text: string | undefined): JsonObject {
  const value = parseLossless(text ?? '{}');
  return isJsonObject(value) ? value : {};
}

/** Labels of a stored record; values that are no text are left out. */
export function readLabels(text: string | undefined): Labels {
  const value: unknown = JSON.parse(text ?? '{}');
  if (!isJsonObject(value)) return {};
  return Object.fromEntries(
    Object.entries(value).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  );
}

/** A copy that does not keep the whole file's text alive, as a slice of it would. */
function detached(text: string): string {
  return Buffer.from(text).toString();
}

/** Registry members of a discovered entry: its upstream's address and the type of what forwards bring. */
export function discoveredMembers(kind: Kind, address: string): JsonObject {
  if (kind === 'tool') return { uri: address, toolType: FORWARD_TYPE };
  if (kind === 'resource') return { type: FORWARD_TYPE };
  return { configurationURI: address };
}
