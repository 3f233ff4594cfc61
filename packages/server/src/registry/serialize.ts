import { type Service, type ServiceHealth, serviceAddress } from '@sluice/contract';
import { isJsonObject, type JsonObject, type JsonValue, tryParseJson } from '@sluice/protocol/json/parse';
import { members } from '@sluice/protocol/json/text';
import {
  type Discovered,
  type Entry,
  type EntryVariant,
  FORWARD_TYPE,
  type Forward,
  isEnabled,
  isTemplate,
  type Kind,
  type ServiceEntry,
} from './entries.ts';

/**
 * Entries as JSON text in the management API's form. Works on text, so that the exact text of upstreams and operators is
 * preserved and 100,000 entries need no parsing.
 */

/** REST names of the members of one kind's MCP object and of its registry entry. */
interface MemberNames {
  /** See {@link Entry.members}. */
  readonly own: readonly string[];
  /** MCP name to REST name, where they differ. */
  readonly rename: ReadonlyMap<string, string>;
  /** REST members that are always present, with the text of their default. */
  readonly defaults: ReadonlyMap<string, string>;
}

const MEMBER_NAMES: Readonly<Record<Kind, MemberNames>> = {
  tool: {
    own: ['uri', 'toolType', 'configurationURI', 'secretsURI', 'id'],
    rename: new Map(Object.entries({ inputSchema: 'input_schema', outputSchema: 'output_schema' })),
    defaults: new Map(Object.entries({ description: '""', input_schema: '{}' })),
  },
  resource: {
    own: ['type', 'params', 'configurationURI', 'secretsURI', 'id'],
    rename: new Map(),
    defaults: new Map(Object.entries({ description: '""', mimeType: '""' })),
  },
  prompt: {
    own: ['configurationURI', 'id', 'messages'],
    rename: new Map(),
    defaults: new Map(Object.entries({ description: '""', arguments: '[]', messages: '[]' })),
  },
};

/**
 * The read-only member with a discovered entry's upstream state ({@link EntryJsonOptions}). It cannot be overridden.
 */
export const UPSTREAM = 'upstream';

/** Members that are separate properties of an entry, or that only the service sets. */
const COMMON = ['name', 'namespace', 'labels', 'enabled', 'forward', 'upstreamName', 'shadowed'];
const REGISTRY_MEMBERS: Readonly<Record<Kind, ReadonlySet<string>>> = {
  tool: new Set([...COMMON, ...MEMBER_NAMES.tool.own]),
  // The upstream addresses a resource by `uri` or `uriTemplate`; over REST both are `location`, which alone identifies it.
  resource: new Set([...COMMON, 'location', 'uri', 'uriTemplate', ...MEMBER_NAMES.resource.own]),
  prompt: new Set([...COMMON, ...MEMBER_NAMES.prompt.own]),
};

/** Whether this is REST's name of a registry member: it hides a member of the MCP object of the same name. */
export function isRegistryMember(kind: Kind, member: string): boolean {
  return REGISTRY_MEMBERS[kind].has(member);
}

/** Whether this registry member is in {@link Entry.members}. */
export function isOwnMember(kind: Kind, member: string): boolean {
  return MEMBER_NAMES[kind].own.includes(member);
}

/** REST's name of an MCP member. */
export function restName(kind: Kind, member: string): string {
  return MEMBER_NAMES[kind].rename.get(member) ?? member;
}

/** MCP's name of a REST member. */
export function mcpName(kind: Kind, member: string): string {
  for (const [mcp, rest] of MEMBER_NAMES[kind].rename) if (rest === member) return mcp;
  return member;
}

/** The text of the value that a REST member has unless it is set; undefined if it is absent then. */
export function defaultText(kind: Kind, member: string): string | undefined {
  return MEMBER_NAMES[kind].defaults.get(member);
}

/** Optional parts of an entry's JSON. */
export interface EntryJsonOptions {
  /** Marks the entry as shadowed. */
  readonly shadowed?: boolean;
  /** Adds `upstream`: the upstream's own values of a discovered entry, without overrides. */
  readonly upstream?: boolean;
}

