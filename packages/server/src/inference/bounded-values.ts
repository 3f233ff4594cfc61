import type { JsonValue } from '@sluice/protocol/json/parse';
import { BoundedBuffer, type MemoryBudget } from './bounded-memory.ts';

/** Cost of the first value of a member name, in addition to the length of the name. */
const NEW_MEMBER_COST = 256;
/** Cost of an array or object, in addition to its contents: in memory an empty one takes about ten times its JSON. */
const CONTAINER_COST = 24;
/** Numbers other than small integers can take this many bytes as JSON, however they were written: `1e20` takes 21. */
const LONG_NUMBER_COST = 24;
const SCALAR_COST = 8;
/** Cost of a byte of text as JSON, so that values with a cost of twice the limit take about the limit as JSON. */
const TEXT_COST = 2;
/** Bytes of a character in JSON at most: `\u0000`. */
const MAX_CHARACTER_BYTES = 6;
/** Share of the cost that texts leave for what follows them, such as usage. */
const HEADROOM = 1 / 64;
const MAX_MEMBERS = 64;
/** Objects with more members are stored as dictionaries, which cost more per member. */
const MAX_RECORD_MEMBERS = 32;
const DICTIONARY_MEMBER_COST = 32;
/** Deeper values are dropped: serializing them would exhaust the stack. */
const MAX_DEPTH = 512;

/**
 * Limits the JSON values that are stored of one stream, which may have any length: a few bytes of JSON can take much memory
 * and long to serialize. Every stored value is counted until it is replaced. Values beyond the limit are dropped and
 * `isTruncated` is set; of a text, what fits is stored.
 */
export class BoundedValues {
  /** Whether values were dropped. */
  isTruncated = false;
  /** Depth of the deepest stored value. */
  maxDepth = 0;
  readonly #budget: MemoryBudget;
  readonly #headroom: number;
  #available: number;
  #reserved = 0;
  /** Depth of the value being counted. */
  #depth = 0;

  /** `maxCost`: limit of the cost of all values, which is reserved from `budget`, the memory of all exchanges. */
  constructor(maxCost: number, budget: MemoryBudget) {
    this.#available = maxCost;
    this.#headroom = maxCost * HEADROOM;
    this.#budget = budget;
  }

  /** Returns the list, or its first `limit` values. */
  first(list: readonly JsonValue[], limit: number): readonly JsonValue[] {
    if (list.length <= limit) return list;
    this.isTruncated = true;
    return list.slice(0, limit);
  }

  /** Reserves the cost; returns false if less is available. */
  reserve(cost: number): boolean {
    if (cost > this.#available || !this.#budget.reserve(cost)) {
      this.isTruncated = true;
      return false;
    }
    this.#available -= cost;
    this.#reserved += cost;
    return true;
  }

