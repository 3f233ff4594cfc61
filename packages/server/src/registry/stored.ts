import { serviceInput, validate } from '@sluice/contract';
import { isJsonObject, parseLossless } from '@sluice/protocol/json/parse';
import { elements } from '@sluice/protocol/json/scan';
import {
  type CacheHint,
  type Entry,
  type Forward,
  KINDS,
  type KnownCatalogue,
  type Labels,
  SECTION,
  type ServiceEntry,
  type UnknownMembers,
} from './entries.ts';
import { joined } from './json.ts';
import { DEFAULT_NAMESPACE, type Namespace, parseNamespace } from './names.ts';
import { serviceMembers } from './service-body.ts';
import { detached, readEntry, readLabels, readSource, storedEntry, textIn, textOfMembers } from './stored-entry.ts';

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
