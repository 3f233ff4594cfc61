import {
  type Expose,
  expose,
  forwardHeaders,
  forwardProxy,
  mergeExpose,
  serviceInput,
  validate,
} from '@sluice/contract';
import { isJsonObject, type JsonObject, type JsonValue, parseJson, parseLossless } from '@sluice/protocol/json/parse';
import { elements, memberTexts } from '@sluice/protocol/json/text';
import { detach } from '@sluice/protocol/text';
import { z } from 'zod';
import {
  DEFAULT_NAMESPACE,
  type DisabledBy,
  type Discovered,
  type Entry,
  type EntryVariant,
  type Forward,
  KINDS,
  type Kind,
  type KnownCatalog,
  type Labels,
  type Namespace,
  parseNamespace,
  SECTION,
  type ServiceEntry,
  type UnknownMembers,
} from './entries.ts';
import {
  forwardMembers,
  type InternedFields,
  internFields,
  isOwnMember,
  isRegistryMember,
  mcpName,
  NONE,
  objectText,
  render,
  restMembers,
  serviceMembers,
} from './serialize.ts';
import type { NamespaceState } from './snapshot.ts';

/**
 * Stored form of entries in `registry.json`: the management API's view, for other readers, and the members from which the
 * registry is restored. For a discovered entry those are `upstream` and `overrides`, `offers` for further variants of the
 * upstream's object, `catalogues` for the catalogs that list it, `position` for its position, `copied` for a copy, and `operator`
 * for what operators decided about it besides (see {@link OperatorState}).
 */

/**
 * Members of a stored manual entry that are not the operator's; the operator's own members of these names are in
 * `kept`.
 */
const RESERVED = ['source', 'kept'];
/**
 * Registration ids are smaller: a larger one was not assigned by the registry, and incrementing it would be inexact.
 */
export const MAX_REGISTRATION_ID = 10 ** 15;

/** Serializes an entry. `shadowed`: another entry is served under its key. */
export function storedEntry(entry: Entry, shadowed = false): string {
  const stored = storedMembers(entry);
  if (shadowed) stored.set('shadowed', 'true');
  return linesText(stored);
}

/** Whether another entry is served under the key of a stored one. */
export function isShadowed(json: string): boolean {
  return memberTexts(json).get('shadowed') === 'true';
}

/** An object of these members, each on its own line. */
function linesText(texts: ReadonlyMap<string, string>): string {
  const lines = Array.from(texts, ([key, text]) => `  ${JSON.stringify(key)}: ${text}`);
  return `{\n${lines.join(',\n')}\n}`;
}

function storedMembers(entry: Entry): Map<string, string> {
  const stored = restMembers(entry);
  if (entry.discovered) {
    const [first, ...others] = entry.discovered.variants;
    stored.set('upstream', first?.json ?? '{}');
    stored.set('overrides', JSON.stringify(entry.discovered.overrides));
    // An upstream's own members of these names are in its object above, and must not be confused with those of the registry.
    stored.delete('catalogues');
    stored.delete('offers');
    stored.delete('operator');
    if (first?.catalogs) stored.set('catalogues', JSON.stringify(first.catalogs));
    if (others.length > 0) {
      const additional = others.map(
        ({ catalogs, json }) => `{"catalogues":${JSON.stringify(catalogs ?? null)},"upstream":${json}}`,
      );
      stored.set('offers', `[${additional.join(',')}]`);
    }
    stored.set('position', String(entry.position));
    if (entry.discovered.copied) stored.set('copied', 'true');
    const operator = operatorState(entry, entry.discovered);
    if (operator !== undefined) stored.set('operator', operator);
  }
  if (RESERVED.some((member) => Object.hasOwn(entry.definition, member))) {
    stored.set('kept', JSON.stringify(entry.definition));
  }
  stored.set('source', String(entry.registrationId));
  return stored;
}

/** Stored in an object of its own, because an upstream may have members of these names. */
type OperatorState = Pick<Entry, 'disabledBy'> & Pick<Discovered, 'moved' | 'renamed' | 'approved'>;

