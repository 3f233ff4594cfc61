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
  readonly #budget: MemoryBudget | undefined;
  #buffer: Buffer | undefined = undefined;
  /** Number of stored bytes. */
  length = 0;
  /** Whether bytes were discarded, after which no more are stored. */
  isTruncated = false;

  /** The stored bytes are reserved from `budget`. */
  constructor(limit: number, budget?: MemoryBudget) {
    this.#limit = limit;
    this.#budget = budget;
  }

  /** Stores as much of the chunk as fits; returns the number of stored bytes. */
  push(chunk: Buffer): number {
    const stored = this.isTruncated ? 0 : Math.min(chunk.length, this.#limit - this.length);
    if (stored < chunk.length) this.isTruncated = true;
    if (stored === 0) return 0;
    if (this.#budget?.reserve(stored) === false) {
      this.isTruncated = true;
      return 0;
    }
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

  /** View of the stored bytes, valid until the next push. */
  get bytes(): Buffer | undefined {
    return this.#buffer?.subarray(0, this.length);
  }

  /**
   * Returns the stored bytes in a buffer of exactly that size, which is reserved no longer; undefined if there are none. No push
   * may follow.
   */
  take(): Buffer | undefined {
    const buffer = this.#buffer;
    this.#buffer = undefined;
    if (buffer === undefined) return undefined;
    this.#budget?.release(this.length);
    if (buffer.length === this.length) return buffer;
    const exact = Buffer.allocUnsafeSlow(this.length);
    buffer.copy(exact, 0, 0, this.length);
    return exact;
  }
}
