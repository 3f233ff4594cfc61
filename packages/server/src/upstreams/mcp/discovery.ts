import { isJsonObject } from '@sluice/protocol/json/parse';
import { type ClientCapabilities, catalogKey } from '@sluice/protocol/mcp/capabilities';
import { type Era, METHOD_NOT_FOUND } from '@sluice/protocol/mcp/constants';
import { counted } from '@sluice/protocol/text';
import { TimeSlicer } from '@sluice/protocol/time-slicer';
import { UpstreamError } from '../../http/client/errors.ts';
import type { DiscoveredCatalog, ListedItem } from '../../registry/catalogs.ts';
import type { CacheHint } from '../../registry/entries.ts';
import { CATALOG_LIMITS, type CatalogLimits, CatalogSize } from './catalog/catalog-size.ts';
import { CatalogTexts, perList } from './catalog/catalog-texts.ts';
import { ListItems, type ListSpec } from './catalog/list-items.ts';
import { ListPage, type ListPageParts } from './catalog/list-page.ts';
import type { ListReads } from './list-reads.ts';
import type { LargeMessage } from './relay/large-message.ts';
import { openLegacy, openModern, type RpcClient, type RpcClientOptions, toUpstreamError } from './rpc-client.ts';

/** Catalog of an upstream for clients of one era and one set of capabilities. */
export interface Catalog extends DiscoveredCatalog {
  readonly era: Era;
  /** Protocol version of the requests. */
  readonly protocolVersion: string;
  readonly capabilities: ClientCapabilities;
  /** Notes on skipped entries and incomplete lists, for the forward's `statusMessage`. */
  readonly notes: readonly string[];
}

const LISTS: readonly ListSpec[] = [
  { into: 'tools', capability: 'tools', method: 'tools/list', member: 'tools', key: 'name' },
  { into: 'resources', capability: 'resources', method: 'resources/list', member: 'resources', key: 'uri' },
  {
    into: 'templates',
    capability: 'resources',
    method: 'resources/templates/list',
    member: 'resourceTemplates',
    key: 'uriTemplate',
  },
  { into: 'prompts', capability: 'prompts', method: 'prompts/list', member: 'prompts', key: 'name' },
];

/** The identity goes to every client. */
const MAX_IDENTITY_LENGTH = 256 * 1024;
/** Consecutive pages without entries: an upstream that filters its list may send some. */
const MAX_EMPTY_PAGES = 1_000;
/** Bytes of a page beyond the limit of the catalog, which ends its reading with an error that names it. */
const EXCESS_BYTES = 1024 * 1024;

/** Options of {@link discover}. */
export interface DiscoveryOptions extends RpcClientOptions {
  /** Default: {@link CATALOG_LIMITS}. */
  readonly limits?: CatalogLimits;
  /** Shared by the catalogs of one discovery. */
  readonly texts?: CatalogTexts;
  /** Shared by all discoveries (default: new). */
  readonly slicer?: TimeSlicer;
  /** Records when each list is read. */
  readonly reads?: ListReads | undefined;
}

/**
 * Reads the complete catalog, page by page. Lists that the upstream does not declare or support are empty; any other error, and a
 * catalog beyond the limits, fails the whole run with an {@link UpstreamError}.
 *
 * `opened` is a client opened with the same capabilities; it is closed at the end. If the upstream loses the session, the
 * run starts over once with a new one.
 */
export async function discover(options: DiscoveryOptions, era: Era, opened?: RpcClient): Promise<Catalog> {
  try {
    return await readCatalog(options, opened ?? (await openClient(options, era)));
  } catch (error) {
    if (!(error instanceof UpstreamError) || error.kind !== 'session-lost') throw error;
    return await readCatalog(options, await openClient(options, era));
  }
}

function openClient(options: RpcClientOptions, era: Era): Promise<RpcClient> {
  return era === 'legacy' ? openLegacy(options) : openModern(options);
}

async function readCatalog(options: DiscoveryOptions, client: RpcClient): Promise<Catalog> {
  const { transport, capabilities } = options;
  const { address } = transport;
  const { limits = CATALOG_LIMITS, texts = new CatalogTexts(address, limits), slicer = new TimeSlicer() } = options;
  const size = new CatalogSize(address, limits);
  const { era, protocolVersion, identity } = client;
  const found = perList((): readonly ListedItem[] => []);
  const cache: Record<string, CacheHint> = {};
  const notes: string[] = [];
  try {
    if (identity.length > MAX_IDENTITY_LENGTH) {
      const limit = `${MAX_IDENTITY_LENGTH / 1024} KiB`;
      throw new UpstreamError('too-large', address, `describes itself in more than ${limit}`);
    }
    for (const list of LISTS) {
      if (!isJsonObject(client.serverCapabilities[list.capability])) continue;
      const items = new ListItems(list, era, texts);
      const reader = new ListReader({ options, client, slicer }, { address, list, size, items });
      options.reads?.begin(list.capability);
      found[list.into] = await reader.read().finally(() => options.reads?.end(list.capability));
      if (reader.cache !== undefined) cache[list.method] = reader.cache;
      notes.push(...reader.notes());
    }
  } finally {
    // In the background.
    void client.close();
  }
  const key = catalogKey(era, capabilities);
  return { key, era, protocolVersion, capabilities, identity, cache, notes, ...found };
}