const DISABLED_BY: readonly DisabledBy[] = ['operator', 'original', 'new'];

function operatorState({ disabledBy }: Entry, { moved, renamed, approved }: Discovered): string | undefined {
  const state: OperatorState = { disabledBy, moved, renamed, approved };
  const text = JSON.stringify(state);
  return text === '{}' ? undefined : text;
}

function readOperatorState(text: string | undefined): OperatorState {
  const { disabledBy, moved, renamed, approved } = readObject(text);
  return {
    disabledBy: DISABLED_BY.find((reason) => reason === disabledBy),
    moved: moved === true || undefined,
    renamed: renamed === true || undefined,
    approved: approved === true || undefined,
  };
}

/** What an entry inherits from its forward. */
export interface ForwardOfEntry extends Pick<Forward, 'name' | 'registrationId' | 'namespace' | 'prefix'> {
  /** Those that all of its entries usually have. */
  readonly members?: InternedFields;
}
/** Returns a forward. */
export type FindForward = (forward: string) => ForwardOfEntry | undefined;

/** An entry that was read. `shadowed`: another entry was served under its key and has to be restored first. */
export interface ReadEntry {
  readonly entry: Entry;
  readonly shadowed: boolean;
}

/** The forward of a stored entry is not registered. */
export class MissingForwardError extends Error {
  override readonly name = 'MissingForwardError';

  constructor(forward: string) {
    super(`forward ${JSON.stringify(forward)} is not registered`);
  }
}

/**
 * Reads an entry of `registry.json` or the journal. `next` creates the registration id of an entry without one, as in a
 * file written by hand. Like the functions that read other records, throws an error with what is wrong with an invalid one.
 */
export function readEntry(kind: Kind, json: string, findForward: FindForward, next: () => number): ReadEntry {
  const found = memberTexts(json);
  const namespace = namespaceIn(found);
  const name = textIn(found, 'name');
  if (name === undefined) throw new Error('no name');
  const key = kind === 'resource' ? (textIn(found, 'location') ?? textIn(found, 'uri')) : name;
  if (key === undefined) throw new Error(`no location for resource ${JSON.stringify(name)}`);
  const base = { kind, namespace, key, name, labels: readLabels(found.get('labels')) };
  const members = ownMembers(kind, found);
  const forward = textIn(found, 'forward');
  const upstream = found.get('upstream');
  const shadowed = found.get('shadowed') === 'true';
  if (forward === undefined || upstream === undefined) {
    const entry = render({
      ...base,
      members,
      // A manual entry is disabled by a member of its own, which a file written by hand may have as well.
      disabledBy: found.get('enabled') === 'false' ? 'operator' : undefined,
      registrationId: readRegistrationId(found) ?? next(),
      position: 0,
      discovered: undefined,
      definition: readDefinition(kind, found),
    });
    return { entry, shadowed };
  }
  const home = findForward(forward);
  if (home === undefined) throw new MissingForwardError(forward);
  const id = readRegistrationId(found);
  // An upstream may have a member named `copied` as well, but an entry that is not a copy has the id of its forward.
  const copyId = found.get('copied') === 'true' && id !== home.registrationId ? id : undefined;
  const position: unknown = JSON.parse(found.get('position') ?? '0');
  const upstreamKey = kind === 'resource' ? key : (textIn(found, 'upstreamName') ?? name);
  const { disabledBy, moved, renamed, approved } = readOperatorState(found.get('operator'));
  const discovered = {
    forward: home.name,
    upstreamKey,
    variants: readVariants(upstream, found.get('catalogues'), found.get('offers')),
    overrides: readObject(found.get('overrides')),
    ...(copyId !== undefined && { copied: true as const }),
    ...(moved && { moved }),
    ...(renamed && { renamed }),
    ...(approved && { approved }),
  };
  const entry = render({
    ...base,
    // Strings and objects of the forward, which has one of each.
    namespace: namespace === home.namespace ? home.namespace : namespace,
    members: home.members ? internFields(members, home.members[kind]) : members,
    registrationId: copyId ?? home.registrationId,
    position: typeof position === 'number' ? position : 0,
    discovered,
    definition: NONE,
    disabledBy,
  });
  return { entry, shadowed };
}

