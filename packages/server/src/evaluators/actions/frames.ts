const HEAD_BYTES = 4;

/** A frame of a child process's pipe: its length (32 bits, little endian) and its bytes. */
export function frame(bytes: Uint8Array): Buffer {
  const framed = Buffer.allocUnsafe(HEAD_BYTES + bytes.length);
  framed.writeUInt32LE(bytes.length);
  framed.set(bytes, HEAD_BYTES);
  return framed;
}

/** How much is taken of frames, in bytes. */
export interface FrameLimits {
  /** The longest first frame (default: as any other). */
  readonly first?: number | undefined;
  /** All of them with their heads (default: without end). */
  readonly all?: number | undefined;
}

/** Puts frames together of the pieces that a pipe gives. */
export class FrameReader {
  readonly #maxBytes: number;
  #maxNext: number;
  #left: number;
  #pieces: Buffer[] = [];
  #length = 0;

  /** `maxBytes`: how long a frame may be. */
  constructor(maxBytes: number, { first = maxBytes, all = Number.POSITIVE_INFINITY }: FrameLimits = {}) {
    this.#maxBytes = maxBytes;
    this.#maxNext = first;
    this.#left = all;
  }

  /**
   * The frames that this piece completes; undefined when one is too long, or all are, after which nothing may be read
   * any more.
   */
  take(piece: Buffer): Buffer[] | undefined {
    this.#pieces.push(piece);
    this.#length += piece.length;
    const frames: Buffer[] = [];
    while (this.#length >= HEAD_BYTES) {
      const length = this.#first(HEAD_BYTES).readUInt32LE();
      const whole = HEAD_BYTES + length;
      if (length > this.#maxNext || whole > this.#left) return undefined;
      if (this.#length < whole) break;
      const bytes = this.#first(whole);
      frames.push(bytes.subarray(HEAD_BYTES, whole));
      this.#pieces[0] = bytes.subarray(whole);
      this.#length -= whole;
      this.#left -= whole;
      this.#maxNext = this.#maxBytes;
    }
    return frames;
  }

  /** The first piece, made long enough. */
  #first(length: number): Buffer {
    const [first] = this.#pieces;
    if (first !== undefined && first.length >= length) return first;
    const joined = Buffer.concat(this.#pieces);
    this.#pieces = [joined];
    return joined;
  }
}
