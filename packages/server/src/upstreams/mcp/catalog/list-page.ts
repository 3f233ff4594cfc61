import { isJsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { type JsonKind, JsonScanner, type JsonSink } from '@sluice/protocol/json/scanner';
import { BACKSLASH, COMMA, OPEN_BRACE, OPEN_BRACKET, QUOTE, stringValue } from '@sluice/protocol/json/text';
import { EventDataReader } from '@sluice/protocol/mcp/event-data';
import type { Turns } from '@sluice/protocol/turns';
import { UpstreamError } from '../../../http/client/errors.ts';
import { isAnonymousId, isSameId } from '../request-ids.ts';
import { type ResultScan, type RpcOutcome, readError } from '../rpc-request.ts';
import type { CatalogSize } from './catalog-size.ts';
import type { CheckedItem } from './catalog-texts.ts';
import type { ListItems, ListSpec } from './list-items.ts';

/** Entries that are larger or have more values are left out: they are parsed at once. */
const MAX_ITEM_BYTES = 8 * 1024 * 1024;
const MAX_ITEM_VALUES = 30_000;
/** Larger errors are not read. */
const MAX_ERROR_BYTES = 64 * 1024;
/** Bytes that are scanned in one step. */
const STEP_BYTES = 16 * 1024;

/** Members of a result that are read, besides its list. */
const SCALARS: ReadonlySet<string> = new Set(['nextCursor', 'ttlMs', 'cacheScope']);

/** What an upstream sends for a page, and who needs it. */
export interface ListPageParts {
  readonly address: string;
  readonly list: ListSpec;
  readonly items: ListItems;
  readonly size: CatalogSize;
  readonly turns: Turns;
}

/** A JSON-RPC message while it is read. */
class PageMessage {
  id: unknown;
  isRequest = false;
  hasResult = false;
  /** Members of a result that is an object. */
  result: Record<string, unknown> | undefined = undefined;
  error: unknown;
  /** Items of the list; undefined without a list. */
  items: CheckedItem[] | undefined = undefined;
}

/** Containers that are read: a batch, a message, its result, the list in it. */
type Level = 'batch' | 'message' | 'result' | 'list';
/** Values that are not read member by member. */
type Value = 'item' | 'error' | 'other' | 'scalar';

/**
 * Scan of the response with one page of a list, while it arrives. The page is never in memory as a whole: each entry is parsed
 * and checked by itself, and everything else is skipped. The event loop is held for one step at a time.
 */
export class ListPage implements ResultScan, JsonSink {
  /** Items of the response, in order; undefined without a list. */
  items: readonly CheckedItem[] | undefined = undefined;
  #outcome: RpcOutcome | undefined = undefined;
  readonly #parts: ListPageParts;
  readonly #id: number;
  readonly #events: EventDataReader | undefined;
  #scanner = new JsonScanner(this);
  #message = new PageMessage();
  readonly #levels: Level[] = [];
  #key: string | undefined = undefined;
  #value: Value | undefined = undefined;
  /** Bytes that are being scanned, and their position in the message. */
  #bytes: Buffer = Buffer.alloc(0);
  #base = 0;
  /** Start of the value that is captured; -1 without one. Its earlier bytes are in `#captured`. */
  #from = -1;
  #captured: Buffer[] = [];
  #capturedBytes = 0;

  /** `id` is that of the request. */
  constructor(parts: ListPageParts, id: number, isStream: boolean) {
    this.#parts = parts;
    this.#id = id;
    this.#events = isStream
      ? new EventDataReader({ onData: (bytes) => this.#scan(bytes), onEventEnd: () => this.#endEvent() })
      : undefined;
  }

  get outcome(): RpcOutcome | undefined {
    return this.#events || this.isJson ? this.#outcome : undefined;
  }

  get isFound(): boolean {
    return this.outcome !== undefined;
  }

  get isJson(): boolean {
    return this.#scanner.isComplete;
  }

  write(chunk: Buffer): Promise<boolean> {
    return this.#parts.turns.run(this.#steps(chunk));
  }

  *#steps(chunk: Buffer): Generator<undefined, boolean> {
    this.#parts.size.add(0, chunk.length);
    for (let at = 0; at < chunk.length && !this.#isEnough; at += STEP_BYTES) {
      const piece = chunk.subarray(at, at + STEP_BYTES);
      if (this.#events) this.#events.write(piece);
      else this.#scan(piece);
      yield;
    }
    return this.#isEnough;
  }

  /** A JSON body is read to its end. */
  get #isEnough(): boolean {
    return this.#events !== undefined && this.#outcome !== undefined;
  }

  #scan(bytes: Buffer): void {
    if (this.#isEnough) return;
    this.#bytes = bytes;
    this.#base = this.#scanner.offset;
    this.#scanner.write(bytes);
    if (this.#from < 0) return;
    const rest = bytes.subarray(Math.max(0, this.#from - this.#base));
    this.#capturedBytes += rest.length;
    if (this.#capturedBytes <= MAX_ITEM_BYTES) this.#captured.push(Buffer.from(rest));
    else this.#captured = [];
  }

  #endEvent(): void {
    // A stream may begin with an event that has an id to resume from and nothing else.
    if (this.#isEnough || (this.#scanner.offset === 0 && !this.#scanner.isInvalid)) return;
    // An event that is not JSON is skipped.
    this.#from = -1;
    this.#captured = [];
    this.#capturedBytes = 0;
    this.#scanner = new JsonScanner(this);
    this.#levels.length = 0;
    this.#value = undefined;
  }

  onValue(kind: JsonKind, start: number): boolean {
    const level = this.#levels.at(-1);
    const key = this.#key;
    this.#key = undefined;
    if (level === 'list') {
      this.#parts.size.add(1, 0);
      return this.#skip('item', start);
    }
    const entered = this.#enter(level, key, kind);
    if (entered) {
      this.#levels.push(entered);
      return true;
    }
    if (level === 'message' && key === 'error') return this.#skip('error', start);
    const isScalar = kind !== 'object' && kind !== 'array';
    if (level === 'result' && key === 'nextCursor' && !isScalar) this.#setScalar(key, {});
    const isRead = (level === 'message' && key === 'id') || (level === 'result' && SCALARS.has(key ?? ''));
    if (!isRead || !isScalar) return this.#skip('other');
    this.#key = key;
    this.#value = 'scalar';
    return true;
  }

  onKey(): void {
    const { token } = this.#scanner;
    this.#key = token === undefined ? undefined : stringValue(token);
  }

  onScalar(): void {
    const { token } = this.#scanner;
    if (token === undefined && this.#key === 'nextCursor') {
      const what = `answered ${this.#parts.list.method} with a cursor of more than 64 KiB`;
      throw new UpstreamError('too-large', this.#parts.address, what);
    }
    if (this.#key !== undefined) this.#setScalar(this.#key, token === undefined ? undefined : JSON.parse(token));
    this.#key = undefined;
  }

  onEnd(end: number): void {
    const value = this.#value;
    this.#value = undefined;
    if (value === undefined) {
      if (this.#levels.pop() === 'message') this.#endMessage();
    } else if (value === 'item') this.#message.items?.push(this.#readItem(end));
    else if (value === 'error') this.#readError(end);
  }

  /** The container that begins, if it is read. */
  #enter(level: Level | undefined, key: string | undefined, kind: JsonKind): Level | undefined {
    if (level === undefined && kind === 'array') return 'batch';
    if ((level === undefined || level === 'batch') && kind === 'object') {
      this.#message = new PageMessage();
      return 'message';
    }
    if (level === 'message' && key === 'method') this.#message.isRequest = true;
    if (level === 'message' && key === 'result') {
      // Of duplicates the last one counts.
      this.#message.hasResult = true;
      this.#message.result = kind === 'object' ? {} : undefined;
      this.#message.items = undefined;
      return kind === 'object' ? 'result' : undefined;
    }
    if (level !== 'result' || key !== this.#parts.list.member) return undefined;
    this.#message.items = kind === 'array' ? [] : undefined;
    return kind === 'array' ? 'list' : undefined;
  }

  #skip(value: Value, captureFrom = -1): false {
    this.#value = value;
    this.#from = captureFrom;
    return false;
  }

  #setScalar(key: string, value: unknown): void {
    if (this.#levels.at(-1) === 'message') this.#message.id = value;
    else if (this.#message.result) this.#message.result[key] = value;
  }

  /** The bytes of the captured value, which ends here; undefined if there are too many. */
  #capture(end: number): Buffer | undefined {
    const last = this.#bytes.subarray(Math.max(0, this.#from - this.#base), end - this.#base);
    const bytes = this.#captured.length === 0 ? last : Buffer.concat([...this.#captured, last]);
    const isWhole = this.#capturedBytes + last.length <= MAX_ITEM_BYTES;
    this.#from = -1;
    this.#captured = [];
    this.#capturedBytes = 0;
    return isWhole ? bytes : undefined;
  }

  #readItem(end: number): CheckedItem {
    const bytes = this.#capture(end);
    const { items } = this.#parts;
    if (!bytes) return items.unread('', `larger than ${MAX_ITEM_BYTES} bytes`);
    const json = bytes.toString();
    // Shorter texts cannot have so many.
    const isLong = bytes.length > MAX_ITEM_VALUES && hasMoreValues(bytes, MAX_ITEM_VALUES);
    return isLong ? items.unread(json, `more than ${MAX_ITEM_VALUES} values`) : items.check(json);
  }

  #readError(end: number): void {
    const bytes = this.#capture(end);
    if (!bytes || bytes.length > MAX_ERROR_BYTES) this.#message.error = { code: 0, message: 'too large to be read' };
    else this.#message.error = tryParseJson(bytes.toString());
  }

  #endMessage(): void {
    const message = this.#message;
    if (message.isRequest || this.#outcome) return;
    const error = readError(message.error);
    if (isSameId(this.#id, message.id)) {
      this.#outcome = message.hasResult ? { kind: 'result', result: message.result } : error;
      this.items = message.items;
    } else if (isJsonObject(message.error) && isAnonymousId(message.id)) this.#outcome = error;
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
