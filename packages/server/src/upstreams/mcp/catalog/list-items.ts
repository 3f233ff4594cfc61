import { mcpEntries, validate } from '@sluice/contract';
import { isJsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { findMember, stringValue } from '@sluice/protocol/json/text';
import type { Era } from '@sluice/protocol/mcp/constants';
import { readParamHeaders } from '@sluice/protocol/mcp/param-headers';
import { counted, singleLine } from '@sluice/protocol/text';
import { quoted } from '../../../http/client/errors.ts';
import type { ListedItem } from '../../../registry/catalogs.ts';
import type { AnnouncedList } from '../../forward-connection.ts';
import type { ListMethod } from '../rpc-client.ts';
import type { CatalogTexts, CheckedItem, ServedList } from './catalog-texts.ts';

/** A list of an upstream, requested if it declares `capability`. */
export interface ListSpec {
  readonly into: ServedList;
  readonly capability: AnnouncedList;
  readonly method: ListMethod;
  /** Member of the result with the list. */
  readonly member: string;
  /** Member of an item that identifies it. */
  readonly key: string;
}

/** Entries that a note names, and characters of each name. */
const MAX_NAMED = 20;
const MAX_NAME_LENGTH = 64;
/** Longest key that is read of an entry that is not parsed. */
const MAX_KEY_LENGTH = 1_024;
const ITEMS_PER_STEP = 500;

/**
 * Checks and collects the items of one list. Items without a key and repeated ones are skipped and counted. Items for which
 * clients would reject the whole list are left out, counted and named.
 */
export class ListItems {
  readonly accepted: ListedItem[] = [];
  readonly #list: ListSpec;
  readonly #era: Era;
  readonly #texts: CatalogTexts;
  readonly #keys = new Set<string>();
  readonly #unusableKeys = new Set<string>();
  /** Number of items, of whatever kind. */
  count = 0;
  #unnamed = 0;
  #repeated = 0;
  #unusable = 0;
  readonly #named: string[] = [];

  constructor(list: ListSpec, era: Era, texts: CatalogTexts) {
    this.#list = list;
    this.#era = era;
    this.#texts = texts;
  }

  /** Checks an item, given as its exact text. Throws an `UpstreamError` if the catalog is too large. */
  check(json: string): CheckedItem {
    return this.#texts.item(this.#list.into, this.#era, json, this.#parse);
  }

  /** An item that is not parsed; `json` is empty if it was not even stored. */
  unread(json: string, problem: string): CheckedItem {
    // The first one: the rest of the text is large.
    const found = findMember(json, this.#list.key);
    const text = found ? json.slice(found.start, found.end) : '';
    const isShort = text.startsWith('"') && text.length <= MAX_KEY_LENGTH;
    return { key: isShort ? stringValue(text) : 'an entry', json: '', problem };
  }

  /** Adds the items of one page. */
  *add(items: readonly CheckedItem[]): Generator<undefined, void> {
    let count = 0;
    for (const item of items) {
      this.#add(item);
      if (++count % ITEMS_PER_STEP === 0) yield;
    }
  }

  /** Number of different keys, also of unusable items. */
  get found(): number {
    return this.#keys.size + this.#unusableKeys.size;
  }

  #add(item: CheckedItem): void {
    this.count++;
    if (!hasKey(item)) this.#unnamed++;
    else if (this.#keys.has(item.key)) this.#repeated++;
    else if (item.problem !== undefined) {
      this.#unusableKeys.add(item.key);
      const name = singleLine(item.key, MAX_NAME_LENGTH);
      if (++this.#unusable <= MAX_NAMED) this.#named.push(`${name} (${quoted(item.problem)})`);
    } else {
      this.#keys.add(item.key);
      // All catalogs with the same text share the item.
      this.accepted.push(item);
    }
  }

  /** What was not accepted, for the forward's `statusMessage`. */
  notes(): string[] {
    const { method, key } = this.#list;
    const notes: string[] = [];
    if (this.#unnamed > 0) notes.push(`${method}: ${counted(this.#unnamed, 'entry')} without ${key} skipped`);
    if (this.#repeated > 0) notes.push(`${method}: ${counted(this.#repeated, 'entry')} with a repeated ${key} skipped`);
    if (this.#unusable > 0) {
      const more = this.#unusable > MAX_NAMED ? ` and ${this.#unusable - MAX_NAMED} more` : '';
      notes.push(`${method}: ${counted(this.#unusable, 'entry')} left out: ${this.#named.join(', ')}${more}`);
    }
    return notes;
  }

  readonly #parse = (json: string): CheckedItem => {
    const value = tryParseJson(json);
    const key = isJsonObject(value) ? value[this.#list.key] : undefined;
    if (!isJsonObject(value) || typeof key !== 'string' || key === '') return { key: undefined, json };
    return { key, json, problem: this.#problemOf(value) };
  };

  #problemOf(value: Readonly<Record<string, unknown>>): string | undefined {
    const checked = validate(mcpEntries[this.#list.into], value);
    const [violation] = 'issues' in checked ? checked.issues : [];
    if (violation) return `${violation.path} ${violation.message}`;
    if (this.#list.into !== 'tools' || this.#era !== 'modern') return undefined;
    const headers = readParamHeaders(value.inputSchema);
    return headers.valid ? undefined : headers.reason;
  }
}

function hasKey(item: CheckedItem): item is CheckedItem & ListedItem {
  return item.key !== undefined;
}
