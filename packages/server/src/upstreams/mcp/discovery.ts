import { setImmediate as nextTurn } from 'node:timers/promises';
import { isJsonObject } from '@sluice/protocol/json/parse';
import { elements, members } from '@sluice/protocol/json/scan';
import { type ClientCapabilities, catalogueKey } from '@sluice/protocol/mcp/capabilities';
import { type Era, METHOD_NOT_FOUND } from '@sluice/protocol/mcp/constants';
import { readParamHeaders } from '@sluice/protocol/mcp/param-headers';
import { quoted, UpstreamError } from '../../http/client/errors.ts';
import type { FoundCatalogue, FoundItem } from '../../registry/catalogs.ts';
import type { CacheHint } from '../../registry/entries.ts';
import { type ClientOptions, openLegacy, openModern, resultOf, type UpstreamClient } from './client.ts';

/** All that an upstream offers to clients of one era and one set of capabilities. */
export interface Catalogue extends FoundCatalogue {
  readonly era: Era;
  /** The version it was read with. */
  readonly protocolVersion: string;
  readonly capabilities: ClientCapabilities;
  /** What was left out or cut short, for the forward's `statusMessage`; empty when nothing was. */
  readonly notes: readonly string[];
}

/** What is asked where the upstream declares `capability`. */
interface List {
  readonly into: 'tools' | 'resources' | 'templates' | 'prompts';
  readonly capability: 'tools' | 'resources' | 'prompts';
  readonly method: string;
  /** The result's member that holds the list. */
  readonly member: string;
  /** The member of an item that it is addressed by. */
  readonly key: string;
}

