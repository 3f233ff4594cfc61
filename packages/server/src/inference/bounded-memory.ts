import type { JsonValue } from '@sluice/protocol/json/parse';

/**
 * Limits the memory that all exchanges in progress use for their bodies, decoded or not. One exchange uses a few MiB per
 * direction, but there may be thousands: bytes beyond the budget are not recorded, and the record is marked as truncated.
 */
export class MemoryBudget {
  #available: number;

  constructor(bytes: number) {
    this.#available = bytes;
  }

  /** Reserves the bytes; returns false and reserves nothing if fewer are available. */
  reserve(bytes: number): boolean {
    if (bytes > this.#available) return false;
    this.#available -= bytes;
    return true;
  }

  /** Returns reserved bytes. */
  release(bytes: number): void {
    this.#available += bytes;
  }
}

/**
 * Stores the first bytes of a body, up to a limit, as a copy: a chunk of a body is a view of the larger buffer of its
 * socket, which would stay in memory with it.
 */
export class BoundedBuffer {
  readonly #limit: number;
  #buffer: Buffer | undefined = undefined;
  /** Number of stored bytes. */
  length = 0;
  /** Whether bytes beyond the limit were discarded. */
  isTruncated = false;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Stores as much of the chunk as fits; returns the number of stored bytes. */
  push(chunk: Buffer): number {
    const stored = Math.min(chunk.length, this.#limit - this.length);
    if (stored < chunk.length) this.isTruncated = true;
    if (stored === 0) return 0;
    const length = this.length + stored;
    if (this.#buffer === undefined || this.#buffer.length < length) {
      // Most bodies arrive in one chunk and never grow; the others grow by doubling.
      const grown = Buffer.allocUnsafeSlow(this.#buffer === undefined ? stored : Math.min(length * 2, this.#limit));
      this.#buffer?.copy(grown, 0, 0, this.length);
      this.#buffer = grown;
    }
    chunk.copy(this.#buffer, this.length, 0, stored);
    this.length = length;
    return stored;
  }

  /** Returns the stored bytes in a buffer of exactly that size; undefined if there are none. No push may follow. */
  take(): Buffer | undefined {
    const buffer = this.#buffer;
    this.#buffer = undefined;
    if (buffer === undefined || buffer.length === this.length) return buffer;
    const exact = Buffer.allocUnsafeSlow(this.length);
    buffer.copy(exact, 0, 0, this.length);
    return exact;
  }
}

/** Cost of the first value of a member name, in addition to the length of the name. */
const NEW_MEMBER_COST = 256;
/** Cost of an array or object, in addition to its contents: in memory an empty one takes about ten times its JSON. */
const CONTAINER_COST = 24;
/** Numbers other than small integers can take this many bytes as JSON, however they were written: `1e20` takes 21. */
const LONG_NUMBER_COST = 24;
const SCALAR_COST = 8;
const MAX_MEMBERS = 64;
/** Objects with more members are stored as dictionaries, which cost more per member. */
const MAX_RECORD_MEMBERS = 32;
const DICTIONARY_MEMBER_COST = 32;
/** Deeper values are dropped: serializing them would exhaust the stack. */
const MAX_DEPTH = 512;

/**
 * Limits the JSON values that are stored of one stream (decisions 4.8): a few bytes of JSON can take much memory and long
 * to serialize. Every stored value is counted, except a string or number that replaces an earlier value; strings cost
 * little, since they never grow. Values beyond the limit are dropped and `isTruncated` is set.
 */
export class BoundedValues {
  /** Whether values were dropped. */
  isTruncated = false;
  /** Depth of the deepest stored value. */
  maxDepth = 0;
  #available: number;
  /** Depth of the value being counted. */
  #depth = 0;

  constructor(bytes: number) {
    this.#available = bytes;
  }

  /** Returns the list, or its first `limit` values. */
  first(list: readonly JsonValue[], limit: number): readonly JsonValue[] {
    if (list.length <= limit) return list;
    this.isTruncated = true;
    return list.slice(0, limit);
  }

  /** Reserves the bytes; returns false if fewer are available. */
  reserve(bytes: number): boolean {
    if (bytes > this.#available) {
      this.isTruncated = true;
      return false;
    }
    this.#available -= bytes;
    return true;
  }

  /** Reserves the cost of the value and additional bytes; returns false if that is not available. */
  reserveValue(value: JsonValue, additional = 0): boolean {
    this.#depth = 0;
    const isReserved = this.reserve(additional + this.#costOf(value, 0));
    if (isReserved && this.#depth > this.maxDepth) this.maxDepth = this.#depth;
    return isReserved;
  }

  /** Sets a member if its cost is available. */
  set(members: Map<string, JsonValue>, name: string, value: JsonValue): void {
    if (typeof value !== 'object' && members.has(name)) {
      members.set(name, value);
      return;
    }
    const isNew = !members.has(name);
    if (isNew && members.size >= MAX_MEMBERS) this.isTruncated = true;
    else if (this.reserveValue(value, isNew ? NEW_MEMBER_COST + name.length : 0)) members.set(name, value);
  }

  #costOf(value: JsonValue, depth: number): number {
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
