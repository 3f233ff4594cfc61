import { COMMA } from '@sluice/protocol/json/text';
import type { TimeSlicer } from '@sluice/protocol/time-slicer';
import { type CacheHint, type Entry, type EntryVariant, isTemplate, type KnownCatalog } from './entries.ts';
import { forEachInSteps, runSteps, type Steps } from './steps.ts';

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
/** Lists with fewer items are put together as text. */
const ENCODE_DIRECTLY_FROM = 256;
/** Items, and characters, that are encoded in one step. */
const PER_STEP = { items: 256, characters: 512 * 1024 };
/** Placeholder for the items; JSON cannot contain it. */
const PLACEHOLDER = '\0';

const UNCACHED: CacheHint = { ttlMs: 0, cacheScope: 'public' };

const UNCACHED_PRIVATE: CacheHint = { ttlMs: 0, cacheScope: 'private' };

/** Cached lists of the same entries. Clients choose their capabilities, so the number of views must be bounded. */
const MAX_PREBUILT = 64;

/** Lists with more entries are built in slices. */
const MAX_AT_ONCE = 1_000;

/** The lists of some entries, each built when it is requested first. */
export class PrebuiltLists {
  readonly #entries: readonly Entry[];
  readonly #hint: CacheHint | undefined;
  readonly #built = new Map<string, PrebuiltList>();
  readonly #building = new Map<string, Promise<PrebuiltList>>();

  /** `entries` in list order; `hint` replaces the caching hints of the forwards. */
  constructor(entries: readonly Entry[], hint?: CacheHint) {
    this.#entries = entries;
    this.#hint = hint;
  }

  /** Returns the list for the clients of a view; `method` selects templates or other entries. */
  get(view: CatalogView, method: string): PrebuiltList {
    const key = listKey(view, method);
    return this.#built.get(key) ?? this.#store(key, runSteps(buildList(this.#entries, view, method, this.#hint)));
  }

  /** As {@link get}. A long one that is not built yet is built in slices. */
  getInSlices(view: CatalogView, method: string, slicer: TimeSlicer): PrebuiltList | Promise<PrebuiltList> {
    if (this.#entries.length <= MAX_AT_ONCE) return this.get(view, method);
    const key = listKey(view, method);
    const list = this.#built.get(key);
    if (list) return list;
    // Clients that ask meanwhile wait for the same one.
    return this.#building.getOrInsertComputed(key, () =>
      slicer
        .run(buildList(this.#entries, view, method, this.#hint))
        .then((built) => this.#store(key, built))
        .finally(() => this.#building.delete(key)),
    );
  }

  /** The lists of the entries with these keys, filtered for one client: they are uncacheable and private. */
  limitedTo(keys: ReadonlySet<string>): PrebuiltLists {
    const entries = this.#entries.filter(({ key }) => keys.has(key));
    return new PrebuiltLists(entries, UNCACHED_PRIVATE);
  }

  #store(key: string, built: PrebuiltList): PrebuiltList {
    if (this.#built.size >= MAX_PREBUILT) this.#built.clear();
    // Equal lists of several views are stored once.
    const list = this.#built.values().find((other) => isSameList(other, built)) ?? built;
    this.#built.set(key, list);
    return list;
  }
}

function listKey({ key }: CatalogView, method: string): string {
  return `${method} ${key}`;
}

/** Builds the list of these entries for the clients of a view. `hintOfAll` replaces the caching hints of the forwards. */
function* buildList(
  entries: readonly Entry[],
  view: CatalogView,
  method: string,
  hintOfAll?: CacheHint,
): Steps<PrebuiltList> {
  const templates = method === 'resources/templates/list';
  const chosen = new Map<string, KnownCatalog | undefined>();
  const texts: string[] = [];
  let cache: CacheHint | undefined;
  yield* forEachInSteps(entries, (entry) => {
    if (isTemplate(entry) !== templates) return;
    const forward = entry.discovered?.forward;
    let hint = UNCACHED;
    let variant = entry.rendered[0];
    if (forward !== undefined) {
      const catalog = chosen.getOrInsertComputed(forward, (name) => view.choose(name));
      variant = variantFor(entry, catalog);
      hint = catalog?.cache[method] ?? UNCACHED;
    }
    if (!variant) return;
    texts.push(view.item(method, variant.json));
    cache = cache ? stricterHint(cache, hint) : hint;
  });
  const hints = hintOfAll ?? cache ?? UNCACHED;
  if (texts.length < ENCODE_DIRECTLY_FROM) {
    const json = view.wrap(method, `[${texts.join(',')}]`, hints);
    const bytes = Buffer.byteLength(json);
    return { json: bytes < ENCODE_ONCE_BYTES ? json : Buffer.from(json), bytes };
  }
  yield;
  const [before = '', after = ''] = view.wrap(method, `[${PLACEHOLDER}]`, hints).split(PLACEHOLDER);
  const json = yield* encodeItems(before, texts, after);
  return { json, bytes: json.length };
}

/** The texts with commas between them, in UTF-8. Each is encoded into its place: a long list may have 64 MiB. */
function* encodeItems(before: string, texts: readonly string[], after: string): Steps<Buffer> {
  let bytes = Buffer.byteLength(before) + texts.length - 1 + Buffer.byteLength(after);
  yield* forEachTextInSteps(texts, (text) => {
    bytes += Buffer.byteLength(text);
  });
  const json = Buffer.allocUnsafeSlow(bytes);
  const start = json.write(before);
  let at = start;
  yield* forEachTextInSteps(texts, (text) => {
    if (at > start) json[at++] = COMMA;
    at += json.write(text, at);
  });
  json.write(after, at);
  return json;
}

/** As `forEachInSteps`, of texts that may be long. */
function* forEachTextInSteps(texts: readonly string[], process: (text: string) => void): Steps<void> {
  let items = 0;
  let characters = 0;
  for (const text of texts) {
    process(text);
    characters += text.length;
    if (++items < PER_STEP.items && characters < PER_STEP.characters) continue;
    items = 0;
    characters = 0;
    yield;
  }
}

/** The form of an entry in a catalog of its forward; undefined if it is not in it. Without a catalog the first form. */
export function variantFor({ rendered }: Entry, catalog: KnownCatalog | undefined): EntryVariant | undefined {
  if (!catalog) return rendered[0];
  return rendered.find(({ catalogs }) => !catalogs || catalogs.includes(catalog.key));
}

/** Whether two lists have the same text. */
function isSameList(a: PrebuiltList, b: PrebuiltList): boolean {
  if (a.bytes !== b.bytes) return false;
  return typeof a.json === 'string' || typeof b.json === 'string' ? a.json === b.json : a.json.equals(b.json);
}

/** The shorter time and the narrower scope of two hints. */
function stricterHint(a: CacheHint, b: CacheHint): CacheHint {
  return {
    ttlMs: Math.min(a.ttlMs, b.ttlMs),
    cacheScope: a.cacheScope === 'private' || b.cacheScope === 'private' ? 'private' : 'public',
  };
}
