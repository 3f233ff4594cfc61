import type { Turns } from '@sluice/protocol/turns';
import { DisabledUris } from './disabled-uris.ts';
import { byOrder, type Entry, isEnabled, isTemplate, sameRecord, TASK_LABEL } from './entries.ts';
import { buildList, type CatalogView, isSameList, type PrebuiltList } from './list.ts';
import { forEachInSteps, runSteps, type Steps, sortInSteps } from './steps.ts';

/** Number of changes at which they are merged into the base, or the entries are sorted again: each copy includes them. */
const MERGE_FROM = 1024;

/**
 * An immutable map. The cost of a copy depends on the recent changes, not on the size: ten thousand commits to a map of
 * ten thousand entries would otherwise copy a hundred million. {@link LayeredMap.copy} creates a draft.
 */
export class LayeredMap<V extends object> {
  readonly #base: ReadonlyMap<string, V | undefined>;
  /** Differences from the base; undefined for a removed key. */
  readonly #changes: ReadonlyMap<string, V | undefined>;

  constructor(
    base: ReadonlyMap<string, V | undefined> = new Map(),
    changes: ReadonlyMap<string, V | undefined> = new Map(),
  ) {
    this.#base = base;
    this.#changes = changes;
  }

  get(key: string): V | undefined {
    // Every call looks up its tool here, usually in a map without recent changes.
    if (this.#changes.size === 0) return this.#base.get(key);
    return this.#changes.has(key) ? this.#changes.get(key) : this.#base.get(key);
  }

  /** The values, in no order. */
  *values(): Generator<V> {
    for (const [key, value] of this.#base) if (value !== undefined && !this.#changes.has(key)) yield value;
    for (const value of this.#changes.values()) if (value !== undefined) yield value;
  }

  copy(): DraftMap<V> {
    return new DraftMap(this.#base, new Map(this.#changes));
  }
}

/** A mutable copy of a {@link LayeredMap}. */
export class DraftMap<V extends object> {
  readonly #base: ReadonlyMap<string, V | undefined>;
  readonly #changes: Map<string, V | undefined>;
  /** A read-only view of the same layers. */
  readonly #view: LayeredMap<V>;

  constructor(base: ReadonlyMap<string, V | undefined>, changes: Map<string, V | undefined>) {
    this.#base = base;
    this.#changes = changes;
    this.#view = new LayeredMap(base, changes);
  }

  get(key: string): V | undefined {
    return this.#view.get(key);
  }

  /** The values, in no order. */
  values(): Generator<V> {
    return this.#view.values();
  }

  /** Sets the value; undefined removes it. */
  set(key: string, value: V | undefined): void {
    this.#changes.set(key, value);
  }

  /** Whether so much has changed that the layers are merged. */
  get isMerged(): boolean {
    return this.#changes.size >= MERGE_FROM;
  }

  /** Ends the draft and returns its state. */
  *publishInSteps(): Steps<LayeredMap<V>> {
    if (!this.isMerged) return this.#view;
    if (this.#base.size === 0) {
      yield* forEachInSteps(this.#changes, ([key, value]) => {
        if (value === undefined) this.#changes.delete(key);
      });
      return new LayeredMap(this.#changes);
    }
    const merged = new Map<string, V | undefined>();
    yield* forEachInSteps(this.#base, ([key, value]) => merged.set(key, value));
    yield* forEachInSteps(this.#changes, ([key, value]) => {
      if (value === undefined) merged.delete(key);
      else merged.set(key, value);
    });
    return new LayeredMap(merged);
  }
}

/** Entries in list order, and the keys of which they may be out of date. */
interface EarlierOrder {
  readonly entries: readonly Entry[];
  readonly changed: ReadonlySet<string>;
}

/** The entries with the current holders of the changed keys, in list order: most changes concern few of 100,000. */
function reorder({ entries, changed }: EarlierOrder, holder: (key: string) => Entry | undefined): readonly Entry[] {
  if (changed.size === 0) return entries;
  const added = [...changed].map(holder).filter((entry) => entry !== undefined);
  // Already in order, but for those at the end: sorting takes linear time.
  return [...entries.filter(({ key }) => !changed.has(key)), ...added.sort(byOrder)].sort(byOrder);
}

/** Cached lists per index. Clients choose their capabilities, so the number of views must be bounded. */
const MAX_PREBUILT = 64;

/** Lists with more entries are built in slices. */
const MAX_AT_ONCE = 1_000;

/**
 * The entries of one kind in one namespace. Several entries can have the same key: the first registered holds it, the
 * others are shadowed until it is removed. The holder is served unless it is disabled;
 * only members named `registered` include disabled ones. Immutable once published, so prebuilt lists can be cached.
 */
export class EntryIndex {
  readonly #claims: LayeredMap<readonly Entry[]>;
  #registered: readonly Entry[] | undefined;
  /** Until `#registered` is known. */
  #earlier: EarlierOrder | undefined;
  #ordered: readonly Entry[] | undefined;
  #disabled: readonly Entry[] | undefined;
  #disabledUris: ReadonlyMap<string | undefined, DisabledUris> | undefined;
  #heldUris: DisabledUris | undefined;
  #templates: readonly Entry[] | undefined;
  #shadowed: readonly Entry[] | undefined;
  #counts: ReadonlyMap<string, number> | undefined;
  #hasTasks: boolean | undefined;
  #renamed: ReadonlyMap<string | undefined, readonly Entry[]> | undefined;
  readonly #lists = new Map<string, PrebuiltList>();
  readonly #building = new Map<string, Promise<PrebuiltList>>();

  /** `earlier`: entries in list order from which this index differs. */
  constructor(claims = new LayeredMap<readonly Entry[]>(), earlier?: EarlierOrder) {
    this.#claims = claims;
    this.#earlier = earlier;
  }

  /** The entry served under this key. */
  get(key: string): Entry | undefined {
    const entry = this.#claims.get(key)?.[0];
    // As `isEnabled`, without a call on the hot path.
    return entry?.disabledBy === undefined ? entry : undefined;
  }

  /** The entry that holds this key, disabled or not. */
  registered(key: string): Entry | undefined {
    return this.#claims.get(key)?.[0];
  }

  /** All entries with this key, the holder first. */
  claims(key: string): readonly Entry[] {
    return this.#claims.get(key) ?? [];
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
    this.#ordered ??= this.registeredEntries.every(isEnabled)
      ? this.registeredEntries
      : this.registeredEntries.filter(isEnabled);
    return this.#ordered;
  }

  /** Whether long calls of a served tool become tasks. */
  get hasTasks(): boolean {
    this.#hasTasks ??= this.entries.some(({ labels }) => labels[TASK_LABEL] === 'auto');
    return this.#hasTasks;
  }

  /** The entries that hold their keys, disabled ones included, in list order. */
  get registeredEntries(): readonly Entry[] {
    this.#registered ??= this.#earlier
      ? reorder(this.#earlier, (key) => this.registered(key))
      : [...this.#claims.values()].flatMap((claims) => claims.slice(0, 1)).sort(byOrder);
    this.#earlier = undefined;
    return this.#registered;
  }

  /** Prepares `registeredEntries`. */
  *sort(): Steps<void> {
    const holders: Entry[] = [];
    yield* forEachInSteps(this.#claims.values(), ([holder]) => {
      if (holder) holders.push(holder);
    });
    this.#registered = yield* sortInSteps(holders, byOrder);
    this.#earlier = undefined;
  }

  /** The disabled entries, shadowed ones included, in no order. */
  get disabled(): readonly Entry[] {
    this.#disabled ??= [...this.all()].filter((entry) => !isEnabled(entry));
    return this.#disabled;
  }

  /** The uris of disabled resources, shadowed ones included, by forward; undefined for manual entries. */
  get disabledUris(): ReadonlyMap<string | undefined, DisabledUris> {
    this.#disabledUris ??= new Map(
      [...Map.groupBy(this.disabled, ({ discovered }) => discovered?.forward)].map(([forward, entries]) => {
        return [forward, new DisabledUris(entries)];
      }),
    );
    return this.#disabledUris;
  }

  /** The uris that disabled resources hold: nothing else is served under them. */
  get heldUris(): DisabledUris {
    this.#heldUris ??= new DisabledUris(this.disabled.filter((entry) => this.registered(entry.key) === entry));
    return this.#heldUris;
  }

  /** The served resource templates, in list order. */
  get templates(): readonly Entry[] {
    this.#templates ??= this.entries.filter(isTemplate);
    return this.#templates;
  }

  /** All entries, shadowed ones included, in no order. */
  *all(): Generator<Entry> {
    for (const claims of this.#claims.values()) yield* claims;
  }

  /** The shadowed entries, in no order. */
  get shadowed(): readonly Entry[] {
    this.#shadowed ??= [...this.#claims.values()].flatMap((claims) => claims.slice(1));
    return this.#shadowed;
  }

  /** Number of discovered entries by forward, shadowed ones included; 0 where there are only copies. */
  get counts(): ReadonlyMap<string, number> {
    this.#counts ??= count(this.all());
    return this.#counts;
  }

  /** The list for the clients of a view; `method` selects templates or entries and the caching hints. */
  list(view: CatalogView, method: string): PrebuiltList {
    const key = listKey(view, method);
    return this.#lists.get(key) ?? this.#store(key, runSteps(buildList(this.entries, view, method)));
  }

  /** As {@link list}. A long one that is not built yet is built in slices. */
  listInSlices(view: CatalogView, method: string, turns: Turns): PrebuiltList | Promise<PrebuiltList> {
    const key = listKey(view, method);
    const list = this.#lists.get(key);
    if (list) return list;
    const { entries } = this;
    if (entries.length <= MAX_AT_ONCE) return this.list(view, method);
    // Clients that ask meanwhile wait for the same one.
    return this.#building.getOrInsertComputed(key, () =>
      turns
        .run(buildList(entries, view, method))
        .then((built) => this.#store(key, built))
        .finally(() => this.#building.delete(key)),
    );
  }

  /**
   * A list of these keys only, for one response: uncacheable and private, because it was filtered for its client. A long one is
   * built in slices.
   */
  listOf(
    keys: ReadonlySet<string>,
    view: CatalogView,
    method: string,
    turns: Turns,
  ): PrebuiltList | Promise<PrebuiltList> {
    const entries = this.entries.filter(({ key }) => keys.has(key));
    const steps = buildList(entries, view, method, { ttlMs: 0, cacheScope: 'private' });
    return entries.length <= MAX_AT_ONCE ? runSteps(steps) : turns.run(steps);
  }

  #store(key: string, built: PrebuiltList): PrebuiltList {
    if (this.#lists.size >= MAX_PREBUILT) this.#lists.clear();
    // Equal lists of several views are stored once.
    const list = this.#lists.values().find((other) => isSameList(other, built)) ?? built;
    this.#lists.set(key, list);
    return list;
  }

  /** Creates a draft of this index. */
  copy(): DraftIndex {
    const earlier = this.#registered ? { entries: this.#registered, changed: new Set<string>() } : this.#earlier;
    return new DraftIndex(this.#claims.copy(), earlier);
  }
}

/** A mutable copy of an {@link EntryIndex}, until {@link DraftIndex.publishInSteps}. */
export class DraftIndex {
  readonly #claims: DraftMap<readonly Entry[]>;
  readonly #earlier: EarlierOrder | undefined;
  readonly #changed: Set<string>;

  /** `earlier`: entries in list order from which the copied index differs. */
  constructor(claims: DraftMap<readonly Entry[]>, earlier?: EarlierOrder) {
    this.#claims = claims;
    this.#earlier = earlier;
    this.#changed = new Set(earlier?.changed);
  }

  /** The entry that holds this key, disabled or not. */
  registered(key: string): Entry | undefined {
    return this.#claims.get(key)?.[0];
  }

  claims(key: string): readonly Entry[] {
    return this.#claims.get(key) ?? [];
  }

  *all(): Generator<Entry> {
    for (const claims of this.#claims.values()) yield* claims;
  }

  /**
   * Adds an entry, or replaces the earlier state of its record. The served entry of the key stays the same; the shadowed
   * ones are ordered by registration.
   */
  put(entry: Entry): void {
    const claims = this.claims(entry.key);
    if (claims.length === 0) return this.set(entry.key, [entry]);
    const at = claims.findIndex((claim) => sameRecord(claim, entry));
    const [served, ...shadowed] = at === -1 ? [...claims, entry] : claims.with(at, entry);
    this.set(entry.key, served ? [served, ...shadowed.sort(byOrder)] : []);
  }

  remove(entry: Entry): void {
    const rest = this.claims(entry.key).filter((claim) => !sameRecord(claim, entry));
    this.set(entry.key, rest);
  }

  /** Sets the entries of a key, the served one first; for undo. */
  set(key: string, claims: readonly Entry[]): void {
    // Beyond that they are all sorted again.
    if (this.#earlier && this.#changed.size <= MERGE_FROM) this.#changed.add(key);
    this.#claims.set(key, claims.length === 0 ? undefined : claims);
  }

  /** Ends the draft and returns its state. */
  *publishInSteps(): Steps<EntryIndex> {
    const isClose = this.#earlier && this.#changed.size <= MERGE_FROM;
    const earlier = isClose ? { entries: this.#earlier.entries, changed: this.#changed } : undefined;
    const index = new EntryIndex(yield* this.#claims.publishInSteps(), earlier);
    // After smaller changes it is sorted when it is needed: there may be thousands of them.
    if (this.#claims.isMerged) yield* index.sort();
    return index;
  }
}

function listKey({ key }: CatalogView, method: string): string {
  return `${method} ${key}`;
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
