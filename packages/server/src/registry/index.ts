import type { Turns } from '@sluice/protocol/turns';
import { DisabledUris } from './disabled-uris.ts';
import { byOrder, type Entry, isEnabled, isTemplate, sameRecord, TASK_LABEL } from './entries.ts';
import { type DraftMap, LayeredMap } from './layered-map.ts';
import { buildList, type CatalogView, isSameList, type PrebuiltList } from './list.ts';
import { forEachInSteps, runSteps, type Steps, sortInSteps } from './steps.ts';

/** Number of changes from which on all entries are sorted again. */
const RESORT_FROM = 1024;

/** Entries in list order, and the keys of which they may be out of date. */
interface EarlierOrder {
  readonly entries: readonly Entry[];
  readonly changed: ReadonlySet<string>;
}

/** The entries with the current holders of the changed keys, in list order: most changes concern few of 100,000. */
function reorder({ entries, changed }: EarlierOrder, holder: (key: string) => Entry | undefined): readonly Entry[] {
  if (changed.size === 0) return entries;
  const added = [...changed].map(holder).filter((entry) => entry !== undefined);
  // Already in order, except for those at the end: sorting takes linear time.
  return [...entries.filter(({ key }) => !changed.has(key)), ...added.sort(byOrder)].sort(byOrder);
}

/** Cached lists per index. Clients choose their capabilities, so the number of views must be bounded. */
const MAX_PREBUILT = 64;

/** Lists with more entries are built in slices. */
const MAX_AT_ONCE = 1_000;

/** The entries of one kind in one namespace by key: the first one holds the key, the others are shadowed. */
abstract class Claims<Entries extends LayeredMap<readonly Entry[]> | DraftMap<readonly Entry[]>> {
  protected readonly map: Entries;

  constructor(map: Entries) {
    this.map = map;
  }

  /** The entry that holds this key, disabled or not. */
  registered(key: string): Entry | undefined {
    return this.map.get(key)?.[0];
  }

  /** All entries with this key, the holder first. */
  claims(key: string): readonly Entry[] {
    return this.map.get(key) ?? [];
  }

  /** All entries, shadowed ones included, in no order. */
  *all(): Generator<Entry> {
    for (const claims of this.map.values()) yield* claims;
  }
}

/**
 * The entries of one kind in one namespace. Several entries can have the same key: the first registered holds it, the
 * others are shadowed until it is removed. The holder is served unless it is disabled;
 * only members named `registered` include disabled ones. Immutable once published, so prebuilt lists can be cached.
 */
export class EntryIndex extends Claims<LayeredMap<readonly Entry[]>> {
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
  constructor(map = new LayeredMap<readonly Entry[]>(), earlier?: EarlierOrder) {
    super(map);
    this.#earlier = earlier;
  }

  /** The entry served under this key. */
  get(key: string): Entry | undefined {
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
      : [...this.map.values()].flatMap((claims) => claims.slice(0, 1)).sort(byOrder);
    this.#earlier = undefined;
    return this.#registered;
  }

  /** Prepares `registeredEntries`. */
  *sort(): Steps<void> {
    const holders: Entry[] = [];
    yield* forEachInSteps(this.map.values(), ([holder]) => {
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

  /** The shadowed entries, in no order. */
  get shadowed(): readonly Entry[] {
    this.#shadowed ??= [...this.map.values()].flatMap((claims) => claims.slice(1));
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

  /** The entries with these keys, filtered for one client: their list is uncacheable and private. */
  limitedTo(keys: ReadonlySet<string>): Pick<EntryIndex, 'listInSlices'> {
    const entries = this.entries.filter(({ key }) => keys.has(key));
    return {
      listInSlices(view, method, turns) {
        const steps = buildList(entries, view, method, { ttlMs: 0, cacheScope: 'private' });
        return entries.length <= MAX_AT_ONCE ? runSteps(steps) : turns.run(steps);
      },
    };
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
    return new DraftIndex(this.map.copy(), earlier);
  }
}

/** A mutable copy of an {@link EntryIndex}, until {@link DraftIndex.publishInSteps}. */
export class DraftIndex extends Claims<DraftMap<readonly Entry[]>> {
  readonly #earlier: EarlierOrder | undefined;
  readonly #changed: Set<string>;

  /** `earlier`: entries in list order from which the copied index differs. */
  constructor(map: DraftMap<readonly Entry[]>, earlier?: EarlierOrder) {
    super(map);
    this.#earlier = earlier;
    this.#changed = new Set(earlier?.changed);
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
    if (this.#earlier && this.#changed.size <= RESORT_FROM) this.#changed.add(key);
    this.map.set(key, claims.length === 0 ? undefined : claims);
  }

  /** Ends the draft and returns its state. */
  *publishInSteps(): Steps<EntryIndex> {
    const isClose = this.#earlier && this.#changed.size <= RESORT_FROM;
    const earlier = isClose ? { entries: this.#earlier.entries, changed: this.#changed } : undefined;
    const index = new EntryIndex(yield* this.map.publishInSteps(), earlier);
    // After smaller changes it is sorted when it is needed: there may be thousands of them.
    if (this.map.isMerged) yield* index.sort();
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
