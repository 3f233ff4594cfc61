import { setImmediate as nextTurn } from 'node:timers/promises';
import { isJsonObject } from '@sluice/protocol/json/parse';
import { elements, members } from '@sluice/protocol/json/text';
import { type ClientCapabilities, catalogKey } from '@sluice/protocol/mcp/capabilities';
import { type Era, METHOD_NOT_FOUND } from '@sluice/protocol/mcp/constants';
import { UpstreamError } from '../../http/client/errors.ts';
import type { DiscoveredCatalog, ListedItem } from '../../registry/catalogs.ts';
import type { CacheHint } from '../../registry/entries.ts';
import { CATALOG_LIMITS, type CatalogLimits, CatalogSize, CatalogTexts } from './catalog/catalog-size.ts';
import { ListItems, type ListSpec } from './catalog/list-items.ts';
import { openLegacy, openModern, type RpcClient, type RpcClientOptions, requireResult } from './rpc-client.ts';

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

/** Items of a page processed before other work gets a turn: a page may have a hundred thousand. */
const ITEMS_PER_TURN = 1_000;

/** Options of {@link discover}. */
export interface DiscoveryOptions extends RpcClientOptions {
  /** Default: {@link CATALOG_LIMITS}. */
  readonly limits?: CatalogLimits;
  /** Shared by the catalogs of one discovery. */
  readonly texts?: CatalogTexts;
}

/**
 * Reads the complete catalog, page by page (decisions 4.3, 10.4). Lists that the upstream does not declare or support are
 * empty; any other error, and a catalog beyond the limits, fails the whole run with an {@link UpstreamError}.
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
  const { limits = CATALOG_LIMITS, texts = new CatalogTexts(address, limits) } = options;
  const size = new CatalogSize(address, limits);
  const { era, protocolVersion, identity } = client;
  const found: Record<ListSpec['into'], ListedItem[]> = { tools: [], resources: [], templates: [], prompts: [] };
  const cache: Record<string, CacheHint> = {};
  const notes: string[] = [];
  try {
    if (identity.length > MAX_IDENTITY_LENGTH) {
      const limit = `${MAX_IDENTITY_LENGTH / 1024} KiB`;
      throw new UpstreamError('too-large', address, `describes itself in more than ${limit}`);
    }
    for (const list of LISTS) {
      if (!isJsonObject(client.serverCapabilities[list.capability])) continue;
      const reader = new ListReader(options, client, list, { size, texts });
      found[list.into] = await reader.read();
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
interface CatalogParts {
  readonly size: CatalogSize;
  readonly texts: CatalogTexts;
}

/** Reads one list, page by page. */
class ListReader {
  /** Strictest of the pages' hints; undefined in the legacy era and without a page. */
  cache: CacheHint | undefined = undefined;
  readonly #address: string;
  readonly #client: RpcClient;
  readonly #list: ListSpec;
  readonly #signal: AbortSignal | undefined;
  readonly #size: CatalogSize;
  readonly #items: ListItems;
  #pages = 0;
  #stopped: string | undefined = undefined;

  constructor(
    { transport, signal }: DiscoveryOptions,
    client: RpcClient,
    list: ListSpec,
    { size, texts }: CatalogParts,
  ) {
    this.#address = transport.address;
    this.#client = client;
    this.#list = list;
    this.#signal = signal;
    this.#size = size;
    this.#items = new ListItems(list, client.era, texts);
  }

