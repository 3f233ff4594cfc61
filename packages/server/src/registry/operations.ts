import { DOT_NAME_PROBLEM, isDotName, isServiceLabel } from '@sluice/contract';
import { equal } from '@sluice/protocol/json/equal';
import { isJsonObject, type JsonObject, type JsonValue, parseLossless } from '@sluice/protocol/json/parse';
import { resourceName } from './catalogs.ts';
import { Draft } from './draft.ts';
import {
  byOrder,
  DEFAULT_NAMESPACE,
  type Discovered,
  type Entry,
  type EntryVariant,
  type Forward,
  type Kind,
  type Labels,
  type Namespace,
  parseNamespace,
} from './entries.ts';
import { OperationError } from './operation-error.ts';
import { retainState } from './retained.ts';
import {
  defaultText,
  isOwnMember,
  isRegistryMember,
  mcpName,
  render,
  restName,
  sharedMemberNames,
  UPSTREAM,
} from './serialize.ts';
import type { Snapshot } from './snapshot.ts';
import { checkUnknownMembers, type OnUnknownMembers } from './unknown-members.ts';

/** Selects an entry by name and optionally `?namespace=` and, for resources, `?uri=`. Not validated. */
export interface Selector {
  readonly name: string;
  readonly namespace?: string | undefined;
  readonly uri?: string | undefined;
}

/** The selected entry of a committed state. Throws as {@link findEntry}. */
export function findInSnapshot(snapshot: Snapshot, kind: Kind, selector: Selector): Entry {
  return findEntry(new Draft(snapshot), kind, selector);
}

/**
 * The selected entry: in the given namespace; without one in `default`, else in the only namespace that has it. OperationError
 * NOT_FOUND; CONFLICT with `namespaces` or `uris` when the selection is ambiguous.
 */
function findEntry(draft: Draft, kind: Kind, { name, namespace, uri }: Selector): Entry {
  const isSelected = ({ key }: Entry) => kind !== 'resource' || uri === undefined || key === uri;
  const found = candidatesFor(draft, namespace, (at) => named(draft, kind, at, name).filter(isSelected));
  const namespaces = [...new Set(found.map((entry) => entry.namespace))];
  if (namespaces.length > 1) {
    throw new OperationError('CONFLICT', `${kind} ${name} is in several namespaces; choose one with ?namespace=`, {
      namespaces,
    });
  }
  const [entry] = found;
  if (!entry) throw new OperationError('NOT_FOUND', `${kind} not found: ${name}`);
  if (found.length > 1) {
    const problem = `several resources of namespace ${entry.namespace} are named ${name}; choose one with ?uri=`;
    throw new OperationError('CONFLICT', problem, { uris: found.map(({ key }) => key) });
  }
  return entry;
}

/** Names or uris that select entries of one kind: of one namespace, or each found as a single entry is. Not validated. */
export interface Selection {
  readonly names?: readonly string[] | undefined;
  /** Resources only. */
  readonly uris?: readonly string[] | undefined;
  readonly namespace?: string | undefined;
}

/**
 * All selected entries, each found as by {@link findEntry}; resources also by uri alone. OperationError NOT_FOUND or
 * CONFLICT with the names that select no entry or several.
 */
export function findEntries(draft: Draft, kind: Kind, { names, uris, namespace }: Selection): Entry[] {
  const isByName = names && kind === 'resource';
  const lookup = isByName ? resourcesByName(draft) : (at: Namespace, key: string) => withKey(draft, kind, at, key);
  const unknown: string[] = [];
  const ambiguous: string[] = [];
  const found = new Set<Entry>();
  for (const wanted of new Set(names ?? uris)) {
    const candidates = candidatesFor(draft, namespace, (at) => lookup(at, wanted));
    if (candidates[0] && candidates.length === 1) found.add(candidates[0]);
    else (candidates.length === 0 ? unknown : ambiguous).push(wanted);
  }
  const selectedBy = names ? 'names' : 'uris';
  if (unknown.length > 0) {
    throw new OperationError('NOT_FOUND', `${kind}s not found: ${abbreviated(unknown)}`, { [selectedBy]: unknown });
  }
  if (ambiguous.length > 0) {
    const problem = `${kind}s in several namespaces or with the same name: ${abbreviated(ambiguous)}`;
    throw new OperationError('CONFLICT', `${problem}; set namespace${kind === 'resource' ? ' or uris' : ''}`, {
      [selectedBy]: ambiguous,
    });
  }
  return [...found];
}

