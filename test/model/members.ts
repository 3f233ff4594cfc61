import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import type { Discovered, Entry, Kind } from './state.ts';

/** Registry members of each kind, which are never part of MCP objects. */
const REGISTRY: Readonly<Record<Kind, readonly string[]>> = {
  tool: ['uri', 'toolType', 'configurationURI', 'secretsURI', 'id'],
  resource: ['type', 'params', 'configurationURI', 'secretsURI', 'id'],
  prompt: ['messages', 'configurationURI', 'id'],
};
/** Registry members of every kind; the last three are read-only. */
const COMMON = ['name', 'namespace', 'labels', 'enabled', 'forward', 'upstreamName', 'shadowed'];
const LOCATION = ['location', 'uri', 'uriTemplate'];

/** Default of a missing member in REST. */
const DEFAULTS: Readonly<Record<Kind, JsonObject>> = {
  tool: { description: '' },
  resource: { description: '', mimeType: '' },
  prompt: { description: '', arguments: [], messages: [] },
};

const MCP_NAMES: Readonly<Record<string, string>> = { input_schema: 'inputSchema', output_schema: 'outputSchema' };

/** MCP's name of a member of REST. */
export function mcpName(kind: Kind, member: string): string {
  return (kind === 'tool' ? MCP_NAMES[member] : undefined) ?? member;
}

function restMember(kind: Kind, member: string): string {
  return Object.keys(MCP_NAMES).find((rest) => mcpName(kind, rest) === member) ?? member;
}

/** True for members, under their REST names, that are separate from the MCP object. */
export function isSeparateMember(kind: Kind, member: string): boolean {
  return (
    COMMON.includes(member) || REGISTRY[kind].includes(member) || (kind === 'resource' && LOCATION.includes(member))
  );
}

/** True for registry members: those of `isApart` that a body may contain besides the common ones. */
export function isRegistryMember(kind: Kind, member: string): boolean {
  return REGISTRY[kind].includes(member);
}

/** Members of a body that are stored unchanged: without registry members and read-only ones. */
export function storedMembers(kind: Kind, body: JsonObject): JsonObject {
  const separate = kind === 'resource' ? [...COMMON, ...LOCATION] : COMMON;
  return pick(body, (member) => !separate.includes(member));
}

/** The members that pass. */
export function pick(object: JsonObject, passes: (member: string) => boolean): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([member]) => passes(member)));
}

/** The value that means "not given". */
export function defaultOf(kind: Kind, member: string): JsonValue | undefined {
  return DEFAULTS[kind][member];
}

/** The upstream's object with overrides. */
function changed({ object, overrides }: Discovered): JsonObject {
  return pick({ ...object, ...overrides }, (member) => overrides[member] !== null);
}

/** True for a resource that MCP lists as a template. */
export function isTemplate({ kind, labels }: Entry): boolean {
  return kind === 'resource' && labels['service.is_template'] === 'true';
}

/** The entry as the management API shows it. */
export function restOf(entry: Entry): JsonObject {
  const { kind, name, namespace, labels, enabled, key, discovered, shadowed } = entry;
  const described = Object.entries(discovered ? changed(discovered) : {}).map(([member, value]) => [
    restMember(kind, member),
    value,
  ]);
  const view: JsonObject = {
    ...DEFAULTS[kind],
    ...pick(Object.fromEntries(described), (member) => !isSeparateMember(kind, member)),
    ...entry.members,
    name,
    namespace,
    labels: { ...labels },
    enabled,
  };
  if (kind === 'resource') view.location = key;
  if (discovered) view.forward = discovered.forward;
  if (discovered && kind !== 'resource' && discovered.key !== name) view.upstreamName = discovered.key;
  if (shadowed) view.shadowed = true;
  return view;
}

/** The entry as MCP lists it. */
export function mcpOf(entry: Entry): JsonObject {
  const { kind, name, key, discovered } = entry;
  if (discovered) {
    const object = changed(discovered);
    return kind === 'resource' || key === discovered.key ? object : { ...object, name };
  }
  const members = Object.entries(pick(entry.members, (member) => !isRegistryMember(kind, member)));
  // In REST this means that there is none; a tool's description is required, and may be empty.
  const given = members.filter(([member, value]) => kind === 'tool' || !isEmptyDefault(kind, member, value));
  const own = kind === 'resource' ? { [isTemplate(entry) ? 'uriTemplate' : 'uri']: key, name } : { name };
  const object: JsonObject = Object.fromEntries(given.map(([member, value]) => [mcpName(kind, member), value]));
  const { inputSchema } = object;
  // MCP requires the type of a tool's schema, and has no other type.
  if (isJsonObject(inputSchema)) object.inputSchema = { type: 'object', ...inputSchema };
  return { ...object, ...own };
}

function isEmptyDefault(kind: Kind, member: string, value: JsonValue): boolean {
  const absent = defaultOf(kind, member);
  return absent !== undefined && JSON.stringify(value) === JSON.stringify(absent);
}
