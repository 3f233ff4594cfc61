import {
  DOT_NAME_PROBLEM,
  isDotName,
  type MemberChange,
  type StateChange,
  type StateInput,
  type ToolOverrides,
} from '@sluice/contract';
import { equal } from '@sluice/protocol/json/equal';
import { isJsonObject, type JsonObject, parseLossless } from '@sluice/protocol/json/parse';
import type { AppliedForwards } from './desired-forwards.ts';
import type { Draft } from './draft.ts';
import { DEFAULT_NAMESPACE, type Entry, type Forward, isEnabled, type Kind, sameRecord } from './entries.ts';
import {
  createEntry,
  type EntryInput,
  hasUpstreamName,
  namespaceOf,
  overridesOf,
  parseEntryInput,
  updateDiscoveredEntry,
  updateManualEntry,
} from './operations.ts';
import { coverCopies, marked, undiscoveredEntry } from './operations-enabled.ts';
import { hasOperatorState, withDetached } from './retained.ts';
import { entryJson, mcpName, restName } from './serialize.ts';
import { definedMembers, diffMembers, initialMembers, type StateDifference } from './state-difference.ts';
import { forEachInSteps, type Steps } from './steps.ts';
import { checkUnknownMembers } from './unknown-members.ts';

/** An entry of the section `tools`. */
type DesiredTool = NonNullable<StateInput['tools']>[number];

/** Tools whose texts are parsed and compared in one step. */
const COMPARED_PER_STEP = 16;

/** Overrides of a discovered tool; none revert all and enable nothing. */
type Overrides = Partial<ToolOverrides>;

/** A discovered entry that is put into the draft once all others are out of it. */
interface Placement {
  readonly entry: Entry;
  /** Of what places it there, for messages; empty for reverted overrides. */
  readonly path: string;
  /** The entry before its overrides changed; undefined if only its forward moves it. */
  readonly from?: Entry;
}

/**
 * Applies the tools of a desired state. All entries that get another place are taken out of the draft before the first one is
 * put back, so that names can be exchanged.
 */
export class DesiredTools {
  readonly #draft: Draft;
  readonly #difference: StateDifference;
  readonly #forwards: AppliedForwards;
  readonly #placements = new Map<string, Placement>();
  /** Overrides of tools that are not discovered, by forward. */
  readonly #absent = new Map<string, Placement[]>();
  /** Discovered tools by forward and present name. */
  readonly #byName = new Map<string, Entry>();
  /** Entries that are enabled or disabled. */
  readonly #switched: Entry[] = [];

  constructor(draft: Draft, difference: StateDifference, forwards: AppliedForwards) {
    this.#draft = draft;
    this.#difference = difference;
    this.#forwards = forwards;
  }

  *apply(wanted: readonly DesiredTool[], prune: boolean): Steps<void> {
    yield* forEachInSteps(this.#forwards.followers, ([entry, path]) => {
      this.#placements.set(originOf(entry), { entry, path });
    });
    const manual = new Set<Entry>();
    const known = wanted.some(isOverrides) || prune ? yield* this.#knownTools(manual) : new Map<string, Entry>();
    yield* this.#override(wanted, known, prune);
    const names = new Set(wanted.filter((tool) => !isOverrides(tool)).map((tool) => placeOf(tool)));
    if (prune) {
      yield* forEachInSteps(manual, (entry) => {
        if (names.has(placeOf(entry))) return;
        const { namespace, name } = entry;
        const change: StateChange = { action: 'delete', kind: 'tool', name, namespace, members: [], notes: [] };
        this.#difference.add(change);
        this.#difference.remove(entry, change);
      });
    }
    const put = ([index, tool]: [number, DesiredTool]) => {
      if (!isOverrides(tool)) this.#putManual(`tools.${index}`, tool);
    };
    yield* forEachInSteps(wanted.entries(), put, COMPARED_PER_STEP);
    yield* this.#place();
    if (this.#switched.length > 0) yield* coverCopies(this.#draft, this.#switched);
  }