/** What the lists of one catalog share. */
interface CatalogReading {
  readonly options: DiscoveryOptions;
  readonly client: RpcClient;
  readonly slicer: TimeSlicer;
}

/** Reads one list, page by page. */
class ListReader {
  /** Strictest of the pages' hints; undefined in the legacy era and without a page. */
  cache: CacheHint | undefined = undefined;
  readonly #reading: CatalogReading;
  readonly #page: ListPageParts;
  #pages = 0;
  /** Entries so far, of whatever kind. */
  #seen = 0;
  /** Consecutive pages without entries. */
  #emptyPages = 0;
  #stopped: string | undefined = undefined;

  constructor(reading: CatalogReading, page: ListPageParts) {
    this.#reading = reading;
    this.#page = page;
  }

  async read(): Promise<readonly ListedItem[]> {
    const { address, items } = this.#page;
    const cursors = new Set<string>();
    let cursor: unknown;
    do {
      const { found } = items;
      const result = await this.#readPage(cursor === undefined ? undefined : { cursor });
      if (!result) break;
      if (this.#reading.options.signal?.aborted)
        throw new UpstreamError('aborted', address, 'was not read to the end: the discovery was canceled');
      this.#pages++;
      // Any string is a cursor, also the empty one; null means the same as none.
      cursor = result.nextCursor ?? undefined;
      if (cursor !== undefined && typeof cursor !== 'string') {
        this.#stopped = 'a cursor that is not a string';
      } else if (cursor !== undefined && cursors.has(cursor)) {
        this.#stopped = 'a repeated cursor';
      } else if (cursor !== undefined) {
        cursors.add(cursor);
        this.#checkProgress(items.found > found, items.count > this.#seen);
      }
      this.#seen = items.count;
    } while (cursor !== undefined && this.#stopped === undefined);
    return items.accepted;
  }

  /** Stops at a page that the upstream repeats with a new cursor, and after many without entries, of which some have a few. */
  #checkProgress(hasNewEntries: boolean, hasEntries: boolean): void {
    if (hasNewEntries) this.#emptyPages = 0;
    else if (hasEntries) this.#stopped = `a page without a new ${this.#page.list.key}`;
    else if (++this.#emptyPages >= MAX_EMPTY_PAGES) this.#stopped = `${MAX_EMPTY_PAGES} pages without entries`;
  }

  notes(): string[] {
    const { items, list } = this.#page;
    const notes = items.notes();
    if (this.#stopped !== undefined) {
      notes.push(`${list.method}: stopped after ${counted(this.#pages, 'page')} at ${this.#stopped}`);
    }
    return notes;
  }

  /** Returns the members of the result besides the list; undefined if the upstream does not know the method. */
  async #readPage(params: Readonly<Record<string, unknown>> | undefined) {
    const { client, slicer, options } = this.#reading;
    const { limits = CATALOG_LIMITS } = options;
    const { address, items, list, size } = this.#page;
    let bytes = 0;
    const count = (length: number): void => {
      size.add(0, length - bytes);
      bytes = length;
    };
    const onPart = ({ length }: LargeMessage) => count(length);
    const response = await client.requestPage(list.method, params, { maxBytes: limits.bytes + EXCESS_BYTES, onPart });
    if (response.kind === 'error') {
      if (response.code === METHOD_NOT_FOUND) return undefined;
      throw toUpstreamError(response, list.method, address);
    }
    count(response.parts.reduce((sum, { length }) => sum + length, 0));
    const page = new ListPage(this.#page);
    await slicer.run(page.read(response.parts));
    response.free();
    if (!page.items) throw new UpstreamError('invalid', address, `answered ${list.method} without ${list.member}`);
    await slicer.run(items.add(page.items));
    if (client.era === 'modern') this.cache = strictestHint(this.cache, page.result);
    return page.result;
  }
}

/** The stricter of the hints so far and those of one more page; a missing or invalid hint counts as the strictest. */
function strictestHint(before: CacheHint | undefined, result: Readonly<Record<string, unknown>>): CacheHint {
  const { ttlMs, cacheScope } = result;
  const ttl = typeof ttlMs === 'number' && ttlMs > 0 ? Math.floor(ttlMs) : 0;
  return {
    ttlMs: before === undefined ? ttl : Math.min(before.ttlMs, ttl),
    cacheScope: cacheScope === 'public' && before?.cacheScope !== 'private' ? 'public' : 'private',
  };
}
