import { type CacheHint, type Entry, type EntryVariant, isTemplate, type KnownCatalog } from './entries.ts';
import { forEachInSteps, type Steps } from './steps.ts';

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
/** Items that are encoded together. */
const PER_PART = 256;
/** Placeholder for the items; JSON cannot contain it. */
const PLACEHOLDER = '\0';

const UNCACHED: CacheHint = { ttlMs: 0, cacheScope: 'public' };

/** Builds the list of these entries for the clients of a view. `hintOfAll` replaces the caching hints of the forwards. */
export function* buildList(
  entries: readonly Entry[],
  view: CatalogView,
  method: string,
  hintOfAll?: CacheHint,
): Steps<PrebuiltList> {
  const templates = method === 'resources/templates/list';
  const chosen = new Map<string, KnownCatalog | undefined>();
  const encoded: Buffer[] = [];
  let texts: string[] = [];
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
    if (texts.length < PER_PART) return;
    encoded.push(Buffer.from(`${encoded.length === 0 ? '' : ','}${texts.join(',')}`));
    texts = [];
  });
  const hints = hintOfAll ?? cache ?? UNCACHED;
  if (encoded.length === 0) {
    const json = view.wrap(method, `[${texts.join(',')}]`, hints);
    const bytes = Buffer.byteLength(json);
    return { json: bytes < ENCODE_ONCE_BYTES ? json : Buffer.from(json), bytes };
  }
  yield;
  const [before = '', after = ''] = view.wrap(method, `[${PLACEHOLDER}]`, hints).split(PLACEHOLDER);
  const rest = texts.length > 0 ? `,${texts.join(',')}` : '';
  encoded.unshift(Buffer.from(before));
  encoded.push(Buffer.from(rest + after));
  const json = yield* concatInSteps(encoded);
  return { json, bytes: json.length };
}

/** The form of an entry in a catalog of its forward; undefined if it is not in it. Without a catalog the first form. */
export function variantFor({ rendered }: Entry, catalog: KnownCatalog | undefined): EntryVariant | undefined {
  if (!catalog) return rendered[0];
  return rendered.find(({ catalogs }) => !catalogs || catalogs.includes(catalog.key));
}

/** Bytes that are copied in one step. */
const COPIED_BYTES = 1024 * 1024;

/** As `Buffer.concat`; a long list may have 64 MiB. */
function* concatInSteps(parts: readonly Buffer[]): Steps<Buffer> {
  const all = Buffer.allocUnsafeSlow(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  let next = COPIED_BYTES;
  for (const part of parts) {
    at += part.copy(all, at);
    if (at < next) continue;
    next = at + COPIED_BYTES;
    yield;
  }
  return all;
}

/** Whether two lists have the same text. */
export function isSameList(a: PrebuiltList, b: PrebuiltList): boolean {
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
