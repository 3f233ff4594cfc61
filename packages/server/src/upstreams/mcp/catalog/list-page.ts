import { type JsonKind, JsonScanner, type JsonSink } from '@sluice/protocol/json/scanner';
import { BACKSLASH, COMMA, OPEN_BRACE, OPEN_BRACKET, QUOTE, stringValue } from '@sluice/protocol/json/text';
import { UpstreamError } from '../../../http/client/errors.ts';
import type { Steps } from '../../../registry/steps.ts';
import type { CatalogSize } from './catalog-size.ts';
import type { CheckedItem } from './catalog-texts.ts';
import type { ListItems, ListSpec } from './list-items.ts';

/** Entries that are larger or have more values are left out: they are parsed at once. */
const MAX_ITEM_BYTES = 8 * 1024 * 1024;
const MAX_ITEM_VALUES = 30_000;
/** Bytes that are scanned in one step. */
const STEP_BYTES = 16 * 1024;

/** Members of a result that are read, besides its list. */
const SCALARS: ReadonlySet<string | undefined> = new Set(['nextCursor', 'ttlMs', 'cacheScope']);

/** What an upstream sends for a page, and who needs it. */
export interface ListPageParts {
  readonly address: string;
  readonly list: ListSpec;
  readonly items: ListItems;
  readonly size: CatalogSize;
}

/** Containers that are read, by their depth. */
const MESSAGE = 1;
const RESULT = 2;
const LIST = 3;

/**
 * Response with one page of a list. Each entry is parsed and checked by itself, and everything else is skipped, in steps that hold
 * the event loop for a short time.
 */
export class ListPage implements JsonSink {
  /** Items, in order; undefined without a list. */
  items: CheckedItem[] | undefined = undefined;
  /** Further members of the result. */
  result: Record<string, unknown> = {};
  readonly #parts: ListPageParts;
  readonly #scanner = new JsonScanner(this);
  #depth = 0;
  #key: string | undefined = undefined;
  /** True while a value is read that is none of the containers. */
  #isSkipping = false;
  /** Bytes that are being scanned, and their position in the message. */
  #bytes: Buffer = Buffer.alloc(0);
  #base = 0;
  /** Start of an item that is not complete yet; -1 without one. Its earlier bytes are in `#before`. */
  #from = -1;
  #before: Buffer[] = [];

  constructor(parts: ListPageParts) {
    this.#parts = parts;
  }

  /** Reads the bytes of a message, which is JSON. */
  *read(parts: Iterable<Buffer>): Steps<void> {
    for (const part of parts) {
      for (let at = 0; at < part.length; at += STEP_BYTES) {
        this.#bytes = part.subarray(at, at + STEP_BYTES);
        this.#base = this.#scanner.offset;
        this.#scanner.write(this.#bytes);
        if (this.#from >= 0) this.#before.push(this.#itemBytes());
        yield;
      }
    }
  }

  onValue(kind: JsonKind, start: number): boolean {
    const key = this.#key;
    this.#key = undefined;
    if (this.#enters(kind, key)) {
      this.#depth++;
      return true;
    }
    this.#isSkipping = true;
    if (this.#depth === LIST) {
      this.#parts.size.add(1, 0);
      this.#from = start;
    }
    if (this.#depth !== RESULT || key === undefined || !SCALARS.has(key)) return false;
    this.result[key] = {};
    this.#key = key;
    return kind !== 'object' && kind !== 'array';
  }

  /** Whether the value is one of the containers. Of duplicates the last one counts. */
  #enters(kind: JsonKind, key: string | undefined): boolean {
    if (this.#depth === MESSAGE && key === 'result') {
      this.result = {};
      this.items = undefined;
    } else if (this.#depth === RESULT && key === this.#parts.list.member) {
      this.items = kind === 'array' ? [] : undefined;
      return kind === 'array';
    } else if (this.#depth > 0) return false;
    return kind === 'object';
  }

  onKey(): void {
    const { token } = this.#scanner;
    this.#key = token === undefined ? undefined : stringValue(token);
  }

  onScalar(): void {
    const { token } = this.#scanner;
    const { address, list } = this.#parts;
    if (token === undefined && this.#key === 'nextCursor') {
      throw new UpstreamError('too-large', address, `answered ${list.method} with a cursor of more than 64 KiB`);
    }
    if (this.#key !== undefined) this.result[this.#key] = token === undefined ? undefined : JSON.parse(token);
    this.#key = undefined;
  }

  onEnd(end: number): void {
    if (!this.#isSkipping) this.#depth--;
    else if (this.#from >= 0) this.items?.push(this.#readItem(end));
    this.#isSkipping = false;
    this.#from = -1;
    this.#before = [];
  }

  /** The bytes of the item among those that are being scanned, up to a position in the message. */
  #itemBytes(end = Number.POSITIVE_INFINITY): Buffer {
    return this.#bytes.subarray(Math.max(0, this.#from - this.#base), end - this.#base);
  }

  #readItem(end: number): CheckedItem {
    const { items } = this.#parts;
    if (end - this.#from > MAX_ITEM_BYTES) return items.unread('', `larger than ${MAX_ITEM_BYTES} bytes`);
    const last = this.#itemBytes(end);
    const bytes = this.#before.length === 0 ? last : Buffer.concat([...this.#before, last]);
    const json = bytes.toString();
    // Shorter texts cannot have so many.
    const isLong = bytes.length > MAX_ITEM_VALUES && hasMoreValues(bytes, MAX_ITEM_VALUES);
    return isLong ? items.unread(json, `more than ${MAX_ITEM_VALUES} values`) : items.check(json);
  }
}

/** Whether JSON has more values than this, by its commas and brackets outside strings. */
function hasMoreValues(json: Buffer, limit: number): boolean {
  let count = 0;
  for (let at = 0; at < json.length && count <= limit; at++) {
    const byte = json[at];
    if (byte === COMMA || byte === OPEN_BRACE || byte === OPEN_BRACKET) count++;
    else if (byte === QUOTE) for (at++; at < json.length && json[at] !== QUOTE; at++) if (json[at] === BACKSLASH) at++;
  }
  return count > limit;
}
