const EMPTY = Buffer.alloc(0);
/** Never changed: the first chunk begins a new list. */
const NO_CHUNKS: Buffer[] = [];

/** Chunks from this size on are retained as they are. */
const LARGE_CHUNK_BYTES = 8 * 1024;

/**
 * Collects the chunks of a body. The sender chooses their size, and a buffer object per byte would cost hundreds of times its
 * size: small chunks are copied into larger ones. A body of one chunk, the usual case, is not copied.
 */
export class ChunkBuffer {
  /** Bytes so far. */
  length = 0;
  /** Bytes of memory in use. */
  capacity = 0;
  #chunks: Buffer[] = NO_CHUNKS;
  /** The last chunk, if it has room for small ones. */
  #last: Buffer | undefined = undefined;
  #lastLength = 0;
  /** Size of the last buffer for small chunks. */
  #copyBytes = 2048;

  /** Returns a buffer with these bytes, which are not copied. */
  static of(chunk: Buffer): ChunkBuffer {
    const buffer = new ChunkBuffer();
    buffer.push(chunk);
    return buffer;
  }

  push(chunk: Buffer): void {
    this.length += chunk.length;
    if (this.#chunks.length === 0 || chunk.length >= LARGE_CHUNK_BYTES) {
      this.#close();
      this.#add(chunk);
      this.capacity += chunk.length;
      return;
    }
    const copied = this.#last ? chunk.copy(this.#last, this.#lastLength) : 0;
    this.#lastLength += copied;
    if (copied === chunk.length) return;
    this.#close();
    // Twice the last one, so that the number of chunks grows with the logarithm of the size.
    this.#copyBytes = Math.min(2 * this.#copyBytes, MAX_COPY_BYTES);
    this.#last = Buffer.allocUnsafeSlow(Math.max(this.#copyBytes, chunk.length - copied));
    this.#lastLength = chunk.copy(this.#last, 0, copied);
    this.capacity += this.#last.length;
  }

  /** The chunks so far. */
  get chunks(): readonly Buffer[] {
    this.#close();
    return this.#chunks;
  }

  /** Returns the bytes between two positions, without copying them. */
  slice(from: number, to: number): Buffer[] {
    const parts: Buffer[] = [];
    let start = 0;
    for (const chunk of this.chunks) {
      if (start >= to) break;
      const end = start + chunk.length;
      if (end > from) parts.push(chunk.subarray(Math.max(0, from - start), to - start));
      start = end;
    }
    return parts;
  }

  /** Returns the text between two positions, which is ASCII. */
  toAscii(from = 0, to: number = this.length): string {
    return this.slice(from, to)
      .map((part) => part.toString('latin1'))
      .join('');
  }

  /** Returns all chunks as one buffer, which replaces them. */
  concat(): Buffer {
    const { chunks } = this;
    const [first = EMPTY] = chunks;
    if (chunks.length <= 1) return first;
    const whole = Buffer.concat(chunks, this.length);
    this.#chunks = [whole];
    return whole;
  }

  /** Frees the memory of the chunks at once, see {@link freeBuffer}. */
  free(): void {
    for (const chunk of this.chunks) freeBuffer(chunk);
    this.#chunks = NO_CHUNKS;
    this.length = 0;
    this.capacity = 0;
  }

  #add(chunk: Buffer): void {
    // Most bodies have one chunk, and V8 allocates 17 slots when an empty array grows.
    if (this.#chunks.length === 0) this.#chunks = [chunk];
    else this.#chunks.push(chunk);
  }

  #close(): void {
    if (this.#last) this.#add(this.#last.subarray(0, this.#lastLength));
    this.#last = undefined;
    this.#lastLength = 0;
  }
}

/**
 * Frees the memory of a buffer at once, unless it is a part of a larger one. It must not be in use anywhere, such as in a write to
 * a socket that has not ended. The garbage collector would find it later, but it collects the whole heap for every 50 MB of
 * buffers: that was a third of the cost of a large message.
 */
function freeBuffer({ buffer, byteLength }: Buffer): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0);
}

/** Largest buffer for small chunks; at least {@link LARGE_CHUNK_BYTES}. */
const MAX_COPY_BYTES = 256 * 1024;