  /** Discovered tools by origin, without copies; manual ones that are served are added to the set. */
  *#knownTools(manual: Set<Entry>): Steps<Map<string, Entry>> {
    const known = new Map<string, Entry>();
    for (const namespace of this.#draft.namespaces.keys()) {
      yield* forEachInSteps(this.#draft.entries('tool', namespace), (entry) => {
        if (!entry.discovered) {
          if (this.#draft.get('tool', namespace, entry.key) === entry) manual.add(entry);
        } else if (!entry.discovered.copied) known.set(originOf(entry), entry);
      });
    }
    yield* forEachInSteps(this.#placements, ([origin, { entry }]) => {
      if (entry.kind === 'tool') known.set(origin, entry);
    });
    return known;
  }

  *#override(wanted: readonly DesiredTool[], known: ReadonlyMap<string, Entry>, prune: boolean): Steps<void> {
    const detached = new Map<string, Entry>();
    const origins = new Set<string>();
    for (const { detachedOverrides = [] } of this.#draft.forwards.values()) {
      yield* forEachInSteps(detachedOverrides, (entry) => {
        if (entry.kind === 'tool') detached.set(originOf(entry), entry);
      });
    }
    yield* forEachInSteps(known.values(), (entry) => {
      this.#byName.set(originIn(entry.discovered?.forward, entry.name), entry);
    });
    for (const [index, tool] of wanted.entries()) {
      if (index % COMPARED_PER_STEP === 0) yield;
      if (!isOverrides(tool)) continue;
      const { forward: forwardName, name = '', upstreamName = name } = tool;
      const path = `tools.${index}`;
      const forward = this.#draft.forwards.get(forwardName);
      if (!forward) {
        this.#difference.reject(path, `forward ${forwardName} does not exist, or would be deleted`);
        continue;
      }
      const origin = originIn(forwardName, upstreamName);
      origins.add(origin);
      const entry = known.get(origin);
      const absent = detached.get(origin) ?? undiscoveredEntry(forward, 'tool', upstreamName);
      if (entry) this.#overrideKnown(path, entry, forward, tool);
      else this.#overrideAbsent(path, absent, forward, tool);
    }
    if (!prune) return;
    const revert = ([origin, entry]: [string, Entry]) => {
      const forward = this.#draft.forwards.get(entry.discovered?.forward ?? '');
      if (!forward || origins.has(origin) || !hasOperatorState(entry)) return;
      this.#overrideKnown('', entry, forward, {});
    };
    yield* forEachInSteps(known, revert, COMPARED_PER_STEP);
  }

  #overrideKnown(path: string, entry: Entry, forward: Forward, wanted: Overrides): void {
    const isExact = this.#forwards.uncertain.has(forward.name);
    const next = overridden(entry, forward, wanted, isExact);
    const members = toolChanges(entry, next);
    const origin = originOf(entry);
    if (members.length > 0) {
      this.#check(path, entry, next, wanted);
      const change = overrideChange(entry, members);
      this.#difference.add(change);
      const isMoved = next.namespace !== entry.namespace || next.key !== entry.key;
      if (isMoved && !this.#placements.has(origin)) this.#difference.remove(entry, change);
      if (isEnabled(entry) !== isEnabled(next)) this.#switched.push(next);
    }
    // At another address, the upstream may send other values than those that are equal to the wanted ones here.
    else if (!isExact || equal(entry.discovered?.overrides ?? {}, next.discovered?.overrides ?? {})) return;
    this.#placements.set(origin, { entry: next, path, from: entry });
  }

  /** `base`: the state that the tool would have once it is discovered. */
  #overrideAbsent(path: string, base: Entry, forward: Forward, wanted: ToolOverrides): void {
    const { enabled } = wanted;
    const placed = overridden(base, forward, wanted, true);
    // Also if it is enabled already: it is not new when the upstream lists it.
    const next = enabled === undefined ? placed : marked(placed, enabled ?? true);
    const members = toolChanges(base, next);
    if (members.length === 0) return;
    const { upstreamKey = '' } = base.discovered ?? {};
    const misnamed = this.#byName.get(originIn(forward.name, upstreamKey))?.discovered;
    if (misnamed && !this.#forwards.uncertain.has(forward.name)) {
      const advice = `use upstreamName ${misnamed.upstreamKey}`;
      const problem = `forward ${forward.name} has no tool with the upstream name ${upstreamKey}; ${advice}`;
      return this.#difference.reject(path, problem);
    }
    this.#check(path, base, next, wanted);
    const isNew = this.#forwards.added.has(forward.name);
    const change = overrideChange(base, members, isNew ? [] : ['the forward has no such tool at the moment']);
    if (isNew) delete change.widens;
    else if (next.discovered?.approved && !base.discovered?.approved && !change.widens?.includes(ENABLES))
      change.widens = [...(change.widens ?? []), ENABLES];
    this.#difference.add(change);
    this.#switched.push(next);
    this.#absent.getOrInsertComputed(forward.name, () => []).push({ entry: next, path, from: base });
  }

  #check(path: string, entry: Entry, next: Entry, wanted: Overrides): void {
    if (isDotName(next.name) && !(next.name === entry.name || hasUpstreamName(next)))
      this.#difference.reject(path, `name ${DOT_NAME_PROBLEM}`);
    const { definition } = parseEntryInput('tool', membersOf(wanted));
    this.#difference.check(path, () => checkUnknownMembers('tool', definition, () => undefined, entry));
  }

  #putManual(path: string, tool: EntryInput): void {
    const namespace = namespaceOf(tool.namespace ?? DEFAULT_NAMESPACE);
    const { name = '' } = tool;
    const before = this.#draft.get('tool', namespace, name);
    if (before?.discovered) return this.#difference.reject(path, takenBy(before, before));
    const change = { kind: 'tool', name, namespace, notes: [] } as const;
    this.#difference.check(path, () => {
      if (!before) {
        createEntry(this.#draft, 'tool', tool);
        const { name: _n, namespace: _ns, labels = {}, shadowed: _readOnly, ...others } = tool;
        const members = definedMembers({ name, namespace, labels, ...others });
        return this.#difference.add({ ...change, action: 'create', members: initialMembers(members) });
      }
      const submitted = parseEntryInput('tool', tool);
      checkUnknownMembers('tool', submitted.definition, () => undefined, before);
      const next = withMark(updateManualEntry(before, submitted), submitted.enabled);
      const members = diffMembers(flat(before), flat(next));
      if (members.length === 0) return;
      this.#difference.add({ ...change, action: 'update', members, ...wideningOf(members) });
      this.#draft.put(next);
    });
  }

  /** Puts all entries at their places, which others may have. */
  *#place(): Steps<void> {
    yield* forEachInSteps(this.#placements.values(), ({ entry }) => this.#draft.put(entry));
    yield* forEachInSteps(this.#placements.values(), (placement) => {
      const { kind, namespace, key } = placement.entry;
      const holder = this.#draft.get(kind, namespace, key);
      if (holder && !sameRecord(holder, placement.entry)) this.#rejectTaken(placement, holder);
    });
    for (const [name, placements] of this.#absent) {
      const forward = this.#draft.forwards.get(name);
      if (!forward) continue;
      const taken = new Map<string, Entry>();
      yield* forEachInSteps(placements, (placement) => {
        const { namespace, key } = placement.entry;
        const holder = this.#draft.get('tool', namespace, key) ?? taken.get(placeOf(placement.entry));
        if (holder) this.#rejectTaken(placement, holder);
        taken.set(placeOf(placement.entry), placement.entry);
      });
      const states = placements.map(({ entry }) => entry);
      this.#draft.putForward(withDetached(forward, states));
      yield;
    }
  }

  #rejectTaken({ entry, path, from }: Placement, holder: Entry): void {
    const { kind, name, namespace, key, discovered } = entry;
    const { forward, upstreamKey } = discovered ?? {};
    if (!from) {
      const place = `${kind} ${key} in namespace ${namespace}`;
      const remedy = holder.discovered ? 'rename it' : 'delete it';
      const problem = `${place} is already ${usedBy(holder)}; ${remedy}, or choose another prefix or namespace`;
      return this.#difference.reject(path, problem);
    }
    const stays = from.key === key && from.namespace === namespace;
    const problem = stays
      ? `tool ${upstreamKey} of forward ${forward} is shadowed by another tool ${name} in namespace ${namespace}; rename that tool, or set a prefix for the forward`
      : takenBy(entry, holder);
    const isRevert = path === '';
    this.#difference.reject(
      path,
      isRevert ? `cannot revert the changes to tool ${from.name} of forward ${forward}: ${problem}` : problem,
    );
  }
}