  async read(): Promise<ListedItem[]> {
    const { method } = this.#list;
    const cursors = new Set<string>();
    let cursor: unknown;
    do {
      const reply = await this.#client.request(method, cursor === undefined ? undefined : { cursor });
      if (reply.kind === 'error' && reply.code === METHOD_NOT_FOUND) break;
      const { text, result } = requireResult(reply, method, this.#address);
      if (this.#signal?.aborted)
        throw new UpstreamError('aborted', this.#address, 'was not read to the end: the discovery was canceled');
      this.#pages++;
      this.#size.add(0, Buffer.byteLength(text));
      await this.#readPage(text, result);
      // Any string is a cursor, also the empty one; null means the same as none.
      cursor = result.nextCursor ?? undefined;
      if (cursor !== undefined && typeof cursor !== 'string') {
        this.#stopped = 'a cursor that is not a string';
      } else if (cursor !== undefined && cursors.has(cursor)) {
        this.#stopped = 'a repeated cursor';
      } else if (cursor !== undefined) {
        cursors.add(cursor);
      }
    } while (cursor !== undefined && this.#stopped === undefined);
    return this.#items.accepted;
  }

  notes(): string[] {
    const { method } = this.#list;
    const notes = this.#items.notes();
    if (this.#stopped !== undefined) {
      notes.push(`${method}: stopped after ${this.#pages} ${this.#pages === 1 ? 'page' : 'pages'} at ${this.#stopped}`);
    }
    return notes;
  }

  async #readPage(text: string, result: Readonly<Record<string, unknown>>): Promise<void> {
    const { method, member } = this.#list;
    const items = result[member];
    if (!Array.isArray(items)) {
      throw new UpstreamError('invalid', this.#address, `answered ${method} without ${member}`);
    }
    if (this.#client.era === 'modern') this.cache = strictestHint(this.cache, result);
    let index = 0;
    for (const { start, end } of elements(text, lastMemberStart(text, member))) {
      this.#size.add(1, 0);
      this.#items.add(items[index++], text.slice(start, end));
      if (index % ITEMS_PER_TURN === 0) await nextTurn();
    }
  }
}

/** Start of the value of member `name`; of duplicates the last, as `JSON.parse` does. */
function lastMemberStart(text: string, name: string): number {
  let last = text.length;
  for (const { key, start } of members(text)) if (key === name) last = start;
  return last;
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

/** Times of a {@link DiscoveryDebouncer} in milliseconds; for tests. */
export interface DebounceOptions {
  /** From the first trigger to the run: upstreams often change several things at once (default 20). */
  readonly delayMs?: number;
  /** Average time between the starts of runs under continuous triggers (default 500). */
  readonly intervalMs?: number;
}

const DELAY_MS = 20;
const INTERVAL_MS = 500;
/** Runs that may ignore the interval after a quiet time, so that occasional changes are discovered at once. */
const BURST = 3;

/**
 * Converts any number of change notifications of an upstream into runs of discovery: one shortly after the first
 * notification, never two at once, one more for all notifications during a run, and at most two per second on average.
 */
export class DiscoveryDebouncer {
  readonly #run: () => Promise<unknown>;
  readonly #delayMs: number;
  readonly #intervalMs: number;
  #timer: NodeJS.Timeout | undefined = undefined;
  #running = false;
  #rerun = false;
  #closed = false;
  /** Start of the next run if all runs had observed the interval, in milliseconds of `performance.now()`. */
  #nextRunAt = 0;

  /** `run` discovers; its failure has no effect here. */
  constructor(run: () => Promise<unknown>, { delayMs = DELAY_MS, intervalMs = INTERVAL_MS }: DebounceOptions = {}) {
    this.#run = run;
    this.#delayMs = delayMs;
    this.#intervalMs = intervalMs;
  }

  /** Called for every notification; costs almost nothing. */
  trigger(): void {
    if (this.#running) this.#rerun = true;
    else if (!this.#closed) this.#timer ??= setTimeout(() => this.#start(), this.#delay()).unref();
  }

  /** Prevents further runs. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  #delay(): number {
    const ahead = (BURST - 1) * this.#intervalMs;
    return Math.max(this.#delayMs, this.#nextRunAt - ahead - performance.now());
  }

  #start(): void {
    this.#timer = undefined;
    this.#running = true;
    this.#rerun = false;
    this.#nextRunAt = Math.max(this.#nextRunAt, performance.now()) + this.#intervalMs;
    const done = () => {
      this.#running = false;
      if (this.#rerun) this.trigger();
    };
    this.#run().then(done, done);
  }
}
