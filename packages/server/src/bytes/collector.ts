/**
 * Collects the pieces of a body. A sender chooses how small they are, and a buffer object for each byte would cost
 * hundreds of times the bytes: so from the second piece on they are copied into one buffer that grows by doubling.
 * A body that comes in one piece, as most do, is not copied.
 */
export class ByteCollector {
  /** Bytes collected so far. */
  length = 0;
  #held: Buffer | undefined = undefined;
  #owned = false;

  push(piece: Buffer): void {
    const length = this.length + piece.length;
    if (this.#held === undefined) {
      this.#held = piece;
    } else {
      if (!this.#owned || this.#held.length < length) {
        const grown = Buffer.allocUnsafeSlow(Math.max(4096, length * 2));
        this.#held.copy(grown, 0, 0, this.length);
        this.#held = grown;
        this.#owned = true;
      }
      piece.copy(this.#held, this.length);
    }
    this.length = length;
  }

  /** All that was collected. Nothing may be pushed after this. */
  take(): Buffer {
    const held = this.#held ?? Buffer.alloc(0);
    this.#held = undefined;
    return held.subarray(0, this.length);
  }
}