function isOverrides(tool: DesiredTool): tool is ToolOverrides {
  return Object.hasOwn(tool, 'forward');
}

/** Identifies an object of an upstream. */
function originOf({ kind, discovered }: Entry): string {
  return originIn(discovered?.forward, discovered?.upstreamKey, kind);
}

function originIn(forward: string | undefined, upstreamKey: string | undefined, kind: Kind = 'tool'): string {
  return JSON.stringify([kind, forward, upstreamKey]);
}

function placeOf({ namespace = DEFAULT_NAMESPACE, name }: Pick<EntryInput, 'namespace' | 'name'>): string {
  return `${namespace} ${name}`;
}

/** A discovered entry with these overrides. All other members are the upstream's; they are not compared if it is `exact`. */
function overridden(entry: Entry, forward: Forward, wanted: Overrides, exact: boolean): Entry {
  const { discovered } = entry;
  if (!discovered) return entry;
  const { name = forward.prefix + discovered.upstreamKey, namespace = forward.namespace, enabled } = wanted;
  const submitted = parseEntryInput('tool', { ...membersOf(wanted), name, namespace });
  // As in the rest of the API, an empty description removes the upstream's.
  const { description } = submitted.definition;
  const changes: JsonObject = { ...submitted.definition, ...(description === '' && { description: null }) };
  const values = new Map(Object.entries(changes).map(([member, value]) => [member, value ?? undefined]));
  const overrides = exact ? changes : overridesOf('tool', discovered, values);
  const next = updateDiscoveredEntry(entry, discovered, { ...submitted, overrides }, forward);
  return withMark(next, enabled === null ? true : enabled);
}