/** The entry in the form of the management API: JSON text of one object. */
export function entryJson(entry: Entry, { shadowed = false, upstream = false }: EntryJsonOptions = {}): string {
  const texts = withDefaults(entry.kind, restMembers(entry));
  if (shadowed) texts.set('shadowed', 'true');
  if (upstream && entry.discovered) {
    const own = new Map<string, string>();
    addObject(own, entry.kind, entry.discovered.variants[0]?.json ?? '{}');
    texts.set(UPSTREAM, objectText(withDefaults(entry.kind, own)));
  }
  return objectText(texts);
}

function withDefaults(kind: Kind, texts: Map<string, string>): Map<string, string> {
  for (const [key, text] of MEMBER_NAMES[kind].defaults) texts.getOrInsert(key, text);
  return texts;
}

/** An object of these members, which are JSON text. */
export function objectText(texts: ReadonlyMap<string, string>): string {
  const parts: string[] = [];
  for (const [key, text] of texts) parts.push(`${JSON.stringify(key)}:${text}`);
  return `{${parts.join(',')}}`;
}

/** The text of each member of the management API's view that the entry has; members with defaults may be missing. */
export function restMembers(entry: Entry): Map<string, string> {
  const { kind } = entry;
  const texts = new Map<string, string>([
    ['name', JSON.stringify(entry.name)],
    ['namespace', JSON.stringify(entry.namespace)],
  ]);
  addDefinition(texts, entry);
  for (const [key, value] of Object.entries(entry.members)) texts.set(key, JSON.stringify(value));
  if (kind === 'resource') texts.set('location', JSON.stringify(entry.key));
  texts.set('labels', JSON.stringify(entry.labels));
  texts.set('enabled', String(isEnabled(entry)));
  if (entry.discovered) {
    texts.set('forward', JSON.stringify(entry.discovered.forward));
    if (kind !== 'resource' && entry.discovered.upstreamKey !== entry.key) {
      texts.set('upstreamName', JSON.stringify(entry.discovered.upstreamKey));
    }
  }
  return texts;
}

/** The description of an entry in the management API. */
export function entryDescription(entry: Entry): string {
  const text = restMembers(entry).get('description');
  const description = text === undefined ? undefined : tryParseJson(text);
  return typeof description === 'string' ? description : '';
}

/** Adds the members of the served MCP object as text, including empty members of a manual entry. */
function addDefinition(texts: Map<string, string>, { kind, discovered, rendered, definition }: Entry): void {
  if (discovered) {
    addObject(texts, kind, rendered[0]?.json ?? '{}');
    // Served with a type that the operator may have omitted.
    const { inputSchema } = discovered.overrides;
    if (inputSchema !== undefined) texts.set(restName(kind, 'inputSchema'), JSON.stringify(inputSchema));
    return;
  }
  for (const [key, value] of Object.entries(definition)) {
    const name = restName(kind, key);
    if (!isRegistryMember(kind, name)) texts.set(name, JSON.stringify(value));
  }
}

/** Adds the members of an MCP object under their REST names, except registry members. */
function addObject(texts: Map<string, string>, kind: Kind, json: string): void {
  for (const { key, start, end } of members(json)) {
    const name = restName(kind, key);
    if (!isRegistryMember(kind, name)) texts.set(name, json.slice(start, end));
  }
}

/** An empty object: each of 100,000 entries would have several of its own. */
export const NONE: Readonly<Record<string, never>> = Object.freeze({});

/** Registry members of a forward's entries, which only discovery sets. The entries share them likewise. */
export type InternedFields = Readonly<Record<Kind, JsonObject>>;

/** Creates them for a forward with this address. */
export function internedFields(address: string): InternedFields {
  return {
    tool: { uri: address, toolType: FORWARD_TYPE },
    resource: { type: FORWARD_TYPE },
    prompt: { configurationURI: address },
  };
}

/** Their names. */
export function sharedMemberNames(kind: Kind): readonly string[] {
  return Object.keys(internedFields('')[kind]);
}

/** Returns the shared members if those of an entry are the same. */
export function internFields(members: JsonObject, shared: JsonObject): JsonObject {
  const names = Object.keys(shared);
  const isSame = Object.keys(members).length === names.length && names.every((name) => members[name] === shared[name]);
  return isSame ? shared : members;
}

/**
 * The MCP form of an entry. A discovered one is the upstream's own text, unchanged unless it is renamed or overridden; a manual
 * one is rendered from its definition.
 */