/** Entries in the selected namespace; without one in `default`, else in all namespaces. */
function candidatesFor(
  { namespaces }: Draft,
  selected: string | undefined,
  lookup: (namespace: Namespace) => readonly Entry[],
): readonly Entry[] {
  if (selected !== undefined) {
    const namespace = parseNamespace(selected);
    return namespace ? lookup(namespace) : [];
  }
  const inDefault = lookup(DEFAULT_NAMESPACE);
  return inDefault.length > 0 ? inDefault : [...namespaces.keys()].flatMap(lookup);
}

/** Names that a message lists. */
const MAX_NAMES = 20;

/** The first of many names, for a message. */
export function abbreviated(names: readonly string[]): string {
  const more = names.length > MAX_NAMES ? ` and ${names.length - MAX_NAMES} more` : '';
  return names.slice(0, MAX_NAMES).join(', ') + more;
}

/** Returns a function that finds resources: looking up thousands of names must not search all resources each time. */
function resourcesByName(draft: Draft): (namespace: Namespace, name: string) => readonly Entry[] {
  const indexes = new Map<Namespace, Map<string, Entry[]>>();
  const indexOf = (namespace: Namespace) =>
    Map.groupBy(
      [...draft.entries('resource', namespace)].filter((entry) => isRegistered(draft, entry)),
      (entry) => entry.name,
    );
  return (namespace, name) => indexes.getOrInsertComputed(namespace, indexOf).get(name) ?? [];
}

function isRegistered(draft: Draft, entry: Entry): boolean {
  return draft.get(entry.kind, entry.namespace, entry.key) === entry;
}

/** True when other entries have the same name and namespace: resources can share a name. */
export function sharesName(draft: Draft, { kind, name, namespace }: Entry): boolean {
  return named(draft, kind, namespace, name).length > 1;
}

function named(draft: Draft, kind: Kind, namespace: Namespace, name: string): readonly Entry[] {
  if (kind !== 'resource') return withKey(draft, kind, namespace, name);
  const found = [...draft.entries(kind, namespace)].filter(
    (entry) => entry.name === name && isRegistered(draft, entry),
  );
  return found.sort(byOrder);
}

function withKey(draft: Draft, kind: Kind, namespace: Namespace, key: string): readonly Entry[] {
  return [draft.get(kind, namespace, key)].filter((entry) => entry !== undefined);
}

/** The full description of a discovered entry, by which the members of its upstream that are missing are removed. */
function replacing({ variants }: Discovered, definition: JsonObject): Map<string, JsonValue | undefined> {
  const missing = Object.keys(objectOf(variants[0])).map((member) => [member, undefined] as const);
  return new Map<string, JsonValue | undefined>([...missing, ...Object.entries(definition)]);
}

/**
 * Returns the changes of an upstream's object that differ from it, by MCP name; undefined removes a member, as does null in the
 * result. Registry members of the API (labels, uri and the like) are never overridden.
 */
export function overridesOf(
  kind: Kind,
  { variants }: Discovered,
  changes: ReadonlyMap<string, JsonValue | undefined>,
): JsonObject {
  const upstream = new Map(Object.entries(objectOf(variants[0])));
  const overrides: [string, JsonValue][] = [];
  for (const [member, value] of changes) {
    const name = restName(kind, member);
    // The schemas of bodies drop `__proto__`, so that its absence is not a removal.
    if (isRegistryMember(kind, name) || name === UPSTREAM || member === '__proto__') continue;
    const before = valueUnlessDefault(kind, name, upstream.get(member));
    // An empty schema or list is a value of its own where the upstream has one.
    const isValue = before !== undefined && value !== '';
    const after = isValue ? value : valueUnlessDefault(kind, name, value);
    const isSame = before === undefined || after === undefined ? before === after : equal(before, after);
    if (!isSame) overrides.push([member, after ?? null]);
  }
  return Object.fromEntries(overrides);
}

function objectOf(variant: EntryVariant | undefined): JsonObject {
  const value = parseLossless(variant?.json ?? '{}');
  return isJsonObject(value) ? value : {};
}

/**
 * REST always returns some members, also if they are not set: sending such a value for a member that the upstream does not send
 * changes nothing; sending an empty text removes the upstream's value.
 */
function valueUnlessDefault(kind: Kind, name: string, value: JsonValue | undefined): JsonValue | undefined {
  return value !== undefined && JSON.stringify(value) === defaultText(kind, name) ? undefined : value;
}