function readRegistrationId(found: ReadonlyMap<string, string>): number | undefined {
  const id: unknown = JSON.parse(found.get('source') ?? 'null');
  return typeof id === 'number' && Number.isInteger(id) && id > 0 && id < MAX_REGISTRATION_ID ? id : undefined;
}

/** Labels of a stored record, without values that are not strings. */
function readLabels(text: string | undefined): Labels {
  if (text === undefined || text === '{}') return NONE;
  const value = parseJson(text);
  if (!isJsonObject(value)) return NONE;
  return Object.fromEntries(
    Object.entries(value).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  );
}

/** The text of each element of an array. */
function* textOfElements(json = '[]'): Generator<string> {
  for (const { start, end } of elements(json)) yield json.slice(start, end);
}

/** The value of a string member. */
function textIn(found: ReadonlyMap<string, string>, key: string): string | undefined {
  const value: unknown = JSON.parse(found.get(key) ?? 'null');
  return typeof value === 'string' ? value : undefined;
}

function namespaceIn(found: ReadonlyMap<string, string>): Namespace {
  const namespace = parseNamespace(textIn(found, 'namespace') ?? DEFAULT_NAMESPACE);
  if (!namespace) throw new Error(`invalid namespace ${found.get('namespace')}`);
  return namespace;
}

function ownMembers(kind: Kind, found: ReadonlyMap<string, string>): JsonObject {
  const own: [string, JsonValue][] = [];
  for (const [member, text] of found) if (isOwnMember(kind, member)) own.push([member, parseLossless(text)]);
  return Object.fromEntries(own);
}

function readDefinition(kind: Kind, found: ReadonlyMap<string, string>): JsonObject {
  const stored = found.get('kept');
  if (stored !== undefined) return readObject(stored);
  // A number is the registration id; any other value was written manually.
  const hasId = readRegistrationId(found) !== undefined;
  const definition = [...found].filter(
    ([member]) => !isRegistryMember(kind, member) && !(hasId && member === 'source'),
  );
  return Object.fromEntries(definition.map(([member, text]) => [mcpName(kind, member), parseLossless(text)]));
}

function readVariants(upstream: string, catalogs: string | undefined, others: string | undefined): EntryVariant[] {
  const variants: EntryVariant[] = [{ json: detach(upstream), catalogs: readVariantCatalogs(catalogs) }];
  for (const other of textOfElements(others)) {
    const found = memberTexts(other);
    const json = found.get('upstream');
    if (json !== undefined)
      variants.push({ json: detach(json), catalogs: readVariantCatalogs(found.get('catalogues')) });
  }
  return variants;
}

function readVariantCatalogs(text: string | undefined): readonly string[] | undefined {
  if (text === undefined) return undefined;
  const value: unknown = JSON.parse(text);
  return Array.isArray(value) ? value.filter((key) => typeof key === 'string') : undefined;
}

function readObject(text: string | undefined): JsonObject {
  if (text === undefined || text === '{}') return NONE;
  const value = parseLossless(text);
  return isJsonObject(value) ? value : NONE;
}

/**
 * Namespaces, forwards and services in `registry.json`, with their unknown members.
 */

type StoredNamespace = Pick<NamespaceState, 'name' | 'labels' | 'unknown'>;

/** Returns what is wrong with the address of a forward, as a predicate; undefined for a valid one. */
export type AddressCheck = (address: string) => string | undefined;