const LISTS: readonly List[] = [
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

/** What an upstream may say of itself goes to every client, and a list without an end would take all memory. */
const LARGEST_IDENTITY = 256 * 1024;
const LARGEST_LIST = 256 * 1024 * 1024;

/** Items cut out of a page before other work gets its turn: a page may hold a hundred thousand. */
const ITEMS_PER_TURN = 1_000;

/**
 * Reads the complete catalogue, page by page without any cap (decisions 4.3). Lists that the upstream does not declare
 * or does not know are empty; any other error rejects with an {@link UpstreamError}, and nothing of the run counts.
 *
 * `opened` is a client to go on with, opened with the same capabilities; it is closed at the end like one of our own. A
 * session that the upstream forgets in the middle is opened anew once, and the run begins again.
 */
export async function discover(options: ClientOptions, era: Era, opened?: UpstreamClient): Promise<Catalogue> {
  try {
    return await read(options, opened ?? (await open(options, era)));
  } catch (error) {
    if (!(error instanceof UpstreamError) || error.kind !== 'session-lost') throw error;
    return await read(options, await open(options, era));
  }
}

function open(options: ClientOptions, era: Era): Promise<UpstreamClient> {
  return era === 'legacy' ? openLegacy(options) : openModern(options);
}

async function read(options: ClientOptions, client: UpstreamClient): Promise<Catalogue> {
  const { transport, capabilities, signal } = options;
  const { era, protocolVersion, identity } = client;
  const found: Record<List['into'], FoundItem[]> = { tools: [], resources: [], templates: [], prompts: [] };
  const cache: Record<string, CacheHint> = {};
  const notes: string[] = [];
  try {
    if (identity.length > LARGEST_IDENTITY) {
      const limit = `${LARGEST_IDENTITY / 1024} KiB`;
      throw new UpstreamError('too-large', transport.address, `says more than ${limit} of itself and its use`);
    }
    for (const list of LISTS) {
      if (!isJsonObject(client.serverCapabilities[list.capability])) continue;
      const reader = new ListReader(transport.address, client, list, signal);
      found[list.into] = await reader.read();
      if (reader.cache !== undefined) cache[list.method] = reader.cache;
      notes.push(...reader.notes());
    }
  } finally {
    // Nobody waits for the upstream to forget a session.
    void client.close();
  }
  const key = catalogueKey(era, capabilities);
  return { key, era, protocolVersion, capabilities, identity, cache, notes, ...found };
}

/** Reads one list to its end. */
class ListReader {
  /** The least and strictest of the pages' hints; undefined on the legacy era and when there was no page. */
  cache: CacheHint | undefined = undefined;
  readonly #address: string;
  readonly #client: UpstreamClient;
  readonly #list: List;
  readonly #signal: AbortSignal | undefined;
  #length = 0;
  readonly #items: FoundItem[] = [];
  readonly #keys = new Set<string>();
  #pages = 0;
  #stopped: string | undefined = undefined;
  #unnamed = 0;
  #repeated = 0;
  #invalid = 0;
  #firstInvalid = '';

  constructor(address: string, client: UpstreamClient, list: List, signal: AbortSignal | undefined) {
    this.#address = address;
    this.#client = client;
    this.#list = list;
    this.#signal = signal;
  }

  async read(): Promise<FoundItem[]> {
    const { method } = this.#list;
    const cursors = new Set<string>();
    let cursor: unknown;
    do {
      const reply = await this.#client.request(method, cursor === undefined ? undefined : { cursor });
      if (reply.kind === 'error' && reply.code === METHOD_NOT_FOUND) break;
      const { text, result } = resultOf(reply, method, this.#address);
      if (this.#signal?.aborted) throw new UpstreamError('aborted', this.#address, 'is not asked any further');
      this.#pages++;
      this.#length += text.length;
      if (this.#length > LARGEST_LIST) {
        const limit = `${LARGEST_LIST / 1024 / 1024} MiB`;
        throw new UpstreamError('too-large', this.#address, `answers ${method} with more than ${limit}`);
      }
      await this.#page(text, result);
      // Any string is a cursor, the empty one too; null means what a missing one means.
      cursor = result.nextCursor ?? undefined;
      if (cursor !== undefined && typeof cursor !== 'string') {
        this.#stopped = 'a cursor that is no string';
      } else if (cursor !== undefined && cursors.has(cursor)) {
        this.#stopped = 'a cursor that had come before';
      } else if (cursor !== undefined) {
        cursors.add(cursor);
      }
    } while (cursor !== undefined && this.#stopped === undefined);
    return this.#items;
  }

  notes(): string[] {
    const { method, key } = this.#list;
    const notes: string[] = [];
    if (this.#unnamed > 0) notes.push(`${method}: ${counted(this.#unnamed)} without ${key} skipped`);
    if (this.#repeated > 0) notes.push(`${method}: ${counted(this.#repeated)} with a repeated ${key} skipped`);
    if (this.#invalid > 0) notes.push(`${method}: ${counted(this.#invalid)} left out, first ${this.#firstInvalid}`);
    if (this.#stopped !== undefined) {
      notes.push(`${method}: stopped after ${this.#pages} ${this.#pages === 1 ? 'page' : 'pages'} at ${this.#stopped}`);
    }
    return notes;
  }

  async #page(text: string, result: Readonly<Record<string, unknown>>): Promise<void> {
    const { method, member } = this.#list;
    const items = result[member];
    if (!Array.isArray(items)) {
      throw new UpstreamError('invalid', this.#address, `answered ${method} without ${member}`);
    }
    if (this.#client.era === 'modern') this.cache = strictest(this.cache, result);
    let index = 0;
    for (const { start, end } of elements(text, lastStart(text, member))) {
      const item: unknown = items[index++];
      this.#accept(item, text, start, end);
      if (index % ITEMS_PER_TURN === 0) await nextTurn();
    }
  }

  #accept(item: unknown, text: string, start: number, end: number): void {
    const key = isJsonObject(item) ? item[this.#list.key] : undefined;
    if (!isJsonObject(item) || typeof key !== 'string' || key === '') {
      this.#unnamed++;
      return;
    }
    if (this.#keys.has(key)) {
      this.#repeated++;
      return;
    }
    if (this.#list.into === 'tools' && this.#client.era === 'modern') {
      const headers = readParamHeaders(item.inputSchema);
      if (!headers.valid) {
        this.#invalid++;
        this.#firstInvalid ||= `${quoted(key)}: ${headers.reason}`;
        return;
      }
    }
    this.#keys.add(key);
    this.#items.push({ key, json: text.slice(start, end) });
  }
}

/** Where the value of `name` begins; of duplicates the last, which is the one that was parsed. */
function lastStart(text: string, name: string): number {
  let last = text.length;
  for (const { key, start } of members(text)) if (key === name) last = start;
  return last;
}

/** The hints of one more page taken in; what is missing or makes no sense counts as the strictest. */
function strictest(before: CacheHint | undefined, result: Readonly<Record<string, unknown>>): CacheHint {
  const { ttlMs, cacheScope } = result;
  const ttl = typeof ttlMs === 'number' && ttlMs > 0 ? Math.floor(ttlMs) : 0;
  return {
    ttlMs: before === undefined ? ttl : Math.min(before.ttlMs, ttl),
    cacheScope: cacheScope === 'public' && before?.cacheScope !== 'private' ? 'public' : 'private',
  };
}

function counted(count: number): string {
  return count === 1 ? '1 entry' : `${count} entries`;
}
