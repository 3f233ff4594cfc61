import { DisabledEntries } from './disabled-entries.ts';
import { byOrder, type Entry, isEnabled, isTemplate, sameRecord, TASK_LABEL } from './entries.ts';
import { LayeredMap } from './layered-map.ts';
import { PrebuiltLists } from './list.ts';
import { forEachInSteps, type Steps, sortInSteps } from './steps.ts';

/** The entries of one kind in one namespace by key. */
abstract class Candidates {
  protected readonly map: LayeredMap<readonly Entry[]>;

  constructor(map = new LayeredMap<readonly Entry[]>()) {
    this.map = map;
  }

  /** The entry that owns this key, disabled or not. */
  owner(key: string): Entry | undefined {
    return this.map.get(key)?.[0];
  }

  /** All entries with this key, the owner first. */
  candidates(key: string): readonly Entry[] {
    return this.map.get(key) ?? [];
  }

  /** All entries, shadowed ones included, in no order. */
  *all(): Generator<Entry> {
    for (const candidates of this.map.values()) yield* candidates;
  }
}

/**
 * The entries of one kind in one namespace. Several entries can have the same key: the first registered owns it, the others are
 * shadowed until it is removed. The owner is served unless it is disabled. Immutable once published, so prebuilt lists can be
 * cached.
 */
export class EntryIndex extends Candidates {
  #owners: readonly Entry[] | undefined;
  #ordered: readonly Entry[] | undefined;
  #disabled: DisabledEntries | undefined;
  #templates: readonly Entry[] | undefined;
  #shadowed: readonly Entry[] | undefined;
  #counts: ReadonlyMap<string, number> | undefined;
  #hasTasks: boolean | undefined;
  #renamed: ReadonlyMap<string | undefined, readonly Entry[]> | undefined;
  #lists: PrebuiltLists | undefined;
  /** The latest result of {@link EntryIndex.without}. */
  #rest: { readonly forwards: ReadonlySet<string>; readonly index: EntryIndex } | undefined;

  /** The entry served under this key. */
  served(key: string): Entry | undefined {
    const entry = this.map.get(key)?.[0];
    // As `isEnabled`, without a call on the hot path.
    return entry?.disabledBy === undefined ? entry : undefined;
  }

  /** The discovered entries that have this key at their upstream and another one here, shadowed and disabled ones included. */
  renamedFrom(upstreamKey: string): readonly Entry[] {
    this.#renamed ??= Map.groupBy(
      this.all().filter(({ key, discovered }) => discovered !== undefined && discovered.upstreamKey !== key),
      ({ discovered }) => discovered?.upstreamKey,
    );
    return this.#renamed.get(upstreamKey) ?? [];
  }

  /** The served entries, in list order. */
  get entries(): readonly Entry[] {
    this.#ordered ??= this.owners.every(isEnabled) ? this.owners : this.owners.filter(isEnabled);
    return this.#ordered;
  }

  /** Whether long calls of a served tool become tasks. */
  get hasTasks(): boolean {
    this.#hasTasks ??= this.entries.some(({ labels }) => labels[TASK_LABEL] === 'auto');
    return this.#hasTasks;
  }

  /** The entries that own their keys, disabled ones included, in list order. */
  get owners(): readonly Entry[] {
    this.#owners ??= Array.from(this.map.values(), ([owner]) => owner)
      .filter((owner) => owner !== undefined)
      .sort(byOrder);
    return this.#owners;
  }

  /** Prepares `owners`. */
  *sort(): Steps<void> {
    const owners: Entry[] = [];
    yield* forEachInSteps(this.map.values(), ([owner]) => {
      if (owner) owners.push(owner);
    });
    this.#owners = yield* sortInSteps(owners, byOrder);
  }

  /** The disabled entries, shadowed ones included. */
  get disabled(): DisabledEntries {
    this.#disabled ??= new DisabledEntries(
      this.all().filter((entry) => !isEnabled(entry)),
      (entry) => this.owner(entry.key) === entry,
    );
    return this.#disabled;
  }

  /** The served resource templates, in list order. */
  get templates(): readonly Entry[] {
    this.#templates ??= this.entries.filter(isTemplate);
    return this.#templates;
  }

  /** The shadowed entries, in no order. */
  get shadowed(): readonly Entry[] {
    this.#shadowed ??= [...this.map.values()].flatMap((candidates) => candidates.slice(1));
    return this.#shadowed;
  }

  /** Number of discovered entries by forward, shadowed ones included; 0 where there are only copies. */
  get counts(): ReadonlyMap<string, number> {
    this.#counts ??= count(this.all());
    return this.#counts;
  }

  /** The lists of the served entries. */
  get lists(): PrebuiltLists {
    this.#lists ??= new PrebuiltLists(this.entries);
    return this.#lists;
  }

  /** What is left without the entries of these forwards: nothing else is served under their keys. This one if it has none of them. */
  without(forwards: ReadonlySet<string>): EntryIndex {
    if (this.#rest?.forwards !== forwards) this.#rest = { forwards, index: this.#makeWithout(forwards) };
    return this.#rest.index;
  }

  #makeWithout(forwards: ReadonlySet<string>): EntryIndex {
    if (!forwards.values().some((forward) => this.counts.has(forward))) return this;
    const isLeft = ({ discovered }: Entry) => discovered === undefined || !forwards.has(discovered.forward);
    const owners = this.owners.filter(isLeft);
    const left = new Map(owners.map(({ key }) => [key, this.candidates(key).filter(isLeft)]));
    const index = new EntryIndex(new LayeredMap(left));
    index.#owners = owners;
    return index;
  }

  /** Creates a draft of this index. */
  copy(): DraftIndex {
    return new DraftIndex(this.map.copy());
  }
}

/** A mutable copy of an {@link EntryIndex}, until {@link DraftIndex.publishInSteps}. */
export class DraftIndex extends Candidates {
  /**
   * Adds an entry, or replaces the earlier state of its record. The served entry of the key stays the same; the shadowed
   * ones are ordered by registration.
   */
  put(entry: Entry): void {
    const candidates = this.candidates(entry.key);
    if (candidates.length === 0) return this.set(entry.key, [entry]);
    const at = candidates.findIndex((candidate) => sameRecord(candidate, entry));
    const [served, ...shadowed] = at === -1 ? [...candidates, entry] : candidates.with(at, entry);
    this.set(entry.key, served ? [served, ...shadowed.sort(byOrder)] : []);
  }

  remove(entry: Entry): void {
    const rest = this.candidates(entry.key).filter((candidate) => !sameRecord(candidate, entry));
    this.set(entry.key, rest);
  }

  /** Sets the entries of a key, the served one first; for undo. */
  set(key: string, candidates: readonly Entry[]): void {
    this.map.set(key, candidates.length === 0 ? undefined : candidates);
  }

  /** Ends the draft and returns its state. */
  *publishInSteps(): Steps<EntryIndex> {
    const index = new EntryIndex(yield* this.map.publishInSteps());
    // After smaller changes it is sorted when it is needed: there may be thousands of them.
    if (this.map.isMerged) yield* index.sort();
    return index;
  }
}

function count(entries: Iterable<Entry>): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { discovered } of entries) {
    if (!discovered) continue;
    const { forward, copied } = discovered;
    counts.set(forward, (counts.get(forward) ?? 0) + (copied ? 0 : 1));
  }
  return counts;
}
