import {
  byOrder,
  type CacheHint,
  type Entry,
  isEnabled,
  isTemplate,
  type KnownCatalog,
  sameRecord,
} from './entries.ts';

/** Number of changes at which the upper layer is merged into the base; every copy copies the upper layer. */
const MERGE_FROM = 1024;

/**
 * An immutable map. The cost of a copy depends on the recent changes, not on the size: ten thousand commits to a map of
 * ten thousand entries would otherwise copy a hundred million. {@link LayeredMap.copy} creates a draft.
 */
export class LayeredMap<V extends object> {
  readonly #base: ReadonlyMap<string, V>;
  /** Differences from the base; undefined for a removed key. */
  readonly #changes: ReadonlyMap<string, V | undefined>;

  constructor(base: ReadonlyMap<string, V> = new Map(), changes: ReadonlyMap<string, V | undefined> = new Map()) {
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
    for (const [key, value] of this.#base) if (!this.#changes.has(key)) yield value;
    for (const value of this.#changes.values()) if (value !== undefined) yield value;
  }

  copy(): DraftMap<V> {
    return new DraftMap(this.#base, new Map(this.#changes));
  }
}

/** A mutable copy of a {@link LayeredMap}. */
export class DraftMap<V extends object> {
  readonly #base: ReadonlyMap<string, V>;
  readonly #changes: Map<string, V | undefined>;
  /** A read-only view of the same layers. */
  readonly #view: LayeredMap<V>;

  constructor(base: ReadonlyMap<string, V>, changes: Map<string, V | undefined>) {
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

  /** Ends the draft and returns its state. */
  publish(): LayeredMap<V> {
    if (this.#changes.size < MERGE_FROM) return this.#view;
    const merged = new Map(this.#base);
    for (const [key, value] of this.#changes) {
      if (value === undefined) merged.delete(key);
      else merged.set(key, value);
    }
    return new LayeredMap(merged);
  }
}

/** The lists as one kind of client sees them; one view per (era, capability set) of clients. */
export interface CatalogView {
  /** Identifies the view; prebuilt lists are cached by it. */
  readonly key: string;
  /** The forward's catalog for this client, if there is one. */
  choose(forward: string): KnownCatalog | undefined;
  /** Adapts a list item to the client. Called for every item, so fast when nothing changes. */
  item(method: string, json: string): string;
  /** Builds the result with a list: `items` is the JSON text of the array, `cache` the combined hints. */
  wrap(method: string, items: string, cache: CacheHint): string;
}

/** The result of a list request, ready to send. */
export interface PrebuiltList {
  /** JSON text; in UTF-8 where it is long. */
  readonly json: string | Buffer;
  /** Length of `json` in UTF-8. */
  readonly bytes: number;
}

/** From this size on, encoding the text for every response costs more than a separate write. */
const ENCODE_ONCE_BYTES = 64 * 1024;

/** Cached lists per index. Clients choose their capabilities, so the number of views must be bounded. */
const MAX_PREBUILT = 64;

/**
 * The entries of one kind in one namespace. Several entries can have the same key: the first registered holds it, the
 * others are shadowed until it is removed (decisions 2.2). The holder is served unless it is disabled (decisions 10.1);
 * only members named `registered` include disabled ones. Immutable once published, so prebuilt lists can be cached.
 */
export class EntryIndex {
  readonly #claims: LayeredMap<readonly Entry[]>;
  #registered: readonly Entry[] | undefined;
  #ordered: readonly Entry[] | undefined;
  #disabled: readonly Entry[] | undefined;
  #templates: readonly Entry[] | undefined;
  #shadowed: readonly Entry[] | undefined;
  #counts: ReadonlyMap<string, number> | undefined;
  readonly #lists = new Map<string, PrebuiltList>();

  constructor(claims = new LayeredMap<readonly Entry[]>()) {
    this.#claims = claims;
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

  /** The served entries, in list order. */
  get entries(): readonly Entry[] {
    this.#ordered ??= this.registeredEntries.every(isEnabled)
      ? this.registeredEntries
      : this.registeredEntries.filter(isEnabled);
    return this.#ordered;
  }

  /** The entries that hold their keys, disabled ones included, in list order. */
  get registeredEntries(): readonly Entry[] {
    this.#registered ??= [...this.#claims.values()].flatMap((claims) => claims.slice(0, 1)).sort(byOrder);
    return this.#registered;
  }

  /** The disabled entries, shadowed ones included, in no order. */
  get disabled(): readonly Entry[] {
    this.#disabled ??= [...this.all()].filter((entry) => !isEnabled(entry));
    return this.#disabled;
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
    this.#shadowed ??= [...this.#claims.values()].flatMap((claims) => (claims.length > 1 ? claims.slice(1) : []));
    return this.#shadowed;
  }

  /** Number of discovered entries by forward, shadowed ones included; 0 where there are only copies. */
  get counts(): ReadonlyMap<string, number> {
    this.#counts ??= count(this.#claims.values());
    return this.#counts;
  }

  /** The list for the clients of a view; `method` selects templates or entries and the caching hints. */
  list(view: CatalogView, method: string): PrebuiltList {
    const key = `${method} ${view.key}`;
    let list = this.#lists.get(key);
    if (!list) {
      if (this.#lists.size >= MAX_PREBUILT) this.#lists.clear();
      const built = buildList(this.entries, view, method);
      // Equal lists of several views are stored once.
      list = this.#lists.values().find((other) => isSameList(other, built)) ?? built;
      this.#lists.set(key, list);
    }
    return list;
  }

  /** A list of these keys only, for one response: uncacheable and private, because it was filtered for its client. */
  listOf(keys: ReadonlySet<string>, view: CatalogView, method: string): PrebuiltList {
    const entries = this.entries.filter(({ key }) => keys.has(key));
    return buildList(entries, view, method, { ttlMs: 0, cacheScope: 'private' });
  }

  /** Creates a draft of this index. */
  copy(): DraftIndex {
    return new DraftIndex(this.#claims.copy());
  }
}

/** A mutable copy of an {@link EntryIndex}, until {@link DraftIndex.publish}. */
export class DraftIndex {
  readonly #claims: DraftMap<readonly Entry[]>;

  constructor(claims: DraftMap<readonly Entry[]>) {
    this.#claims = claims;
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
    this.#claims.set(key, claims.length === 0 ? undefined : claims);
  }

  publish(): EntryIndex {
    return new EntryIndex(this.#claims.publish());
  }
}

function count(claims: Iterable<readonly Entry[]>): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { discovered } of [...claims].flat()) {
    if (!discovered) continue;
    const { forward, copied } = discovered;
    counts.set(forward, (counts.get(forward) ?? 0) + (copied ? 0 : 1));
  }
  return counts;
}

const UNCACHED: CacheHint = { ttlMs: 0, cacheScope: 'public' };

/** `hintOfAll` replaces the caching hints of the forwards. */
function buildList(entries: readonly Entry[], view: CatalogView, method: string, hintOfAll?: CacheHint): PrebuiltList {
  const templates = method === 'resources/templates/list';
  const chosen = new Map<string, KnownCatalog | undefined>();
  const parts: string[] = [];
  let cache: CacheHint | undefined;
  for (const entry of entries) {
    if (isTemplate(entry) !== templates) continue;
    const forward = entry.discovered?.forward;
    let hint = UNCACHED;
    let variant = entry.rendered[0];
    if (forward !== undefined) {
      const catalog = chosen.getOrInsertComputed(forward, (name) => view.choose(name));
      if (catalog) {
        variant = entry.rendered.find(({ catalogs }) => !catalogs || catalogs.includes(catalog.key));
        hint = catalog.cache[method] ?? UNCACHED;
      }
    }
    if (!variant) continue;
    parts.push(view.item(method, variant.json));
    cache = cache ? stricterHint(cache, hint) : hint;
  }
  const json = view.wrap(method, `[${parts.join(',')}]`, hintOfAll ?? cache ?? UNCACHED);
  const bytes = Buffer.byteLength(json);
  return { json: bytes < ENCODE_ONCE_BYTES ? json : Buffer.from(json), bytes };
}

function isSameList(a: PrebuiltList, b: PrebuiltList): boolean {
  if (a.bytes !== b.bytes) return false;
  return typeof a.json === 'string' || typeof b.json === 'string' ? a.json === b.json : a.json.equals(b.json);
}

/** The shorter time and the narrower scope of two hints (mcp 2). */
function stricterHint(a: CacheHint, b: CacheHint): CacheHint {
  return {
    ttlMs: Math.min(a.ttlMs, b.ttlMs),
    cacheScope: a.cacheScope === 'private' || b.cacheScope === 'private' ? 'private' : 'public',
  };
}
