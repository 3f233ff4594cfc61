import { byOrder, type CacheHint, type Entry, isTemplate, type KnownCatalogue, sameRecord } from './entries.ts';

/** So many changes are kept beside the entries they change: each copy takes them along, and then folds them in. */
const FOLD_AT = 1024;

/**
 * A map whose copies cost what was changed lately, and not what it holds: ten thousand single commits to a map of ten
 * thousand would otherwise copy a hundred million entries. Immutable; {@link LayeredMap.copy} makes a draft.
 */
export class LayeredMap<V extends object> {
  readonly #base: ReadonlyMap<string, V>;
  /** What differs from the base; undefined where it was removed. */
  readonly #changes: ReadonlyMap<string, V | undefined>;

  constructor(base: ReadonlyMap<string, V> = new Map(), changes: ReadonlyMap<string, V | undefined> = new Map()) {
    this.#base = base;
    this.#changes = changes;
  }

  get(key: string): V | undefined {
    // Calls look their tools up here, most often in a map at rest.
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

/** A {@link LayeredMap} under change. */
export class DraftMap<V extends object> {
  readonly #base: ReadonlyMap<string, V>;
  readonly #changes: Map<string, V | undefined>;
  /** The same two layers, read. */
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

  /** The state of the map; the draft must not be changed after that. */
  publish(): LayeredMap<V> {
    if (this.#changes.size < FOLD_AT) return this.#view;
    const folded = new Map(this.#base);
    for (const [key, value] of this.#changes) {
      if (value === undefined) folded.delete(key);
      else folded.set(key, value);
    }
    return new LayeredMap(folded);
  }
}

/** What a client sees of the forwards' catalogues. Made once per (era, capability set) of clients. */
export interface CatalogueView {
  /** Names the view; lists are prebuilt under it. */
  readonly key: string;
  /** The forward's catalogue for this client; undefined when it has none. */
  choose(forward: string): KnownCatalogue | undefined;
  /** An item of a list as this client takes it; asked for every item, so it is quick where there is nothing to change. */
  item(method: string, json: string): string;
  /** The result that carries a list: `items` is the array's JSON text, `cache` the hints of all its sources together. */
  wrap(method: string, items: string, cache: CacheHint): string;
}

/** A list's result, ready to be sent. */
export interface PrebuiltList {
  /** JSON text; in UTF-8 where it is long. */
  readonly json: string | Buffer;
  /** Length of `json` in UTF-8. */
  readonly bytes: number;
}

/** From this length on, encoding a text for every answer costs more than a write of its own does. */
const ENCODE_ONCE_BYTES = 64 * 1024;

/** Views of one shelf that are kept prebuilt; client capabilities are input from outside, so they are bounded. */
const MAX_PREBUILT = 64;

/**
 * The entries of one kind in one namespace. Several may claim a key: the first registered holds it, the others are
 * shadowed until it goes away (decisions 2.2). Immutable once its snapshot is published, which is what makes the
 * prebuilt lists safe to keep.
 */
export class EntryIndex {
  readonly #claims: LayeredMap<readonly Entry[]>;
  #ordered: readonly Entry[] | undefined;
  #templates: readonly Entry[] | undefined;
  #shadowed: readonly Entry[] | undefined;
  #counts: ReadonlyMap<string, number> | undefined;
  readonly #lists = new Map<string, PrebuiltList>();

  constructor(claims = new LayeredMap<readonly Entry[]>()) {
    this.#claims = claims;
  }

  /** The entry that holds this key. */
  get(key: string): Entry | undefined {
    return this.#claims.get(key)?.[0];
  }

  /** Every entry that claims this key, its holder first. */
  claims(key: string): readonly Entry[] {
    return this.#claims.get(key) ?? [];
  }

  /** The entries that are served, in the order of lists. */
  get entries(): readonly Entry[] {
    this.#ordered ??= [...this.#claims.values()].flatMap((claims) => claims.slice(0, 1)).sort(byOrder);
    return this.#ordered;
  }

  /** The resource templates that are served, in the order of lists. */
  get templates(): readonly Entry[] {
    this.#templates ??= this.entries.filter(isTemplate);
    return this.#templates;
  }

  /** All entries, shadowed ones included, in no order. */
  *all(): Generator<Entry> {
    for (const claims of this.#claims.values()) yield* claims;
  }

  /** The entries that claim a key which another one holds, in no order. */
  get shadowed(): readonly Entry[] {
    this.#shadowed ??= [...this.#claims.values()].flatMap((claims) => (claims.length > 1 ? claims.slice(1) : []));
    return this.#shadowed;
  }

  /** How many entries of each forward discovery put here, shadowed ones included; 0 where there are only copies. */
  get counts(): ReadonlyMap<string, number> {
    this.#counts ??= count(this.#claims.values());
    return this.#counts;
  }

  /** The list that this view's clients get; `method` picks templates or plain entries and the caching hints. */
  list(view: CatalogueView, method: string): PrebuiltList {
    const key = `${method} ${view.key}`;
    let list = this.#lists.get(key);
    if (!list) {
      if (this.#lists.size >= MAX_PREBUILT) this.#lists.clear();
      const built = buildList(this.entries, view, method);
      // Clients choose their capabilities: what comes out the same for several is kept once.
      list = this.#lists.values().find((other) => sameList(other, built)) ?? built;
      this.#lists.set(key, list);
    }
    return list;
  }

  /** The list of these keys alone, made for one answer: what it leaves out is nothing that anybody else may keep. */
  someOf(keys: ReadonlySet<string>, view: CatalogueView, method: string): PrebuiltList {
    const entries = this.entries.filter(({ key }) => keys.has(key));
    return buildList(entries, view, method, { ttlMs: 0, cacheScope: 'private' });
  }

  /** A copy that may be changed until it is published. */
  copy(): DraftIndex {
    return new DraftIndex(this.#claims.copy());
  }
}

/** A shelf under change. Only a draft holds one; {@link DraftIndex.publish} ends it. */
export class DraftIndex {
  readonly #claims: DraftMap<readonly Entry[]>;

  constructor(claims: DraftMap<readonly Entry[]>) {
    this.#claims = claims;
  }

  get(key: string): Entry | undefined {
    return this.#claims.get(key)?.[0];
  }

  claims(key: string): readonly Entry[] {
    return this.#claims.get(key) ?? [];
  }

  *all(): Generator<Entry> {
    for (const claims of this.#claims.values()) yield* claims;
  }

  /**
   * Replaces the earlier state of this record, or adds it to those who claim the key. Who holds it goes on holding it;
   * the others wait in order of registration.
   */
  put(entry: Entry): void {
    const claims = this.claims(entry.key);
    const at = claims.findIndex((claim) => sameRecord(claim, entry));
    const [holder, ...others] = at === -1 ? [...claims, entry] : claims.with(at, entry);
    this.set(entry.key, holder ? [holder, ...others.sort(byOrder)] : []);
  }

  remove(entry: Entry): void {
    const rest = this.claims(entry.key).filter((claim) => !sameRecord(claim, entry));
    this.set(entry.key, rest);
  }

  /** Sets who claims a key, the holder first: for taking a change back. */
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

/** `hintOfAll`: in the place of those of the entries' sources. */
function buildList(
  entries: readonly Entry[],
  view: CatalogueView,
  method: string,
  hintOfAll?: CacheHint,
): PrebuiltList {
  const templates = method === 'resources/templates/list';
  const chosen = new Map<string, KnownCatalogue | undefined>();
  const parts: string[] = [];
  let cache: CacheHint | undefined;
  for (const entry of entries) {
    if (isTemplate(entry) !== templates) continue;
    const forward = entry.discovered?.forward;
    let hint = UNCACHED;
    let offer = entry.served[0];
    if (forward !== undefined) {
      if (!chosen.has(forward)) chosen.set(forward, view.choose(forward));
      const catalogue = chosen.get(forward);
      if (catalogue) {
        offer = entry.served.find(({ catalogues }) => !catalogues || catalogues.includes(catalogue.key));
        hint = catalogue.cache[method] ?? UNCACHED;
      }
    }
    if (!offer) continue;
    parts.push(view.item(method, offer.json));
    cache = cache ? strictest(cache, hint) : hint;
  }
  const json = view.wrap(method, `[${parts.join(',')}]`, hintOfAll ?? cache ?? UNCACHED);
  const bytes = Buffer.byteLength(json);
  return { json: bytes < ENCODE_ONCE_BYTES ? json : Buffer.from(json), bytes };
}

function sameList(a: PrebuiltList, b: PrebuiltList): boolean {
  if (a.bytes !== b.bytes) return false;
  return typeof a.json === 'string' || typeof b.json === 'string' ? a.json === b.json : a.json.equals(b.json);
}

/** The least time and the narrower scope of two hints (mcp 2). */
function strictest(a: CacheHint, b: CacheHint): CacheHint {
  return {
    ttlMs: Math.min(a.ttlMs, b.ttlMs),
    cacheScope: a.cacheScope === 'private' || b.cacheScope === 'private' ? 'private' : 'public',
  };
}