export function render(entry: Omit<Entry, 'rendered'>): Entry {
  const rendered = entry.discovered
    ? renderVariants(entry, entry.discovered)
    : [{ json: JSON.stringify(manualObject(entry)), catalogs: undefined }];
  // Member by member: a copy of an object with one more member is larger.
  return {
    kind: entry.kind,
    namespace: entry.namespace,
    key: entry.key,
    name: entry.name,
    registrationId: entry.registrationId,
    position: entry.position,
    labels: entry.labels,
    members: entry.members,
    discovered: entry.discovered,
    definition: entry.definition,
    disabledBy: entry.disabledBy,
    rendered,
  };
}

function renderVariants(
  entry: Omit<Entry, 'rendered'>,
  { upstreamKey, variants, overrides }: Discovered,
): readonly EntryVariant[] {
  const renamed = entry.kind !== 'resource' && entry.key !== upstreamKey;
  const changes: JsonObject = { ...overrides, ...(renamed && { name: entry.key }) };
  if (changes.inputSchema !== undefined) changes.inputSchema = typedSchema(changes.inputSchema);
  if (Object.keys(changes).length === 0) return variants;
  return variants.map((variant) => ({ ...variant, json: withMembers(variant.json, changes) }));
}

/** The object's text with these members set or, where null, removed; text and position of all others are unchanged. */
function withMembers(json: string, changes: JsonObject): string {
  const remaining = new Map(Object.entries(changes));
  const parts: string[] = [];
  for (const { key, start, end } of members(json)) {
    const change = remaining.get(key);
    remaining.delete(key);
    if (!Object.hasOwn(changes, key)) parts.push(`${JSON.stringify(key)}:${json.slice(start, end)}`);
    else if (change !== null && change !== undefined) parts.push(`${JSON.stringify(key)}:${JSON.stringify(change)}`);
  }
  for (const [key, value] of remaining)
    if (value !== null) parts.push(`${JSON.stringify(key)}:${JSON.stringify(value)}`);
  return `{${parts.join(',')}}`;
}

function manualObject(entry: Omit<Entry, 'rendered'>): JsonObject {
  if (entry.kind === 'tool') {
    const tool: JsonObject = { name: entry.key, ...entry.definition };
    // A hand-written file may omit the schema, and clients reject a whole list for one tool without a schema.
    const { inputSchema = {} } = tool;
    return { ...tool, inputSchema: typedSchema(inputSchema) };
  }
  if (entry.kind === 'prompt') {
    return { name: entry.key, ...withoutEmpty(entry.definition, ['description', 'arguments']) };
  }
  const uri = isTemplate(entry) ? 'uriTemplate' : 'uri';
  return { [uri]: entry.key, name: entry.name, ...withoutEmpty(entry.definition, ['description', 'mimeType']) };
}

/** The protocol requires the type of an input schema, and clients reject a whole list for one schema without it. */
function typedSchema(schema: JsonValue): JsonValue {
  return isJsonObject(schema) && schema.type === undefined ? { type: 'object', ...schema } : schema;
}

/** Empty texts and lists mean "absent" in REST and are omitted in MCP. */
function withoutEmpty(definition: JsonObject, keys: readonly string[]): JsonObject {
  const empty = (value: JsonValue): boolean => value === '' || (Array.isArray(value) && value.length === 0);
  return Object.fromEntries(Object.entries(definition).filter(([key, value]) => !(keys.includes(key) && empty(value))));
}

/** The members of a forward that operators set, in the management API's form; those that are not set are undefined. */
export function forwardMembers(forward: Forward) {
  const { name, address, namespace, labels, headers, expose, proxy, compression } = forward;
  return { name, address, namespace, labels, prefix: forward.prefix || undefined, headers, expose, proxy, compression };
}

/**
 * A service entry in the management API's form. `health` is the result of the last probe, which only the running process has.
 */
export function serviceBody(entry: ServiceEntry, health: ServiceHealth): Service {
  return { ...serviceMembers(entry), health };
}

/** Members that the management API and `registry.json` have in common, in this order. */
export function serviceMembers(entry: ServiceEntry): Omit<Service, 'health'> {
  const { name, host, port, serviceType, serviceSubType, languageName, labels, id } = entry;
  return { name, host, port, address: serviceAddress(entry), serviceType, serviceSubType, languageName, labels, id };
}
