/**
 * Keeps the first bytes of a body, up to a limit, as a copy of its own: a piece of a body is a view of a larger buffer of
 * its socket, which would stay in memory with it.
 */
export class KeptBytes {
  readonly #limit: number;
  #held: Buffer | undefined = undefined;
  /** Bytes kept so far. */
  length = 0;
  /** Whether there was more than the limit. */
  cut = false;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Keeps as much of the piece as there is room for, and returns how much that was. */
  push(piece: Buffer): number {
    const taken = Math.min(piece.length, this.#limit - this.length);
    if (taken < piece.length) this.cut = true;
    if (taken === 0) return 0;
    const length = this.length + taken;
    if (this.#held === undefined || this.#held.length < length) {
      // Most bodies come in one piece and are not grown; those that are grow by doubling.
      const grown = Buffer.allocUnsafeSlow(this.#held === undefined ? taken : Math.min(length * 2, this.#limit));
      this.#held?.copy(grown, 0, 0, this.length);
      this.#held = grown;
    }
    piece.copy(this.#held, this.length, 0, taken);
    this.length = length;
    return taken;
  }

  /** All that was kept, in a buffer of exactly that size; undefined for nothing. Nothing may be pushed after this. */
  take(): Buffer | undefined {
    const held = this.#held;
    this.#held = undefined;
    if (held === undefined || held.length === this.length) return held;
    const exact = Buffer.allocUnsafeSlow(this.length);
    held.copy(exact, 0, 0, this.length);
    return exact;
  }
}