const NAMESPACE_MEMBERS = ['name', 'labels'];
const FORWARD_MEMBERS = [
  ...['name', 'address', 'namespace', 'labels', 'prefix', 'headers', 'expose', 'proxy', 'compression'],
  ...['source', 'upstream', 'absent', 'modern_probe_after'],
];
/** Members of a service that the API accepts, with their aliases. */
const SERVICE_INPUT_MEMBERS = [
  ...['name', 'serviceName', 'host', 'port', 'address', 'serviceType', 'service_type'],
  ...['serviceSubType', 'languageName', 'id'],
];
/** `health` is present in records copied from API responses. */
const SERVICE_MEMBERS = [...SERVICE_INPUT_MEMBERS, 'labels', 'source', 'health'];

/** Serializes a namespace. */
export function storedNamespace({ name, labels, unknown = new Map() }: StoredNamespace): string {
  return linesText(new Map([...membersAsText({ name, labels }), ...unknown]));
}

/** Serializes a forward. Its catalogs contain the exact text of the upstream. */
export function storedForward(forward: Forward): string {
  const stored = new Map(membersAsText({ ...forwardMembers(forward), source: forward.registrationId }));
  // The identity is inserted as text, exactly as the upstream sent it.
  const catalogs = forward.catalogs.map(
    ({ key, era, capabilities, identity, cache }) =>
      `${JSON.stringify({ key, era, capabilities, cache }).slice(0, -1)},"identity":${identity}}`,
  );
  stored.set('upstream', `[${catalogs.join(',')}]`);
  if (forward.detachedOverrides && forward.detachedOverrides.length > 0)
    stored.set('absent', storedDetached(forward.detachedOverrides));
  if (forward.modernProbeAfter !== undefined) stored.set('modern_probe_after', String(forward.modernProbeAfter));
  for (const [member, text] of forward.unknown ?? []) stored.set(member, text);
  return linesText(stored);
}

/** Serializes a service: the API's members without its health. */
export function storedService(entry: ServiceEntry): string {
  const known = membersAsText({ ...serviceMembers(entry), source: entry.registrationId });
  return linesText(new Map([...known, ...(entry.unknown ?? [])]));
}

/** The members of an object that are set, each with its JSON text. */
function membersAsText(object: object): [string, string][] {
  const present = Object.entries(object).filter(([, value]) => value !== undefined);
  return present.map(([member, value]) => [member, JSON.stringify(value)]);
}

/** Reads a stored namespace. */
export function readNamespace(json: string): StoredNamespace {
  const found = memberTexts(json);
  const name = parseNamespace(textIn(found, 'name') ?? '');
  if (!name) throw new Error(`invalid namespace name ${found.get('name')}`);
  return { name, labels: readLabels(found.get('labels')), unknown: unknownIn(found, NAMESPACE_MEMBERS) };
}

/** Reads a stored forward; `next` creates a missing registration id, `addressProblem` returns what is wrong with an address. */
export function readForward(json: string, next: () => number, addressProblem: AddressCheck): Forward {
  const found = memberTexts(json);
  const name = textIn(found, 'name');
  const address = textIn(found, 'address');
  if (name === undefined || address === undefined) throw new Error('name and address are required');
  const problem = addressProblem(address);
  if (problem !== undefined) throw new Error(`the address of ${name} ${problem}`);
  const namespace = namespaceIn(found);
  // A forward without the headers that it had might offer something else.
  const headers = forwardHeaders.optional().safeParse(JSON.parse(found.get('headers') ?? 'null') ?? undefined);
  if (!headers.success) throw new Error(`invalid headers: ${headers.error.issues[0]?.message}`);
  // Without its rules, the forward would expose everything.
  const rules = readExpose(found.get('expose'));
  // Without its proxy, the forward might be reached on another way than its operator allows.
  const proxy = forwardProxy.optional().safeParse(textIn(found, 'proxy'));
  if (!proxy.success) throw new Error(`invalid proxy: ${proxy.error.issues[0]?.message}`);
  const prefix = textIn(found, 'prefix') ?? '';
  const home = { name, namespace, prefix, registrationId: readRegistrationId(found) ?? next() };
  const modernProbeAfter = Number(found.get('modern_probe_after') ?? 'none');
  return {
    ...home,
    address,
    labels: readLabels(found.get('labels')),
    headers: headers.data,
    ...(rules && { expose: rules }),
    proxy: proxy.data,
    compression: found.get('compression') === 'true' || undefined,
    catalogs: readKnownCatalogs(found.get('upstream')),
    detachedOverrides: readDetached(found.get('absent'), home),
    ...(Number.isSafeInteger(modernProbeAfter) && { modernProbeAfter }),
    unknown: unknownIn(found, FORWARD_MEMBERS),
  };
}