/** A tool, resource or prompt in a request body, validated by the contract, with canonical names. */
export interface EntryInput {
  readonly name?: string | undefined;
  readonly namespace?: string | undefined;
  readonly labels?: Labels | undefined;
  readonly enabled?: boolean | undefined;
  /** Other members; numbers are exact. */
  readonly [member: string]: JsonValue | undefined;
}

/** A parsed submission, by the parts of an entry. Undefined: absent. */
export interface Submitted {
  readonly name: string | undefined;
  /** Resources only. */
  readonly location: string | undefined;
  readonly namespace: Namespace | undefined;
  readonly labels: Labels;
  readonly enabled: boolean | undefined;
  /** The registry's own members. */
  readonly members: JsonObject;
  /** Members of the MCP object by MCP name, without those that identify the entry. */
  readonly definition: JsonObject;
}

/**
 * Parses a submission. Read-only members are ignored. Throws OperationError for an invalid namespace name.
 */
export function parseEntryInput(kind: Kind, submission: EntryInput): Submitted {
  const members: [string, JsonValue][] = [];
  const definition: [string, JsonValue][] = [];
  for (const [member, value] of Object.entries(submission)) {
    if (value === undefined) continue;
    if (isOwnMember(kind, member)) members.push([member, value]);
    else if (!isRegistryMember(kind, member)) definition.push([mcpName(kind, member), value]);
  }
  return {
    name: submission.name,
    location: kind === 'resource' && typeof submission.location === 'string' ? submission.location : undefined,
    namespace: submission.namespace === undefined ? undefined : namespaceOf(submission.namespace),
    labels: submission.labels ?? {},
    enabled: submission.enabled,
    members: Object.fromEntries(members),
    definition: Object.fromEntries(definition),
  };
}

/** The text as a namespace; OperationError BAD_REQUEST when it cannot be one. */
export function namespaceOf(name: string): Namespace {
  const namespace = parseNamespace(name);
  if (!namespace) throw new OperationError('BAD_REQUEST', `invalid namespace name: ${name}`);
  return namespace;
}

/** Registers a manual tool, resource or prompt, in `default` unless it names a namespace; a missing one is created.
 * OperationError CONFLICT when its key is in use.
 */
export function createEntry(
  draft: Draft,
  kind: Kind,
  submission: EntryInput,
  onUnknown: OnUnknownMembers = () => undefined,
): Entry {
  const { name, location, namespace = DEFAULT_NAMESPACE, enabled = true, ...rest } = parseEntryInput(kind, submission);
  const key = kind === 'resource' ? location : name;
  if (name === undefined || key === undefined) {
    throw new OperationError('BAD_REQUEST', `a ${kind} needs a ${name === undefined ? 'name' : 'location'}`);
  }
  checkUnknownMembers(kind, rest.definition, onUnknown);
  rejectTakenKey(draft.get(kind, namespace, key));
  const base = { kind, namespace, key, name, ...rest, discovered: undefined, position: 0 };
  const disabledBy = enabled ? undefined : 'operator';
  const entry = render({ ...base, disabledBy, registrationId: draft.nextRegistrationId() });
  draft.put(entry);
  return entry;
}

/**
 * Replaces the editable members of the selected entry, except `enabled`, which `setEnabled` changes: another name renames it,
 * another namespace moves it, and members of a discovered entry that differ from the upstream's become overrides. Without
 * `namespace` it is not moved. OperationError as {@link findEntry}; CONFLICT also when the new key exists, or when a member set
 * by discovery would change.
 */
export function updateEntry(
  draft: Draft,
  kind: Kind,
  selector: Selector,
  submission: EntryInput,
  onUnknown: OnUnknownMembers = () => undefined,
): Entry {
  const entry = findEntry(draft, kind, selector);
  const submitted = parseEntryInput(kind, submission);
  checkUnknownMembers(kind, submitted.definition, onUnknown, entry);
  const { discovered } = entry;
  const next = discovered
    ? updateDiscoveredEntry(entry, discovered, submitted, draft.forwards.get(discovered.forward))
    : updateManualEntry(entry, submitted);
  if (isDotName(next.name) && !(next.name === entry.name || hasUpstreamName(next))) {
    throw new OperationError('BAD_REQUEST', `invalid ${kind}: name ${DOT_NAME_PROBLEM}`);
  }
  const isMoved = next.key !== entry.key || next.namespace !== entry.namespace;
  if (isMoved) {
    rejectTakenKey(draft.get(kind, next.namespace, next.key));
    draft.remove(entry);
  }
  draft.put(next);
  return next;
}