  /** Reserves the cost of the value and an additional one; returns false if that is not available. */
  reserveValue(value: JsonValue, additional = 0): boolean {
    this.#depth = 0;
    const isReserved = this.reserve(additional + this.#costOf(value, 0));
    if (isReserved && this.#depth > this.maxDepth) this.maxDepth = this.#depth;
    return isReserved;
  }

  /** Reserves the cost of a text; returns its beginning as far as that is available. */
  reserveText(text: string): string {
    let part = text;
    let cost = TEXT_COST * jsonBytes(part);
    const available = this.#available - this.#headroom;
    if (cost > available) {
      this.isTruncated = true;
      const fits = Math.floor(available / TEXT_COST / MAX_CHARACTER_BYTES);
      part = text.slice(0, Math.max(fits, 0));
      cost = TEXT_COST * jsonBytes(part);
    }
    return this.reserve(cost) ? part : '';
  }

  /** Sets a member if its cost is available; an earlier value costs nothing anymore. */
  set(members: Map<string, JsonValue>, name: string, value: JsonValue): void {
    const earlier = members.get(name);
    // Most members of an event are those of the one before.
    if (earlier === value) return;
    if (earlier === undefined && members.size >= MAX_MEMBERS) {
      this.isTruncated = true;
      return;
    }
    const before = earlier === undefined ? 0 : this.#costOf(earlier, 0);
    if (!this.reserveValue(value, earlier === undefined ? NEW_MEMBER_COST + name.length : 0)) return;
    members.set(name, value);
    this.#giveBack(before);
  }

  /** Replaces everything that was stored by one value; returns false, and replaces nothing, if its cost is not available. */
  replaceAll(value: JsonValue): boolean {
    const before = this.#reserved;
    this.#giveBack(before);
    if (this.reserveValue(value)) return true;
    this.#available -= before;
    this.#reserved = before;
    // What was released in this turn of the event loop is still there.
    this.#budget.reserve(before);
    return false;
  }

  /** Returns what was reserved to the memory of all exchanges. No value may be stored afterwards. */
  release(): void {
    this.#giveBack(this.#reserved);
    this.#available = 0;
  }

  #giveBack(cost: number): void {
    this.#available += cost;
    this.#reserved -= cost;
    this.#budget.release(cost);
  }

  #costOf(value: JsonValue, depth: number): number {
    if (typeof value === 'string') return SCALAR_COST + TEXT_COST * jsonBytes(value);
    if (typeof value === 'number') return (value | 0) === value ? SCALAR_COST : LONG_NUMBER_COST;
    if (typeof value !== 'object' || value === null) return SCALAR_COST;
    if (depth >= MAX_DEPTH) return Number.POSITIVE_INFINITY;
    if (depth >= this.#depth) this.#depth = depth + 1;
    let cost = CONTAINER_COST;
    if (Array.isArray(value)) {
      for (const each of value) cost += this.#costOf(each, depth + 1);
      return cost;
    }
    let members = 0;
    for (const [name, each] of Object.entries(value)) {
      members++;
      cost += name.length + this.#costOf(each, depth + 1);
    }
    return members > MAX_RECORD_MEMBERS ? cost + members * DICTIONARY_MEMBER_COST : cost;
  }
}

/** Characters with an escape in JSON. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are escaped in JSON
const ESCAPED = /["\\\u0000-\u001f]/;

/** Texts up to this length, as the pieces of a stream, are counted here: a native call costs more. */
const SHORT_CHARACTERS = 32;

/** Bytes of a text as JSON, without quotes; at most. */
function jsonBytes(text: string): number {
  if (text.length <= SHORT_CHARACTERS) {
    let bytes = 0;
    for (let at = 0; at < text.length; at++) {
      const code = text.charCodeAt(at);
      if (code < 0x20) bytes += MAX_CHARACTER_BYTES;
      else if (code < 0x80) bytes += code === 0x22 || code === 0x5c ? 2 : 1;
      else bytes += code < 0x800 ? 2 : 3;
    }
    return bytes;
  }
  return ESCAPED.test(text) ? Buffer.byteLength(JSON.stringify(text)) - 2 : Buffer.byteLength(text);
}

/** Pieces that are joined at once: a string of many pieces takes ten times as much memory as its characters. */
const MAX_PIECES = 16;
const HIGH_SURROGATE = /[\ud800-\udbff]$/;

/** Concatenates the pieces of a text of a stream, as long as their cost is available; afterwards the text is cut. */
export class RecordedText {
  readonly #values: BoundedValues;
  readonly #stored = new BoundedBuffer(Number.POSITIVE_INFINITY);
  #pending = '';
  #pieces = 0;
  #isCut = false;

  constructor(values: BoundedValues) {
    this.#values = values;
  }

  add(text: string): void {
    if (text === '') return;
    if (this.#isCut) return;
    const part = this.#values.reserveText(text);
    this.#isCut = part.length < text.length;
    this.#pending += part;
    if (++this.#pieces >= MAX_PIECES) this.#join();
  }

  /** The text so far. */
  toString(): string {
    return `${this.#stored.bytes?.toString() ?? ''}${this.#pending}`.toWellFormed();
  }

  #join(): void {
    // The other half of a character may follow.
    const [rest = ''] = HIGH_SURROGATE.exec(this.#pending) ?? [];
    this.#stored.push(Buffer.from(this.#pending.slice(0, this.#pending.length - rest.length)));
    this.#pending = rest;
    this.#pieces = 0;
  }
}