/**
 * Reads a stored service by the rules of the API, so that a record written by hand can have the API's form; `next` creates
 * a missing registration id.
 */
export function readService(json: string, next: () => number): ServiceEntry {
  const found = memberTexts(json);
  const given = SERVICE_INPUT_MEMBERS.map((member): [string, unknown] => [
    member,
    JSON.parse(found.get(member) ?? 'null'),
  ]);
  const result = validate(serviceInput, Object.fromEntries(given.filter(([, value]) => value !== null)));
  if ('issues' in result) throw new Error(`${result.issues[0]?.path} ${result.issues[0]?.message}`);
  return {
    ...result.value,
    labels: readLabels(found.get('labels')),
    registrationId: readRegistrationId(found) ?? next(),
    unknown: unknownIn(found, SERVICE_MEMBERS),
  };
}

function storedDetached(detached: readonly Entry[]): string {
  const sections = new Map<string, string>();
  for (const kind of KINDS) {
    const entries = detached.filter((entry) => entry.kind === kind).map((entry) => objectText(storedMembers(entry)));
    if (entries.length > 0) sections.set(SECTION[kind], `[${entries.join(',')}]`);
  }
  return objectText(sections);
}

function readDetached(text: string | undefined, home: ForwardOfEntry): readonly Entry[] | undefined {
  if (text === undefined) return undefined;
  const sections = memberTexts(text);
  const detached: Entry[] = [];
  for (const kind of KINDS) {
    for (const json of textOfElements(sections.get(SECTION[kind]))) {
      const entry = readDetachedEntry(kind, json, home);
      if (entry?.discovered) detached.push(entry);
    }
  }
  return detached;
}

function readDetachedEntry(kind: Kind, json: string, home: ForwardOfEntry): Entry | undefined {
  const next = () => home.registrationId;
  try {
    return readEntry(kind, json, () => home, next).entry;
  } catch {
    return undefined;
  }
}

function readExpose(text: string | undefined): Expose | undefined {
  if (text === undefined) return undefined;
  const result = validate(expose, parseLossless(text));
  if ('issues' in result) throw new Error(`expose ${result.issues[0]?.path} ${result.issues[0]?.message}`);
  return mergeExpose(undefined, result.value);
}

function unknownIn(found: ReadonlyMap<string, string>, known: readonly string[]): UnknownMembers | undefined {
  const unknown = [...found].filter(([member]) => !known.includes(member));
  return unknown.length > 0 ? new Map(unknown.map(([member, text]) => [member, detach(text)])) : undefined;
}

const cacheHint = z.object({ ttlMs: z.number(), cacheScope: z.enum(['public', 'private']).catch('public') });
const knownCatalog = z.object({
  key: z.string(),
  era: z.enum(['legacy', 'modern']).catch('legacy'),
  cache: z.record(z.string(), cacheHint).catch({}),
});

/** Without invalid catalogs, which the next discovery finds again. */
function readKnownCatalogs(text: string | undefined): KnownCatalog[] {
  return [...textOfElements(text)].flatMap((catalog) => {
    const found = memberTexts(catalog);
    const identity = found.get('identity');
    const capabilities = parseLossless(found.get('capabilities') ?? '{}');
    const { data } = knownCatalog.safeParse(JSON.parse(catalog));
    if (!data || identity === undefined || !isJsonObject(capabilities)) return [];
    const { key, era, cache } = data;
    return [{ key, era, capabilities, identity: detach(identity), cache }];
  });
}
