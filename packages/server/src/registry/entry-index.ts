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
  #rest: { readonly forwards: ReadonlySet<string>; readonly entries: ServedEntries } | undefined;

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
    this.#hasTasks ??= hasTasks(this.entries);
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

  /** Whether an entry of one of these forwards is served. */
  serves(forwards: ReadonlySet<string>): boolean {
    return forwards.size > 0 && this.entries.some(({ discovered }) => discovered && forwards.has(discovered.forward));
  }

  /** The served entries without those of these forwards: nothing else is served under their keys. This index if it serves none. */
  without(forwards: ReadonlySet<string>): ServedEntries {
    if (this.#rest?.forwards !== forwards) {
      this.#rest = { forwards, entries: this.serves(forwards) ? new RemainingEntries(this, forwards) : this };
    }
    return this.#rest.entries;
  }

  /** Creates a draft of this index. */
  copy(): DraftIndex {
    return new DraftIndex(this.map.copy());
  }
}

/** The served entries of one kind in one namespace. */
export type ServedEntries = Pick<EntryIndex, 'counts' | 'entries' | 'hasTasks' | 'lists' | 'served'>;

/** See {@link EntryIndex.without}. A copy of the index would take too long for one turn of the event loop. */
class RemainingEntries implements ServedEntries {
  readonly entries: readonly Entry[];
  readonly counts: ReadonlyMap<string, number>;
  readonly lists: PrebuiltLists;
  readonly hasTasks: boolean;
  readonly #index: EntryIndex;
  readonly #forwards: ReadonlySet<string>;

  constructor(index: EntryIndex, forwards: ReadonlySet<string>) {
    this.#index = index;
    this.#forwards = forwards;
    this.entries = index.entries.filter((entry) => this.#isLeft(entry));
    this.counts = new Map(index.counts.entries().filter(([forward]) => !forwards.has(forward)));
    this.lists = new PrebuiltLists(this.entries);
    this.hasTasks = hasTasks(this.entries);
  }

  served(key: string): Entry | undefined {
    const entry = this.#index.served(key);
    return entry && this.#isLeft(entry) ? entry : undefined;
  }

  #isLeft({ discovered }: Entry): boolean {
    return discovered === undefined || !this.#forwards.has(discovered.forward);
  }
}

function hasTasks(entries: readonly Entry[]): boolean {
  return entries.some(({ labels }) => labels[TASK_LABEL] === 'auto');
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