/**
 * Removes and returns the selected entry. What an operator changed of a discovered one applies again when it returns.
 * OperationError as {@link findEntry}.
 */
export function removeEntry(draft: Draft, kind: Kind, selector: Selector): Entry {
  const entry = findEntry(draft, kind, selector);
  draft.remove(entry);
  retainState(draft, entry);
  return entry;
}

export function hasUpstreamName({ kind, discovered }: Entry): boolean {
  if (!discovered) return false;
  return kind === 'resource' ? discovered.overrides.name === undefined : discovered.renamed === undefined;
}

export function updateManualEntry(entry: Entry, submitted: Submitted): Entry {
  const {
    name = entry.name,
    location = entry.key,
    namespace = entry.namespace,
    enabled: _separate,
    ...rest
  } = submitted;
  const key = entry.kind === 'resource' ? location : name;
  return render({ ...entry, ...rest, name, namespace, key });
}

/** `overrides`: those of a full description unless given. */
export function updateDiscoveredEntry(
  entry: Entry,
  discovered: Discovered,
  submitted: Submitted & { readonly overrides?: JsonObject },
  forward: Forward | undefined,
): Entry {
  const { kind } = entry;
  const { name = entry.name, namespace = entry.namespace, definition } = submitted;
  const members: JsonObject = { ...submitted.members };
  for (const member of sharedMemberNames(kind)) {
    const fixed = entry.members[member];
    if (fixed === undefined) continue;
    const wanted = members[member];
    if (wanted !== undefined && !equal(wanted, fixed)) throw immutableMemberError(entry, discovered, member);
    members[member] = fixed;
  }
  if (submitted.location !== undefined && submitted.location !== entry.key) {
    throw immutableMemberError(entry, discovered, 'location');
  }
  // Discovered prompts are always fetched from their upstream: own messages would never be served.
  const { messages, ...others } = members;
  if (messages !== undefined && !equal(messages, [])) throw immutableMemberError(entry, discovered, 'messages');
  const { overrides = overridesOf(kind, discovered, replacing(discovered, definition)) } = submitted;
  return render({
    ...entry,
    name,
    namespace,
    key: kind === 'resource' ? entry.key : name,
    labels: discoveredLabels(entry.labels, submitted.labels),
    members: others,
    discovered: {
      ...discovered,
      ...placement(entry, discovered, name, namespace, forward),
      overrides: kind === 'resource' ? withName(discovered, name, overrides) : overrides,
    },
  });
}

/** Whether the entry follows its forward's namespace and prefix: until it is moved or renamed, and once it is back. */
function placement(
  entry: Entry,
  { upstreamKey, moved, renamed, copied }: Discovered,
  name: string,
  namespace: Namespace,
  forward: Forward | undefined,
): Pick<Discovered, 'moved' | 'renamed'> {
  if (copied) return {};
  const isAway = namespace !== forward?.namespace || undefined;
  const isRenamed = name !== (forward?.prefix ?? '') + upstreamKey || undefined;
  return {
    moved: namespace === entry.namespace ? moved : isAway,
    renamed: entry.kind === 'resource' || name === entry.name ? renamed : isRenamed,
  };
}

/** On MCP a resource is not addressed by its name, so a new name is an ordinary override. */
function withName(discovered: Discovered, name: string, overrides: JsonObject): JsonObject {
  return name === resourceName(discovered.upstreamKey, discovered.variants) ? overrides : { ...overrides, name };
}

/**
 * On a discovered entry a PUT cannot change the labels of the service, except those that operators set.
 */
function discoveredLabels(current: Labels, wanted: Labels): Labels {
  return Object.fromEntries([
    ...Object.entries(wanted).filter(([label]) => !isServiceLabel(label)),
    ...Object.entries(current).filter(([label]) => isServiceLabel(label)),
  ]);
}

function immutableMemberError({ kind, name }: Entry, { forward }: Discovered, member: string): OperationError {
  return new OperationError(
    'CONFLICT',
    `${member} of ${kind} ${name} is set by forward ${forward} and cannot be changed`,
  );
}

function rejectTakenKey(existing: Entry | undefined): void {
  if (!existing) return;
  const { kind, key, namespace, discovered } = existing;
  const owner = discovered ? ` (from forward ${discovered.forward})` : '';
  throw new OperationError('CONFLICT', `${kind} already exists in namespace ${namespace}: ${key}${owner}`, {
    namespaces: [namespace],
  });
}