/** The members besides those that identify the tool. */
function membersOf({ forward: _f, upstreamName: _u, enabled: _e, ...members }: Overrides): EntryInput {
  return members;
}

function withMark(entry: Entry, enabled = isEnabled(entry)): Entry {
  return enabled === isEnabled(entry) ? entry : marked(entry, enabled);
}

/** Members that a plan shows first. */
const FIRST_MEMBERS = ['name', 'namespace', 'labels', 'enabled'];

/** The members of a tool in the management API, without its origin. */
function flat(entry: Entry): JsonObject {
  const json = parseLossless(entryJson(entry));
  const members = new Map(isJsonObject(json) ? Object.entries(json) : []);
  const { variants = [], overrides = {} } = entry.discovered ?? {};
  // Of an unknown tool, so that it is a difference whether the upstream's member is removed.
  if (variants[0]?.json === '{}') {
    for (const [member, value] of Object.entries(overrides))
      if (value === null) members.set(restName('tool', member), null);
  }
  for (const member of ['forward', 'upstreamName']) members.delete(member);
  const names = new Set([...FIRST_MEMBERS, ...members.keys()]);
  return definedMembers(Object.fromEntries([...names].map((name) => [name, members.get(name)])));
}

function toolChanges(before: Entry, after: Entry): MemberChange[] {
  const overrides = after.discovered?.overrides ?? {};
  return diffMembers(flat(before), flat(after)).filter(({ member, from, to }) => {
    // The upstream's own value in another notation is no difference.
    const isSame = from !== undefined && to !== undefined && equal(from, to);
    return !isSame || Object.hasOwn(overrides, mcpName('tool', member));
  });
}

const ENABLES = 'enables it';

function wideningOf(members: readonly MemberChange[]): Pick<StateChange, 'widens'> {
  const widens = members.flatMap(({ member, from, to }) => {
    if (member === 'enabled' && to === true) return [ENABLES];
    return member === 'namespace' && from !== undefined ? [`moves it to namespace ${to}`] : [];
  });
  return widens.length > 0 ? { widens } : {};
}

function overrideChange(
  { name, namespace, discovered }: Entry,
  members: MemberChange[],
  notes: string[] = [],
): StateChange {
  const { forward, upstreamKey: upstreamName } = discovered ?? {};
  return {
    action: 'update',
    kind: 'tool',
    name,
    namespace,
    forward,
    upstreamName,
    members,
    ...wideningOf(members),
    notes,
  };
}

function takenBy({ name, namespace }: Entry, holder: Entry): string {
  const remedy = `${holder.discovered ? 'rename' : 'delete'} that tool, or choose another name`;
  return `name ${name} in namespace ${namespace} is already ${usedBy(holder)}; ${remedy}`;
}

function usedBy({ kind, discovered }: Entry): string {
  return `used by a ${discovered ? `${kind} of forward ${discovered.forward}` : `manually registered ${kind}`}`;
}
